//! Where claims begin to read: due times below which nothing is left, so that a claim need not walk
//! over what was taken before.
//!
//! Rows that were taken stay in the index as dead entries until vacuum removes them, and while
//! somebody keeps an old snapshot it cannot. Claims that read an index from its beginning then walk
//! over all of them, again and again. So once that has become dear, a claim begins where the last
//! one ended, and only now and then at the beginning. In: what claims found and how long they took;
//! out: where the next one begins. Knows no SQL.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lope_model::{QueueName, Realm, Timestamp};

/// A claim from the beginning that takes longer than this is dear.
const DEAR: Duration = Duration::from_millis(20);
/// Dear claims from the beginning may take this share of the time, one in so many.
const SHARE: u32 = 20;
/// How many claims from the beginning must be dear before cursors are used: one may have met a busy
/// machine.
const SAMPLES: usize = 3;
/// Whatever becomes claimable is due when its transaction looked at the clock, which may take this
/// long to commit.
const LAG: i64 = 2_000;
/// Most pairs of queue and realm that are remembered; beyond, all are forgotten.
const LANES_MAX: usize = 1_000;

/// Levels of priority, highest first.
pub(crate) const LEVELS: std::ops::RangeInclusive<i16> = 0..=9;

/// Where claims begin.
#[derive(Debug, Default)]
pub(crate) struct ClaimCursors {
    lanes: HashMap<(QueueName, Realm), [i64; 10]>,
    /// How long the last claims from the beginning took.
    costs: [Duration; SAMPLES],
    number: usize,
    last: Option<Instant>,
}

/// How the next claim is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScanStart {
    /// From the beginning of every lane.
    Beginning,
    /// From the cursors.
    Floor,
}

/// What a claim found, as far as cursors are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanResult {
    pub(crate) now: Timestamp,
    /// Priority and due time of the last run, if there was one.
    pub(crate) last: Option<(i16, Timestamp)>,
    /// Was there nothing behind it?
    pub(crate) all: bool,
}

impl ClaimCursors {
    pub(crate) fn start(&self) -> ScanStart {
        if !self.is_dear() || self.wait().is_zero() {
            ScanStart::Beginning
        } else {
            ScanStart::Floor
        }
    }

    /// How long until the next claim from the beginning.
    pub(crate) fn wait(&self) -> Duration {
        let Some(last) = self.last else {
            return Duration::ZERO;
        };
        (self.cheapest() * SHARE).saturating_sub(last.elapsed())
    }

    fn is_dear(&self) -> bool {
        self.number >= SAMPLES && self.cheapest() > DEAR
    }

    fn cheapest(&self) -> Duration {
        self.costs.iter().min().copied().unwrap_or_default()
    }

    /// A claim from the beginning took this long.
    pub(crate) fn measured(&mut self, cost: Duration) {
        self.costs[self.number % SAMPLES] = cost;
        self.number += 1;
        self.last = Some(Instant::now());
    }

    /// The cursor of a lane.
    pub(crate) fn of(&self, queue: &QueueName, realm: &Realm, priority: i16) -> i64 {
        let lanes = self.lanes.get(&(queue.clone(), realm.clone()));
        lanes.map_or(i64::MIN, |cursors| cursors[priority as usize])
    }

    /// Everything older than what was read is gone, in the lanes that were read.
    pub(crate) fn raise(&mut self, queues: &[QueueName], realms: &[Realm], read: ScanResult) {
        if self.lanes.len() > LANES_MAX {
            self.lanes.clear();
        }
        for queue in queues {
            for realm in realms {
                let cursors = self
                    .lanes
                    .entry((queue.clone(), realm.clone()))
                    .or_insert([i64::MIN; 10]);
                LEVELS.for_each(|level| {
                    cursors[level as usize] = read.cursor(level, cursors[level as usize]);
                });
            }
        }
    }
}

impl ScanResult {
    /// The cursor of a level after the claim, given the one before.
    fn cursor(self, level: i16, before: i64) -> i64 {
        let recent = self.now.millis() - LAG;
        match self.last {
            _ if self.all => recent,
            Some((last, _)) if level > last => recent,
            Some((last, due)) if level == last => due.millis().min(recent),
            _ => before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn cursors(reads: &[ScanResult]) -> [i64; 10] {
        let mut cursors = ClaimCursors::default();
        let (queue, realm) = (QueueName::default(), Realm::default());
        for read in reads {
            cursors.raise(
                std::slice::from_ref(&queue),
                std::slice::from_ref(&realm),
                *read,
            );
        }
        std::array::from_fn(|level| cursors.of(&queue, &realm, level as i16))
    }

    #[test]
    fn cursors_rise_only_in_lanes_that_were_read() {
        assert_eq!(cursors(&[]), [i64::MIN; 10]);
        let last = Some((4, Timestamp::from_millis(900_000)));
        let found = cursors(&[ScanResult {
            now: NOW,
            last,
            all: false,
        }]);
        assert_eq!(found[3], i64::MIN);
        assert_eq!(found[4], 900_000);
        assert_eq!(found[5], 1_000_000 - LAG);
    }

    #[test]
    fn cursors_stay_behind_the_clock_by_what_a_commit_may_take() {
        let last = Some((4, NOW));
        assert_eq!(
            cursors(&[ScanResult {
                now: NOW,
                last,
                all: false
            }])[4],
            1_000_000 - LAG
        );
        assert_eq!(
            cursors(&[ScanResult {
                now: NOW,
                last: None,
                all: true
            }]),
            [1_000_000 - LAG; 10]
        );
    }

    #[test]
    fn claims_begin_at_the_beginning_until_that_is_dear() {
        let mut cursors = ClaimCursors::default();
        for _ in 0..10 {
            assert_eq!(cursors.start(), ScanStart::Beginning);
            cursors.measured(Duration::from_millis(1));
        }
        for _ in 0..SAMPLES {
            cursors.measured(Duration::from_secs(10));
        }
        assert_eq!(cursors.start(), ScanStart::Floor);
        assert!(cursors.wait() > Duration::from_secs(100));
    }
}
