//! What becomes of a schedule's ticks: the one place where that is decided. Pure: what is known and
//! the time come in, what to write and whether to start a run come out.

use lope_model::{Span, Timestamp, limit};

use crate::{CatchUp, Overlap, Schedule, ScheduleEntry, ScheduleState, Trouble};

/// A tick that is looked at within this time has not been missed.
pub const GRACE: Span = Span::from_secs(10);

/// Longest reason that is kept, in characters.
const MESSAGE_MAX: usize = 1_000;

/// What a look at a due schedule comes to. The entry is what is to be written, but for what became
/// of the start.
#[derive(Clone, PartialEq, Debug)]
pub struct TickDecision {
    pub entry: ScheduleEntry,
    pub start: Option<TickStart>,
}

/// A run to be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TickStart {
    /// The tick that it is started for.
    pub tick: Timestamp,
    /// Is the last run to be cancelled with it?
    pub cancels: bool,
}

impl ScheduleEntry {
    /// Count from now on: the first tick is behind this time.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.standing.next = self.schedule.next(now);
    }

    /// Nothing starts any more; what waits is given up.
    pub fn pause(&mut self) {
        self.schedule.paused = true;
        self.give_up_waiting();
    }

    /// Go on with the next tick; those that came during the pause are no business of the
    /// schedule's.
    pub fn resume(&mut self, now: Timestamp) {
        if self.schedule.paused {
            self.schedule.paused = false;
            self.begin(now);
        }
    }

    /// Another schedule under the same name: what became of earlier ticks stays known.
    pub fn replace(&mut self, schedule: Schedule, now: Timestamp) {
        self.schedule = schedule;
        self.give_up_waiting();
        self.begin(now);
    }

    fn give_up_waiting(&mut self) {
        self.standing.counts.skipped += self.standing.waiting.len() as u64;
        self.standing.waiting.clear();
    }

    /// Look at what is due. One tick is dealt with at a time; if more have come, the entry is due
    /// again at once.
    pub fn decide(mut self, now: Timestamp, running: bool) -> TickDecision {
        if self.schedule.paused {
            return TickDecision {
                entry: self,
                start: None,
            };
        }
        let start = match self.standing.waiting.front() {
            Some(_) if !running => self.standing.waiting.pop_front().map(|tick| TickStart {
                tick,
                cancels: false,
            }),
            Some(_) | None => self.chosen(now).and_then(|tick| self.meet(tick, running)),
        };
        TickDecision { entry: self, start }
    }

    /// The tick to deal with, of those that have come; the others before it are given up.
    fn chosen(&mut self, now: Timestamp) -> Option<Timestamp> {
        let first = self.standing.next?;
        let come = self.schedule.come(first, now);
        let newest = *come.last.back()?;
        let earlier = come.last.len() as u64 - 1;
        let (tick, behind, missed) = match self.schedule.catch_up {
            CatchUp::All => (come.last.front().copied(), come.last[0], come.before),
            CatchUp::Last => (Some(newest), newest, come.before + earlier),
            CatchUp::None if now.since(self.schedule.start_of(newest)) <= GRACE => {
                (Some(newest), newest, come.before + earlier)
            }
            CatchUp::None => (None, newest, come.before + earlier + 1),
        };
        self.standing.counts.missed += missed;
        self.standing.next = self.schedule.next(behind);
        tick
    }

    /// A tick meets the last run, if that is still going.
    fn meet(&mut self, tick: Timestamp, running: bool) -> Option<TickStart> {
        let ScheduleState {
            waiting, counts, ..
        } = &mut self.standing;
        match self.schedule.overlap {
            Overlap::Queue if running || !waiting.is_empty() => {
                if waiting.len() < limit::WAITING_TICKS_MAX {
                    waiting.push_back(tick);
                } else {
                    counts.skipped += 1;
                }
                None
            }
            Overlap::Skip if running => {
                counts.skipped += 1;
                None
            }
            Overlap::CancelOther => Some(TickStart {
                tick,
                cancels: running,
            }),
            Overlap::Allow | Overlap::Queue | Overlap::Skip => Some(TickStart {
                tick,
                cancels: false,
            }),
        }
    }

    /// The start was made.
    pub fn started(&mut self, start: TickStart) {
        self.standing.counts.fired += 1;
        self.standing.last_tick = Some(start.tick);
    }

    /// The start could not be made.
    pub fn failed(&mut self, start: TickStart, at: Timestamp, message: String) {
        self.standing.counts.failed += 1;
        let message = message.chars().take(MESSAGE_MAX).collect();
        self.standing.trouble = Some(Trouble {
            tick: start.tick,
            at,
            message,
        });
    }
}

#[cfg(test)]
mod tests;
