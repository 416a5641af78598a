//! When the store is asked the same thing again: one request of a kind at a time, and a pause that
//! doubles while there is no answer.

use lope_model::{Moment, Span};

/// Longest pause between attempts to reach a store that does not answer.
const RETRY_MAX: Span = Span::from_secs(5);

/// One ask of a kind at a time, the next not before `next`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTimer {
    /// When the one that is not answered yet was sent.
    pub(super) sent_at: Option<Moment>,
    pub(super) next: Moment,
    pub(super) failures: u32,
}

impl RequestTimer {
    pub(super) const START: Self = Self {
        sent_at: None,
        next: Moment(0),
        failures: 0,
    };

    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.sent_at.is_none() && now >= self.next
    }

    pub(super) fn begin(&mut self, now: Moment) {
        self.sent_at = Some(now);
    }

    pub(super) fn answered(&mut self, next: Moment) -> Option<Moment> {
        self.failures = 0;
        self.next = next;
        self.sent_at.take()
    }

    pub(super) fn failed(&mut self, now: Moment) {
        self.sent_at = None;
        self.failures = self.failures.saturating_add(1);
        let pause = Span::from_millis(50_u64 << self.failures.min(7)).min(RETRY_MAX);
        self.next = now.plus(pause);
    }
}
