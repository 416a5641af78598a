//! The row of a rate: which runner was granted how many starts, and when.
//!
//! Never more than `count` starts in any stretch of `per`, over all runners: a start counts from the
//! moment it is granted; starts that a runner has in store count until the last moment at which it
//! may use them, unless it says before what it did with them.

use lope_model::policy::RateLimit;
use lope_model::{RunnerId, Span, Timestamp};
use serde::{Deserialize, Serialize};

/// Grants that are kept apart; beyond that neighbours become one, on the strict side.
const GRANTS_MAX: usize = 64;
/// A runner has at most this share of a rate in store, and for no longer than this.
const STORE_SHARE: u64 = 16;
const STORE_FOR: Span = Span::from_secs(10);

/// Starts granted to a runner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct RateGrant {
    runner: RunnerId,
    /// The last moment at which one of them may happen, or has happened.
    until: Timestamp,
    starts: u32,
    /// They are in store: the runner will say what it did with them.
    open: bool,
}

/// The starts of the last `per`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RateRow {
    grants: Vec<RateGrant>,
}

/// Starts that a runner may make without asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StartsInStore {
    pub(crate) left: u32,
    pub(crate) used: u32,
    pub(crate) last_used: Timestamp,
    pub(crate) until: Timestamp,
}

impl RateRow {
    /// How many starts may be granted now.
    pub(crate) fn free(&self, rate: &RateLimit, now: Timestamp) -> u32 {
        let out = self.counted(rate, now).map(|(_, starts)| u64::from(starts));
        let free = u64::from(rate.count).saturating_sub(out.sum());
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    /// When more may be granted, if none may be now.
    pub(crate) fn next_free(&self, rate: &RateLimit, now: Timestamp) -> Timestamp {
        let ends = self.counted(rate, now).map(|(end, _)| end);
        ends.min()
            .unwrap_or(now)
            .max(now.plus(Span::from_millis(1)))
    }

    /// Those that count now: until when, and how many. A clock that was set back may have left some
    /// in the future; they count no longer than one of now would.
    fn counted(
        &self,
        rate: &RateLimit,
        now: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, u32)> + use<'_> {
        let per = rate.per;
        let latest = now.plus(rate.per).plus(STORE_FOR);
        self.grants
            .iter()
            .map(move |grant| (grant.until.plus(per).min(latest), grant.starts))
            .filter(move |(end, _)| *end > now)
    }

    /// Grant starts that happen now.
    pub(crate) fn take(&mut self, rate: &RateLimit, runner: RunnerId, now: Timestamp, starts: u32) {
        self.forget(rate, now);
        self.push(RateGrant {
            runner,
            until: now,
            starts,
            open: false,
        });
    }

    /// Starts that were granted a moment ago did not happen.
    pub(crate) fn give_back(&mut self, runner: RunnerId, starts: u32) {
        let mut left = starts;
        let own = |grant: &&mut RateGrant| grant.runner == runner && !grant.open;
        for grant in self.grants.iter_mut().rev().filter(own) {
            let back = left.min(grant.starts);
            (grant.starts, left) = (grant.starts - back, left - back);
        }
        self.grants.retain(|grant| grant.starts > 0);
    }

    /// What the runner did with what it had in store.
    pub(crate) fn settle(&mut self, runner: RunnerId, stored: &StartsInStore) {
        let own = |grant: &&mut RateGrant| grant.runner == runner && grant.open;
        if let Some(grant) = self.grants.iter_mut().find(own) {
            grant.open = false;
            grant.starts = grant.starts.min(stored.used);
            grant.until = stored.last_used.min(grant.until);
        }
        self.grants.retain(|grant| grant.starts > 0);
    }

    /// Where a rate is large and far from spent, some starts in store, so that not each asks.
    pub(crate) fn store(
        &mut self,
        rate: &RateLimit,
        runner: RunnerId,
        now: Timestamp,
    ) -> Option<StartsInStore> {
        if self.free(rate, now) <= rate.count / 2 {
            return None;
        }
        let per = rate.per.millis().max(1);
        let span = (per / STORE_SHARE).min(STORE_FOR.millis());
        let left = u64::from(rate.count) * span / per;
        let left = u32::try_from(left).ok().filter(|left| *left > 1)?;
        let until = now.plus(Span::from_millis(span));
        self.push(RateGrant {
            runner,
            until,
            starts: left,
            open: true,
        });
        Some(StartsInStore {
            left,
            used: 0,
            last_used: now,
            until,
        })
    }

    /// Runners that were granted something in the last `per`, with this one.
    pub(crate) fn runners(&self, runner: RunnerId) -> u32 {
        let mut runners: Vec<RunnerId> = self.grants.iter().map(|grant| grant.runner).collect();
        runners.push(runner);
        runners.sort_unstable();
        runners.dedup();
        u32::try_from(runners.len()).unwrap_or(u32::MAX)
    }

    fn push(&mut self, grant: RateGrant) {
        match self.grants.last_mut() {
            Some(last) if last.is_like(&grant) && last.until == grant.until => {
                last.starts += grant.starts;
            }
            Some(_) | None => self.grants.push(grant),
        }
        while self.grants.len() > GRANTS_MAX && self.join_neighbours() {}
    }

    /// Two grants that follow each other become one of the later time. False: none can.
    fn join_neighbours(&mut self) -> bool {
        let closed = |pair: &[RateGrant]| !pair[0].open && !pair[1].open;
        let gap = |pair: &[RateGrant]| pair[1].until.since(pair[0].until);
        let closest = (0..self.grants.len().saturating_sub(1))
            .filter(|at| closed(&self.grants[*at..*at + 2]))
            .min_by_key(|at| gap(&self.grants[*at..*at + 2]));
        let Some(at) = closest else { return false };
        let first = self.grants.remove(at);
        let second = &mut self.grants[at];
        second.starts += first.starts;
        second.until = second.until.max(first.until);
        true
    }

    fn forget(&mut self, rate: &RateLimit, now: Timestamp) {
        self.grants.retain(|grant| grant.until.plus(rate.per) > now);
    }
}

impl RateGrant {
    fn is_like(&self, other: &Self) -> bool {
        self.runner == other.runner && !self.open && !other.open
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn runner(number: u8) -> RunnerId {
        RunnerId::from_bytes([number; 16])
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn rate(count: u32, per: u64) -> RateLimit {
        RateLimit {
            count,
            per: Span::from_millis(per),
            name: None,
        }
    }

    #[test]
    fn starts_are_free_again_when_their_stretch_is_over() {
        let mut row = RateRow::default();
        let rate = rate(3, 100);
        assert_eq!(row.free(&rate, at(0)), 3);
        row.take(&rate, runner(1), at(0), 2);
        row.take(&rate, runner(2), at(30), 1);
        assert_eq!(
            (row.free(&rate, at(99)), row.next_free(&rate, at(99))),
            (0, at(100))
        );
        assert_eq!((row.free(&rate, at(100)), row.free(&rate, at(130))), (2, 3));
        row.give_back(runner(2), 1);
        assert_eq!(
            row.free(&rate, at(50)),
            1,
            "what did not happen is free at once"
        );
        assert_eq!(row.runners(runner(3)), 2);
    }

    #[test]
    fn what_is_in_store_counts_until_its_last_moment_or_until_it_is_settled() {
        let mut row = RateRow::default();
        let rate = rate(160, 1_600);
        let stored = row.store(&rate, runner(1), at(0)).unwrap();
        assert_eq!((stored.left, stored.until), (10, at(100)));
        assert_eq!(row.free(&rate, at(1_699)), 150);
        assert_eq!(row.free(&rate, at(1_700)), 160);
        let used = StartsInStore {
            left: 6,
            used: 4,
            last_used: at(20),
            ..stored
        };
        row.settle(runner(1), &used);
        assert_eq!(row.free(&rate, at(1_000)), 156);
        assert_eq!(row.free(&rate, at(1_620)), 160);
        row.take(&rate, runner(1), at(1_000), 100);
        assert_eq!(
            row.store(&rate, runner(1), at(1_000)),
            None,
            "it is half spent"
        );
        assert_eq!(
            RateRow::default().store(&super::tests::rate(10, 1_000), runner(1), at(0)),
            None
        );
    }

    #[test]
    fn a_clock_that_was_set_back_stops_nobody_for_long() {
        let mut row = RateRow::default();
        let rate = rate(1, 1_000);
        row.take(&rate, runner(1), at(1_000_000_000), 1);
        let back = at(0);
        assert_eq!(
            row.next_free(&rate, back),
            back.plus(rate.per).plus(STORE_FOR)
        );
    }

    proptest! {
        #[test]
        fn no_stretch_holds_more_than_the_count(
            count in 1_u32..200, per in 1_u64..5_000,
            asks in prop::collection::vec((0_i64..200, 0_u8..4, 1_u32..6), 1..300),
        ) {
            let rate = rate(count, per);
            let (mut row, mut now, mut granted) = (RateRow::default(), 0, Vec::new());
            for (step, who, wanted) in asks {
                now += step;
                let free = row.free(&rate, at(now)).min(wanted);
                if free > 0 {
                    row.take(&rate, runner(who), at(now), free);
                    granted.extend(std::iter::repeat_n(now, free as usize));
                } else {
                    let next = row.next_free(&rate, at(now));
                    prop_assert!(next > at(now) && row.free(&rate, next) > 0);
                }
            }
            for (index, start) in granted.iter().enumerate() {
                let within = granted[index..].iter().filter(|at| **at < start + per as i64).count();
                prop_assert!(within <= count as usize);
            }
            prop_assert!(row.grants.len() <= GRANTS_MAX);
        }
    }
}
