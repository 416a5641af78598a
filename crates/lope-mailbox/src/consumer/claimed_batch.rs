//! What a worker has in hand: the messages of one claim, the leases on them, and what has become of
//! each.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use lope_model::{Epoch, Moment, Span};
use lope_store::tables::{At, Batch, Guard, Write};

use crate::frame::Message;
use crate::group::CommitGroup;
use crate::key::{LeaseKey, MessagePosition, WorkerId};
use crate::law::claim_plan::{ClaimPlan, HeldLease};
use crate::law::{lease, order};
use crate::record::Lease;

/// Messages under lease.
#[derive(Debug, Default)]
pub(super) struct ClaimedBatch {
    pub(super) items: Vec<ClaimedMessage>,
    pub(super) leases: Vec<TrackedLease>,
    pub(super) epoch: Epoch,
    /// Was there more to claim than was wanted?
    pub(super) more: bool,
}

#[derive(Debug)]
pub(super) struct TrackedLease {
    pub(super) held: HeldLease,
    pub(super) lost: bool,
}

#[derive(Debug)]
pub(super) struct ClaimedMessage {
    pub(super) position: MessagePosition,
    pub(super) frame: Vec<u8>,
    pub(super) lease_index: usize,
    pub(super) disposition: Disposition,
    /// Commits in a row that found a read changed.
    pub(super) conflicts: u32,
}

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    /// Not begun.
    Waiting,
    /// Handled; its commit is under way.
    Staged,
    /// Its row is gone by our commit, and with it a lease of its own.
    Done,
    /// Its row is gone, or another one, by somebody else's commit.
    Gone,
    /// To be tried again after a delay.
    Again(Span),
}

/// What a staged step was, to be told when its commit answers.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) item: usize,
    pub(super) kind: CommitKind,
    pub(super) began: Instant,
    /// Frames that the step puts into the outbox, in order.
    pub(super) emitted: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(super) enum CommitKind {
    Handled,
    Duplicate,
    Dead { reason: String },
}

/// A claimed batch that is being handled.
pub(super) struct BatchInProgress {
    pub(super) claimed: ClaimedBatch,
    pub(super) group: Arc<CommitGroup>,
    pub(super) tickets: Vec<Ticket>,
    /// Dedupe rows as the messages of this batch see them, by message id.
    pub(super) seen: HashMap<Vec<u8>, Option<Vec<u8>>>,
    pub(super) conflicted: VecDeque<usize>,
    /// What the batch put into the outbox, by number.
    pub(super) emitted: Vec<(u64, Vec<u8>)>,
    pub(super) tally: Tally,
}

/// What a tick, or a part of it, did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Messages handled and committed.
    pub handled: usize,
    /// Messages acknowledged without the handler.
    pub duplicates: usize,
    /// Messages put back for another attempt.
    pub requeued: usize,
    pub dead: usize,
    /// Leases of others that stood in the way.
    pub busy: usize,
    /// Was there more to claim than was wanted?
    pub more: bool,
}

impl Tally {
    /// Did the tick move anything?
    pub const fn is_idle(&self) -> bool {
        self.handled + self.duplicates + self.requeued + self.dead == 0
    }
}

impl ClaimedBatch {
    pub(super) fn of(plan: ClaimPlan, epoch: Epoch, more: bool) -> Self {
        let leases = plan
            .leases
            .into_iter()
            .map(|held| TrackedLease { held, lost: false })
            .collect();
        let items = plan.messages.into_iter().map(|planned| ClaimedMessage {
            position: planned.position,
            frame: planned.frame,
            lease_index: planned.lease_index,
            disposition: Disposition::Waiting,
            conflicts: 0,
        });
        Self {
            items: items.collect(),
            leases,
            epoch,
            more,
        }
    }

    /// In which order the messages are handled: the inbox before the timers, in the inbox high
    /// priority first, then by position.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by_cached_key(|index| {
            let item = &self.items[*index];
            let behind = matches!(item.position, MessagePosition::Inbox(_))
                && !order::goes_first(&item.frame);
            (
                matches!(item.position, MessagePosition::Timer(_)),
                behind,
                item.position,
            )
        });
        order
    }

    pub(super) fn lease(&self, item: usize) -> &Lease {
        &self.leases[self.items[item].lease_index].held.lease
    }

    pub(super) fn is_lost(&self, item: usize) -> bool {
        self.leases[self.items[item].lease_index].lost
    }

    /// When the first lease is to be renewed.
    pub(super) fn renewal(&self) -> Option<Moment> {
        let live = self.leases.iter().filter(|tracked| !tracked.lost);
        live.map(|tracked| lease::renewal(&tracked.held.lease))
            .min()
    }

    /// The leases that are to be renewed, each with the batch that does it.
    pub(super) fn renewals(&self, worker: WorkerId, now: Moment) -> Vec<(usize, Lease, Batch)> {
        let live = self
            .leases
            .iter()
            .enumerate()
            .filter(|(_, tracked)| !tracked.lost);
        let due = live.filter(|(_, tracked)| lease::renewal(&tracked.held.lease) <= now);
        let renewed = due
            .filter(|(index, _)| self.is_needed(*index))
            .map(|(index, tracked)| {
                let at = tracked.held.key.at(worker);
                let renewed = lease::renewed(&tracked.held.lease, now);
                let guards = vec![Guard::Equals(at.clone(), tracked.held.bytes.clone())];
                (
                    index,
                    renewed.clone(),
                    Batch {
                        guards,
                        writes: vec![Write::Put(at, renewed.encode())],
                    },
                )
            });
        renewed.collect()
    }

    /// Is the lease still in the store? That of a single message goes with it.
    fn is_needed(&self, lease_index: usize) -> bool {
        let mut items = self
            .items
            .iter()
            .filter(|item| item.lease_index == lease_index);
        match self.leases[lease_index].held.key {
            LeaseKey::Single(_) => items.any(|item| item.disposition != Disposition::Done),
            LeaseKey::Head | LeaseKey::Stretch(_) => true,
        }
    }

    /// The batches that give the leases back: messages to be tried again keep a lease of their own,
    /// with their count; those that were not begun are as if they had never been claimed.
    pub(super) fn releases(&self, worker: WorkerId, now: Moment) -> Vec<Batch> {
        let live = self
            .leases
            .iter()
            .enumerate()
            .filter(|(_, tracked)| !tracked.lost);
        live.filter_map(|(index, tracked)| self.release(index, &tracked.held, worker, now))
            .collect()
    }

    fn release(
        &self,
        index: usize,
        held: &HeldLease,
        worker: WorkerId,
        now: Moment,
    ) -> Option<Batch> {
        if !self.is_needed(index) {
            return None;
        }
        let at = held.key.at(worker);
        let guards = vec![Guard::Equals(at.clone(), held.bytes.clone())];
        let mut writes = vec![Write::Delete(at)];
        for item in self.items.iter().filter(|item| item.lease_index == index) {
            if let Some(lease) = left_behind(item, &held.lease, now) {
                writes.push(Write::Put(
                    LeaseKey::Single(item.position).at(worker),
                    lease.encode(),
                ));
            }
        }
        Some(Batch { guards, writes })
    }
}

/// The lease that stays on a message when its worker lets go of it.
fn left_behind(item: &ClaimedMessage, held: &Lease, now: Moment) -> Option<Lease> {
    match item.disposition {
        Disposition::Again(delay) => Some(lease::waiting(held, now, delay)),
        Disposition::Waiting | Disposition::Staged if held.attempts > 1 => {
            Some(lease::put_back(held, now))
        }
        Disposition::Waiting | Disposition::Staged | Disposition::Done | Disposition::Gone => None,
    }
}

impl BatchInProgress {
    pub(super) fn new(claimed: ClaimedBatch, group: Arc<CommitGroup>) -> Self {
        let tally = Tally {
            more: claimed.more,
            ..Tally::default()
        };
        Self {
            claimed,
            group,
            tickets: Vec::new(),
            seen: HashMap::new(),
            conflicted: VecDeque::new(),
            emitted: Vec::new(),
            tally,
        }
    }

    /// The guards that every commit about a message begins with: the lease is held, and the row is
    /// what was claimed.
    pub(super) fn claim_guards(&self, item: usize, worker: WorkerId) -> Vec<Guard> {
        let ClaimedMessage {
            position,
            frame,
            lease_index,
            ..
        } = &self.claimed.items[item];
        let held = &self.claimed.leases[*lease_index].held;
        vec![
            Guard::Equals(held.key.at(worker), held.bytes.clone()),
            crate::context::row_guard(position.row(worker), frame),
        ]
    }

    /// The writes that take a message and its lease away.
    pub(super) fn removal(&self, item: usize, worker: WorkerId) -> Vec<Write> {
        let ClaimedMessage {
            position,
            lease_index,
            ..
        } = &self.claimed.items[item];
        let mut writes = vec![Write::Delete(position.row(worker))];
        if let key @ LeaseKey::Single(_) = self.claimed.leases[*lease_index].held.key {
            writes.push(Write::Delete(key.at(worker)));
        }
        writes
    }

    /// Keys of the dedupe rows that the messages of this batch ask for.
    pub(super) fn dedupe_keys(&self) -> Vec<At> {
        let asked = self.claimed.items.iter().filter_map(|item| {
            let message = Message::decode(&item.frame).ok()?;
            crate::law::dedupe::is_asked(&message).then(|| crate::key::dedupe(message.id))
        });
        asked
            .filter(|at| at.key.len() <= crate::limit::ID_MAX)
            .collect()
    }
}
