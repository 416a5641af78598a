//! What the store's clock said when a verb began.

use lope_model::{Clock, Moment, Timestamp};

/// Both readings, taken once per verb.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) now: Timestamp,
    pub(super) moment: Moment,
}

impl Reading {
    pub(super) fn of(clock: &dyn Clock) -> Self {
        Self { now: clock.now(), moment: clock.moment() }
    }
}
