//! Clocks to hand to a store: the machine's, and one that a test moves by hand.
//!
//! The only file of this crate that reads the time.

use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lope_model::{Clock, Moment, Span, Timestamp};

/// The machine's wall clock, and a monotonic one that began when this value was made.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    began: Instant,
}

/// What the clock of a store said: the time, and the moment that judges leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    pub now: Timestamp,
    pub moment: Moment,
}

/// Stands still until it is moved. Wall time and the moment that judges leases move together, or
/// the wall alone.
#[derive(Debug)]
pub struct ManualClock {
    time: Mutex<ManualTime>,
}

#[derive(Debug, Clone, Copy)]
struct ManualTime {
    now: Timestamp,
    moment: Moment,
}

impl Reading {
    /// Both readings, taken together.
    pub fn of(clock: &dyn Clock) -> Self {
        Self {
            now: clock.now(),
            moment: clock.moment(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            began: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(since.as_millis() as i64)
    }

    fn moment(&self) -> Moment {
        Moment(self.began.elapsed().as_millis() as i64)
    }
}

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self {
            time: Mutex::new(ManualTime {
                now,
                moment: Moment(0),
            }),
        }
    }

    /// Time passes.
    pub fn pass(&self, span: Span) {
        let mut time = self.time();
        time.now = time.now.plus(span);
        time.moment = time.moment.plus(span);
    }

    /// Somebody sets the wall clock; leases do not notice.
    pub fn set_wall(&self, now: Timestamp) {
        self.time().now = now;
    }

    fn time(&self) -> std::sync::MutexGuard<'_, ManualTime> {
        self.time
            .lock()
            .expect("nobody panics while holding the time of the clock")
    }
}

impl Default for ManualClock {
    /// A morning in 2026.
    fn default() -> Self {
        Self::at(Timestamp::from_millis(1_767_258_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.time().now
    }

    fn moment(&self) -> Moment {
        self.time().moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = ManualClock::default();
        let now = clock.now();
        let moment = clock.moment();
        clock.pass(Span::from_secs(2));
        assert_eq!(clock.now(), now.plus(Span::from_secs(2)));
        assert_eq!(clock.moment(), moment.plus(Span::from_secs(2)));
        clock.set_wall(Timestamp::EPOCH);
        assert_eq!(
            (clock.now(), clock.moment()),
            (Timestamp::EPOCH, moment.plus(Span::from_secs(2)))
        );
    }

    #[test]
    fn the_system_clock_goes_on() {
        let clock = SystemClock::default();
        let before = clock.moment();
        assert!(clock.now() > Timestamp::from_millis(1_700_000_000_000));
        assert!(clock.moment() >= before);
    }
}
