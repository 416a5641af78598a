//! The clock of a store that one machine shares: wall time, and milliseconds since boot, which no
//! change of the wall clock moves and which go on while the machine sleeps.

use std::time::{SystemTime, UNIX_EPOCH};

use lope_model::{Clock, Moment, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// Wall time and time since boot.
#[derive(Clone, Copy, Debug)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(since.as_millis() as i64)
    }

    fn moment(&self) -> Moment {
        let since = clock_gettime(ClockId::Boottime);
        Moment(since.tv_sec * 1_000 + since.tv_nsec / 1_000_000)
    }
}

/// Which boot this is. Moments of another boot mean nothing; where the system does not tell, all
/// moments are held to be of one.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_rise_and_the_boot_has_an_id() {
        let before = BootClock.moment();
        assert!(BootClock.moment() >= before);
        assert_eq!(boot_id(), boot_id());
        assert!(!boot_id().is_empty());
    }
}
