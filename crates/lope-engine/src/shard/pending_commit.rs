//! A commit under way.

use std::sync::Arc;

use lope_model::{RunId, Timestamp};
use lope_store::runs::RunCommit;

use super::UnloadReason;
use super::after_commit::AfterCommit;

/// How the ids of mail that `send` steps make begin.
pub(super) const SEND: &str = "send/";

/// A commit under way, kept so that it can be sent again.
#[derive(Debug)]
pub(super) struct PendingCommit {
    pub(super) commit: Box<RunCommit>,
    /// The last journal row in it.
    pub(super) upto: u64,
    /// What waits for it.
    pub(super) effects: Vec<AfterCommit>,
    /// Steps of detached children that are there with it.
    pub(super) begun: Vec<(Arc<str>, RunId)>,
    /// Why the run leaves with it, if it does.
    pub(super) end: Option<UnloadReason>,
    /// How often it was not answered.
    pub(super) unanswered: u32,
    /// When it is sent again, if it was not answered.
    pub(super) resend_at: Option<Timestamp>,
}

impl PendingCommit {
    /// A signal to a run that is not there, has ended, or has too much mail reaches nobody. Its
    /// step is done all the same: the law had settled it before the store could know, and a settled
    /// step is not taken back.
    pub(super) fn tell_undelivered(&self, undelivered: &[RunId]) {
        for mail in &self.commit.deliveries {
            if undelivered.contains(&mail.run) && mail.id.starts_with(SEND) {
                let run = self.commit.run;
                let to = mail.run;
                tracing::warn!(%run, %to, "a signal reached nobody: there is no such run, it has ended, or has too much mail");
            }
        }
    }
}
