//! Until when a tree may be started, in a form that two processes of one machine understand.

use std::fmt;
use std::time::Instant;

use lope_engine::executor::StartRight;
use rustix::time::{ClockId, clock_gettime};

const NANOS: u64 = 1_000_000_000;

/// The machine's clock that only runs forward.
pub(super) fn forward_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * NANOS + time.tv_nsec.cast_unsigned()
}

/// The time of that clock before which a tree must be started, if there is one; `Err`: it may not
/// be started any more.
pub(super) fn limit(right: StartRight) -> Result<Option<u64>, TooLate> {
    // In this order: who stands still between the two has less time left, never more.
    let now = forward_nanos();
    match right {
        StartRight::Always => Ok(None),
        StartRight::Over => Err(TooLate),
        StartRight::Until(end) => {
            let left = end.saturating_duration_since(Instant::now());
            let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
            match left {
                0 => Err(TooLate),
                left => Ok(Some(now.saturating_add(left))),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLate;

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its time to begin is over")
    }
}

impl std::error::Error for TooLate {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_may_begin_for_an_hour_has_its_limit_within_it() {
        let before = forward_nanos();
        let end = Instant::now() + Duration::from_hours(1);
        let limit = limit(StartRight::Until(end)).unwrap().unwrap();
        assert!(limit > before && limit <= forward_nanos() + 3_600 * NANOS);
    }

    #[test]
    fn what_may_not_begin_has_none() {
        assert_eq!(limit(StartRight::Always), Ok(None));
        assert_eq!(limit(StartRight::Over), Err(TooLate));
        assert_eq!(limit(StartRight::Until(Instant::now())), Err(TooLate));
    }
}
