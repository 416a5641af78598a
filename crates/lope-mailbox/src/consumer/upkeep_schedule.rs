//! When a worker looks after what is not a message, and where it goes on.

use lope_model::{Moment, Span};

/// How long between two rounds of upkeep.
const EVERY: Span = Span::from_secs(1);

/// When upkeep is due, and where it goes on.
#[derive(Debug, Default)]
pub(super) struct UpkeepSchedule {
    due: Option<Moment>,
    /// The last id that was looked at.
    pub(super) cursor: Vec<u8>,
}

impl UpkeepSchedule {
    pub(super) fn sweep_soon(&mut self) {
        self.due = None;
    }

    pub(super) fn begins(&mut self, now: Moment) -> bool {
        let begins = self.due.is_none_or(|due| due <= now);
        if begins {
            self.due = Some(now.plus(EVERY));
        }
        begins
    }
}
