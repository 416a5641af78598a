//! `prune`: finished runs leave the store, a bounded number at a time.

use lope_model::{RunId, Timestamp};

use super::record::FinalStatus;

/// Which finished runs to delete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prune {
    /// Finished before this time.
    pub before: Timestamp,
    /// Ended in one of these ways; empty: any.
    pub statuses: Vec<FinalStatus>,
    pub workflow: Option<String>,
    /// Most runs to delete in this call.
    pub limit: usize,
}

/// What was deleted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    /// The runs that are gone: what belongs to them outside of the store may go too.
    pub runs: Vec<RunId>,
    /// Is there more to do? A store may stop before the limit, so that others are not held up.
    pub more: bool,
}

impl Pruned {
    /// Both.
    pub fn add(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.more |= other.more;
    }
}
