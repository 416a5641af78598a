//! How far the last prune walked over the finished runs.

use uuid::Uuid;

/// A place in the order of creation.
pub(crate) type Position = (i64, Uuid);

pub(crate) const START: Position = (i64::MIN, Uuid::nil());

/// Where the last prune stopped, and what it was about.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) workflow: Option<String>,
    pub(crate) at: Option<Position>,
}
