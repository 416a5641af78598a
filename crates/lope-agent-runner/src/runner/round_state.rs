//! A round as all who work on it see it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use lope_agents::board::HeldTask;
use lope_agents::law::settle::AttemptEnd;
use lope_agents::records::{AttemptRole, StopReason};
use lope_model::{RunId, Timestamp};
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
    /// Agents, by name, whose tools have met their limits.
    pub(super) limits: Mutex<HashMap<String, MetLimit>>,
}

/// A limit that an agent's tool has met in this round.
#[derive(Clone, Debug)]
pub(super) struct MetLimit {
    /// The end of the attempt that met it.
    pub(super) end: AttemptEnd,
    /// It is not asked again before.
    pub(super) until: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RoundStanding {
    /// What the agent at work is for.
    pub(super) role: AttemptRole,
    /// The task is surely ours until then.
    pub(super) ours_until: Instant,
    /// Its runner is asked to end: the round is left as soon as it only waits.
    pub(super) is_draining: bool,
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

    /// Why nothing more begins in a run of this round.
    pub(super) fn must_end(&self, run: RunId) -> Option<StopReason> {
        let asked = *self.stop.borrow();
        let is_over = self.instead_of == Some(run);
        asked.or(is_over.then_some(StopReason::Cancel))
    }

    /// From here on this agent is not started again, until its tool takes work.
    pub(super) fn met_limit(&self, agent: &str, limit: MetLimit) {
        self.limits().insert(agent.to_owned(), limit);
    }

    /// How the attempt ended that met a limit which still holds.
    pub(super) fn limited(&self, agent: &str, now: Timestamp) -> Option<AttemptEnd> {
        let limits = self.limits();
        let met = limits.get(agent).filter(|met| now < met.until);
        met.map(|met| met.end.clone())
    }

    fn limits(&self) -> MutexGuard<'_, HashMap<String, MetLimit>> {
        let limits = self.limits.lock();
        limits.expect("no panic while the lock is held")
    }

    pub(super) fn ours_until(&self) -> Instant {
        self.standing().ours_until
    }

    pub(super) fn is_draining(&self) -> bool {
        self.standing().is_draining
    }

    pub(super) fn drain(&self) {
        self.standing().is_draining = true;
    }

    pub(super) fn renewed(&self, until: Instant) {
        self.standing().ours_until = until;
    }
}
