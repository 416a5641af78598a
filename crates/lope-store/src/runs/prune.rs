//! `prune`: finished runs leave the store, a bounded number at a time.

use lope_model::Timestamp;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    pub runs: u64,
    /// Are there more that match?
    pub more: bool,
}
