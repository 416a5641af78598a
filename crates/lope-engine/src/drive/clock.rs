//! The process's own clocks: wall time for events, a clock that only runs forward for leases and time limits.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lope_model::{Moment, Timestamp};

use crate::keeper::Now;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessClock {
    started: Instant,
}

impl ProcessClock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }

    #[allow(clippy::unused_self, reason = "both readings come from one clock")]
    pub(crate) fn wall(self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    pub(crate) fn moment(self) -> Moment {
        Moment(i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    pub(crate) fn now(self) -> Now {
        Now { wall: self.wall(), moment: self.moment() }
    }

    /// The instant at which the forward clock shows `moment`.
    pub(crate) fn instant(self, moment: Moment) -> Instant {
        self.started + std::time::Duration::from_millis(moment.0.max(0).cast_unsigned())
    }
}
