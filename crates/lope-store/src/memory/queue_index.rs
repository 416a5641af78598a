//! Where runs stand: ordered sets over the queue, over owners, over ended runs, so that no verb
//! walks over all runs.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::{Priority, QueueName, Realm, RunId, RunnerId, Timestamp};

use crate::runs::Claim;

/// What claims tell apart. Within a lane the earliest due goes first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ClaimLane {
    pub(super) queue: QueueName,
    pub(super) realm: Realm,
    pub(super) law: u32,
    pub(super) priority: Priority,
}

/// Where one run stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum QueuePosition {
    Queued(ClaimLane, Timestamp),
    Owned { owner: RunnerId, mailed: bool },
    Parked,
    Ended(Timestamp),
}

/// Unowned runs of a lane, by due time.
pub(super) type DueRuns = BTreeSet<(Timestamp, RunId)>;

#[derive(Debug, Default)]
pub(super) struct QueueIndex {
    lanes: BTreeMap<ClaimLane, DueRuns>,
    owners: BTreeMap<RunnerId, Holding>,
    ended: BTreeSet<(Timestamp, RunId)>,
}

/// What one runner owns, and which of it has mail.
#[derive(Debug, Default)]
pub(super) struct Holding {
    pub(super) runs: BTreeSet<RunId>,
    pub(super) mailed: BTreeSet<RunId>,
}

impl QueueIndex {
    pub(super) fn enter(&mut self, run: RunId, position: QueuePosition) {
        match position {
            QueuePosition::Queued(lane, due) => {
                self.lanes.entry(lane).or_default().insert((due, run));
            }
            QueuePosition::Owned { owner, mailed } => {
                let holding = self.owners.entry(owner).or_default();
                holding.runs.insert(run);
                if mailed {
                    holding.mailed.insert(run);
                }
            }
            QueuePosition::Parked => {}
            QueuePosition::Ended(at) => {
                self.ended.insert((at, run));
            }
        }
    }

    pub(super) fn leave(&mut self, run: RunId, position: &QueuePosition) {
        match position {
            QueuePosition::Queued(lane, due) => self.leave_lane(run, lane, *due),
            QueuePosition::Owned { owner, .. } => self.leave_owner(run, *owner),
            QueuePosition::Parked => {}
            QueuePosition::Ended(at) => {
                self.ended.remove(&(*at, run));
            }
        }
    }

    fn leave_lane(&mut self, run: RunId, lane: &ClaimLane, due: Timestamp) {
        if let Some(waiting) = self.lanes.get_mut(lane) {
            waiting.remove(&(due, run));
            if waiting.is_empty() {
                self.lanes.remove(lane);
            }
        }
    }

    fn leave_owner(&mut self, run: RunId, owner: RunnerId) {
        if let Some(holding) = self.owners.get_mut(&owner) {
            holding.runs.remove(&run);
            holding.mailed.remove(&run);
            if holding.runs.is_empty() {
                self.owners.remove(&owner);
            }
        }
    }

    /// The lanes that a claim may take from.
    pub(super) fn lanes_for<'a>(&'a self, claim: &Claim) -> Vec<(&'a ClaimLane, &'a DueRuns)> {
        let queues: BTreeSet<_> = claim.queues.iter().collect();
        let realms: BTreeSet<_> = claim.realms.iter().collect();
        let mut lanes = Vec::new();
        for queue in queues {
            for realm in &realms {
                let lane = |law, priority| ClaimLane {
                    queue: queue.clone(),
                    realm: (*realm).clone(),
                    law,
                    priority,
                };
                lanes.extend(
                    self.lanes
                        .range(lane(0, Priority::LOWEST)..=lane(claim.law, Priority::HIGHEST)),
                );
            }
        }
        lanes
    }

    pub(super) fn holding(&self, runner: RunnerId) -> Option<&Holding> {
        self.owners.get(&runner)
    }

    /// Runners that own something.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&RunnerId, &Holding)> {
        self.owners.iter()
    }

    /// Runs that ended before a time, the longest ended first.
    pub(super) fn ended_before(&self, before: Timestamp) -> impl Iterator<Item = RunId> {
        self.ended
            .range(..(before, RunId::from_bytes([0; 16])))
            .map(|(_, run)| *run)
    }

    /// How many places are kept, for the check.
    pub(super) fn len(&self) -> usize {
        let queued: usize = self.lanes.values().map(BTreeSet::len).sum();
        let owned: usize = self.owners.values().map(|holding| holding.runs.len()).sum();
        queued + owned + self.ended.len()
    }

    pub(super) fn holds(&self, run: RunId, position: &QueuePosition) -> bool {
        match position {
            QueuePosition::Queued(lane, due) => self
                .lanes
                .get(lane)
                .is_some_and(|waiting| waiting.contains(&(*due, run))),
            QueuePosition::Owned { owner, mailed } => {
                let holding = self.owners.get(owner);
                holding.is_some_and(|holding| {
                    holding.runs.contains(&run) && holding.mailed.contains(&run) == *mailed
                })
            }
            QueuePosition::Parked => true,
            QueuePosition::Ended(at) => self.ended.contains(&(*at, run)),
        }
    }
}
