//! A commit under way.

use std::sync::Arc;

use lope_flow::law::Effect;
use lope_model::{RunId, Timestamp};
use lope_store::runs::RunCommit;

use super::Left;

/// A commit under way, kept so that it can be sent again.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) commit: Box<RunCommit>,
    /// The last journal row in it.
    pub(super) upto: u64,
    /// What waits for it.
    pub(super) effects: Vec<Effect>,
    /// Steps of detached children that are there with it.
    pub(super) begun: Vec<(Arc<str>, RunId)>,
    /// Why the run leaves with it, if it does.
    pub(super) end: Option<Left>,
    /// How often it was not answered.
    pub(super) unanswered: u32,
    /// When it is sent again, if it was not answered.
    pub(super) resend_at: Option<Timestamp>,
}
