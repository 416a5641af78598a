//! `claim`: due runs without an owner go to one runner.

use lope_model::{Epoch, Priority, QueueName, Realm, RunId, RunnerId, Timestamp, VersionId};

/// What a runner is ready to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub runner: RunnerId,
    /// Queues it works on.
    pub queues: Vec<QueueName>,
    /// Realms it can serve.
    pub realms: Vec<Realm>,
    /// The newest law it knows; runs of a newer one stay.
    pub law: u32,
    /// Most runs to take; more than `limit::CLAIM_MAX` means that many.
    pub limit: usize,
    /// Most weight to take; the first run is taken whatever it weighs.
    pub weight: u64,
    /// Most runs of these queues that may have an owner, whoever it is: the claim takes no more
    /// than are left of that. It does not bound runs that are claimed by name.
    pub most: Option<u32>,
    /// Only these runs, whatever their queue and realm, at most `limit::CLAIM_MAX` of them. Empty:
    /// any.
    pub only: Vec<RunId>,
}

/// What stands on a run that was stopped, and the reason of the pause that did it: what is in flight
/// is stopped, and nobody claims it until it is resumed.
pub const STOPPED: &str = "stopped";

/// What stands on a run that a store set aside because its row cannot be read.
pub fn damaged(why: &str) -> String {
    format!("damaged: {why}; `lope store remove-run` takes it away")
}

/// What a claim took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claimed {
    /// The store's clock.
    pub now: Timestamp,
    pub runs: Vec<ClaimedRun>,
    /// When the next run that this claim could take becomes due, if the claim took all that are due
    /// now. A hint for how long to wait: it may be early, never late.
    pub next_due: Option<Timestamp>,
}

/// A run that now belongs to the runner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedRun {
    pub run: RunId,
    pub epoch: Epoch,
    pub version: VersionId,
    pub queue: QueueName,
    pub priority: Priority,
    pub realm: Realm,
    pub law: u32,
    pub weight: u32,
    /// How much mail was ever delivered to it.
    pub mail: u64,
    pub due: Timestamp,
}
