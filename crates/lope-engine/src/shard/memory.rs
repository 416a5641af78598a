//! A run in memory: how much it takes there, and from when on it need not be there.

use lope_flow::law::Status;
use lope_model::{Span, Timestamp};
use lope_store::runs::{Blob, JournalRow};

use super::after_commit::AfterCommit;
use super::resident::Resident;

/// A run is weighed again when at least so many bytes were folded.
const WEIGH_AFTER: usize = 64 * 1024;

impl Resident {
    /// A row was folded, with the large values that it refers to.
    pub(super) fn grows(&mut self, row: &JournalRow, blobs: &[Blob]) {
        let large: usize = blobs.iter().map(|blob| blob.bytes.len()).sum();
        self.grown = self.grown.saturating_add(row.body.len() + large);
    }

    /// How large it is now, if so much was folded since it was last weighed that it may be another
    /// size altogether.
    pub(super) fn weigh(&mut self) -> Option<usize> {
        if self.grown < self.weighed.max(WEIGH_AFTER) {
            return None;
        }
        self.grown = 0;
        self.weighed = self.state.weight();
        Some(self.weighed)
    }

    /// How long until a run that rests may be let go: `None` while it does not rest.
    pub(super) fn rests_from(&self, now: Timestamp, patience: Span) -> Option<Timestamp> {
        if self.stopped && self.uncommitted.end.is_none() {
            return Some(now);
        }
        let busy = !self.attempts.is_empty()
            || self.unread.goes_on
            || !self.uncommitted.begun.is_empty()
            || self.uncommitted.effects.iter().any(AfterCommit::is_start);
        if busy || self.uncommitted.end.is_some() {
            return None;
        }
        let far = self
            .state
            .next_wake()
            .is_none_or(|due| due > now.plus(patience));
        match self.state.status() {
            Status::Paused => Some(now),
            Status::Sleeping | Status::Waiting => far.then_some(now),
            Status::Idle => far.then(|| self.last_event.plus(patience)),
            Status::Queued
            | Status::Running
            | Status::Completed
            | Status::Failed
            | Status::Cancelled => None,
        }
    }
}
