//! A rate limiter: never more than `count` starts in any stretch of `per`.
//!
//! Starts are remembered in at most `MARKS` marks, so that a limit of millions a day stays small;
//! where marks are coarser than a millisecond the limiter errs on the strict side, by a thousandth
//! of `per`.

use std::collections::VecDeque;

use lope_model::policy::RateLimit;
use lope_model::{Span, Timestamp};

use super::breaker::Admission;

/// Most marks that a limiter keeps.
const MARKS: u64 = 1_024;

/// A limiter that was not asked for so long may be forgotten.
const SPENT: Span = Span::from_secs(24 * 3_600);

/// The starts of the last `per`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limiter {
    /// Time of the last start under the mark, and how many there were.
    marks: VecDeque<(Timestamp, u32)>,
    total: u64,
}

impl Limiter {
    /// Asks for a start and counts it if it is granted.
    pub fn admit(&mut self, settings: &RateLimit, now: Timestamp) -> Admission {
        self.forget(settings, now);
        if self.total < u64::from(settings.count) {
            self.mark(settings, now);
            return Admission::Go;
        }
        let oldest = self.marks.front().map_or(now, |(at, _)| *at);
        Admission::Wait(
            oldest
                .plus(settings.per)
                .max(now.plus(Span::from_millis(1))),
        )
    }

    /// Takes the next free start and says when it is: now, or later. Whoever asks asks once, and
    /// starts at that time.
    pub fn reserve(&mut self, settings: &RateLimit, now: Timestamp) -> Timestamp {
        self.forget(settings, now);
        let last = self.marks.back().map_or(now, |(at, _)| (*at).max(now));
        let start = self
            .nth_last(settings.count)
            .map_or(now, |before| before.plus(settings.per))
            .max(last);
        self.mark(settings, start);
        start
    }

    /// The latest start that was granted or reserved.
    pub fn last(&self) -> Option<Timestamp> {
        self.marks.back().map(|(at, _)| *at)
    }

    /// The time of the start that is `count` starts back, if there were so many.
    fn nth_last(&self, count: u32) -> Option<Timestamp> {
        let mut seen = 0_u64;
        self.marks.iter().rev().find_map(|(at, starts)| {
            seen += u64::from(*starts);
            (seen >= u64::from(count)).then_some(*at)
        })
    }

    /// Is every start older than any stretch could matter? `reserve` and `admit` would answer as if
    /// there had been none.
    pub fn is_spent(&self, now: Timestamp) -> bool {
        self.marks
            .back()
            .is_none_or(|(at, _)| at.plus(SPENT) <= now)
    }

    fn forget(&mut self, settings: &RateLimit, now: Timestamp) {
        while let Some((at, starts)) = self.marks.front()
            && at.plus(settings.per) <= now
        {
            self.total -= u64::from(*starts);
            self.marks.pop_front();
        }
    }

    fn mark(&mut self, settings: &RateLimit, now: Timestamp) {
        self.total += 1;
        let width = (settings.per.millis() / MARKS).max(1);
        let window = |at: Timestamp| at.millis().div_euclid(width as i64);
        match self.marks.back_mut() {
            Some((at, starts)) if window(*at) == window(now) => {
                *at = now.max(*at);
                *starts += 1;
            }
            Some(_) | None => self.marks.push_back((now, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn starts_are_granted_up_to_the_count_and_again_when_the_oldest_is_out() {
        let settings = RateLimit {
            count: 2,
            per: Span::from_millis(100),
            name: None,
        };
        let mut limiter = Limiter::default();
        let mut ask = |at: i64| limiter.admit(&settings, Timestamp::from_millis(at));
        assert_eq!(ask(0), Admission::Go);
        assert_eq!(ask(30), Admission::Go);
        assert_eq!(ask(50), Admission::Wait(Timestamp::from_millis(100)));
        assert_eq!(ask(100), Admission::Go);
        assert_eq!(ask(101), Admission::Wait(Timestamp::from_millis(130)));
    }

    #[test]
    fn booked_starts_follow_each_other_as_the_rate_allows() {
        let settings = RateLimit {
            count: 2,
            per: Span::from_millis(100),
            name: None,
        };
        let mut limiter = Limiter::default();
        let mut reserve = |at: i64| {
            limiter
                .reserve(&settings, Timestamp::from_millis(at))
                .millis()
        };
        assert_eq!(
            [
                reserve(0),
                reserve(30),
                reserve(40),
                reserve(40),
                reserve(40)
            ],
            [0, 30, 100, 130, 200]
        );
        assert_eq!(reserve(1_000), 1_000);
    }

    proptest! {
        #[test]
        fn no_stretch_holds_more_booked_starts_than_the_count(
            count in 1_u32..20, per in 1_u64..5_000, steps in prop::collection::vec(0_i64..400, 1..300),
        ) {
            let settings = RateLimit { count, per: Span::from_millis(per), name: None };
            let (mut limiter, mut now, mut reserved) = (Limiter::default(), 0_i64, Vec::new());
            for step in steps {
                now += step;
                reserved.push(limiter.reserve(&settings, Timestamp::from_millis(now)).millis());
            }
            prop_assert!(reserved.is_sorted());
            for (index, start) in reserved.iter().enumerate() {
                let within = reserved[index..].iter().filter(|at| **at < start + per as i64).count();
                prop_assert!(within <= count as usize);
            }
        }

        #[test]
        fn no_stretch_holds_more_than_the_count(
            count in 1_u32..20, per in 1_u64..5_000, steps in prop::collection::vec(0_i64..400, 1..300),
        ) {
            let settings = RateLimit { count, per: Span::from_millis(per), name: None };
            let (mut limiter, mut now, mut granted) = (Limiter::default(), 0_i64, Vec::new());
            for step in steps {
                now += step;
                if limiter.admit(&settings, Timestamp::from_millis(now)) == Admission::Go {
                    granted.push(now);
                }
            }
            for (index, start) in granted.iter().enumerate() {
                let within = granted[index..].iter().filter(|at| **at < start + per as i64).count();
                prop_assert!(within <= count as usize);
            }
            prop_assert!(limiter.marks.len() as u64 <= MARKS + 1);
        }
    }
}
