//! A round as all who work on it see it.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use lope_agents::board::HeldTask;
use lope_agents::records::{AttemptRole, StopReason};
use lope_model::RunId;
use tokio::sync::watch;

/// A round that is worked on.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) held: HeldTask,
    /// A run in whose place it is, which only ends.
    pub(super) instead_of: Option<RunId>,
    /// Why its agents must end, once they must.
    pub(super) stop: watch::Receiver<Option<StopReason>>,
    pub(super) standing: Mutex<RoundStanding>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RoundStanding {
    /// What the agent at work is for.
    pub(super) role: AttemptRole,
    /// The task is surely ours until then.
    pub(super) ours_until: Instant,
}

impl Round {
    fn standing(&self) -> MutexGuard<'_, RoundStanding> {
        let standing = self.standing.lock();
        standing.expect("no panic while the lock is held")
    }

    pub(super) fn role(&self) -> AttemptRole {
        self.standing().role
    }

    /// An agent for this role is about to be started.
    pub(super) fn enter(&self, role: AttemptRole) {
        self.standing().role = role;
    }

    pub(super) fn ours_until(&self) -> Instant {
        self.standing().ours_until
    }

    pub(super) fn renewed(&self, until: Instant) {
        self.standing().ours_until = until;
    }
}
