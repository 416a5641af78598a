//! Which ticks of a schedule have come, and which are next. Pure.

use std::collections::VecDeque;

use lope_model::{Digest, Span, Timestamp, limit};

use crate::Schedule;

/// Most ticks that are counted one by one; of more, those in between are leapt over.
const COUNTED_MAX: usize = 10_000;

/// Ticks that have come since a time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Come {
    /// The last of them, `limit::CATCH_UP_MAX` at most, in order.
    pub(super) last: VecDeque<Timestamp>,
    /// How many came before those.
    pub(super) before: u64,
}

impl Schedule {
    /// The first tick behind a time, within the schedule's bounds.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let from = self.from.map_or(after, |from| {
            after.max(Timestamp::from_millis(from.millis().saturating_sub(1)))
        });
        self.timing
            .next(from)
            .filter(|tick| self.until.is_none_or(|until| *tick <= until))
    }

    /// When a tick starts its run: later than the tick by an amount that depends on name and tick
    /// alone.
    pub fn start_of(&self, tick: Timestamp) -> Timestamp {
        if self.jitter == Span::ZERO {
            return tick;
        }
        let dice = Digest::of_parts(&[
            b"jitter",
            self.name.as_bytes(),
            &tick.millis().to_le_bytes(),
        ])
        .short();
        tick.plus(Span::from_millis(
            dice % self.jitter.millis().saturating_add(1).max(1),
        ))
    }

    /// The next ticks, at most so many.
    pub fn upcoming(&self, next: Option<Timestamp>, count: usize) -> Vec<Timestamp> {
        std::iter::successors(next, |tick| self.next(*tick))
            .take(count)
            .collect()
    }

    /// The ticks from `first` on that have come by now.
    pub(super) fn come(&self, first: Timestamp, now: Timestamp) -> Come {
        let mut come = Come::default();
        let mut tick = Some(first);
        while let Some(start) = tick {
            let leapt = self.count(start, now, &mut come);
            // Too many to count: go on half-way between there and now. What is left out was given
            // up anyway.
            tick = leapt.and_then(|at| {
                self.next(Timestamp::from_millis(at.millis().midpoint(now.millis())))
            });
        }
        come
    }

    /// Count ticks from `first` on; where it stopped, if it came to no end.
    fn count(&self, first: Timestamp, now: Timestamp, come: &mut Come) -> Option<Timestamp> {
        let mut tick = first;
        for _ in 0..COUNTED_MAX {
            if self.start_of(tick) > now {
                return None;
            }
            come.last.push_back(tick);
            if come.last.len() > limit::CATCH_UP_MAX {
                come.last.pop_front();
                come.before += 1;
            }
            tick = self.next(tick)?;
        }
        Some(tick)
    }
}
