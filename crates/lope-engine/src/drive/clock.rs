//! The process's own clocks: wall time for events, set by the store's; a clock that only runs
//! forward for leases and time limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lope_model::{Moment, Timestamp};

use crate::session::Now;

#[derive(Clone, Debug)]
pub(crate) struct ProcessClock {
    started: Instant,
    /// How far the store's clock is ahead of this machine's, in milliseconds.
    ahead: Arc<AtomicI64>,
}

impl ProcessClock {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            ahead: Arc::default(),
        }
    }

    /// The store's clock is ahead by so much more than was known.
    pub(crate) fn set_ahead(&self, millis: i64) {
        self.ahead.fetch_add(millis, Ordering::Relaxed);
    }

    pub(crate) fn wall(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let here = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(here.saturating_add(self.ahead.load(Ordering::Relaxed)))
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment(i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            wall: self.wall(),
            moment: self.moment(),
        }
    }

    /// The instant at which the forward clock shows `moment`.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.started + std::time::Duration::from_millis(moment.0.max(0).cast_unsigned())
    }
}
