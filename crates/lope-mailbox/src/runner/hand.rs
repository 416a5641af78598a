//! What a worker has in hand: the messages of one claim, the leases on them, and what has become of each.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use lope_model::{Epoch, Moment, Span};
use lope_store::tables::{At, Batch, Guard, Write};

use crate::frame::Message;
use crate::group::Group;
use crate::key::{LeaseKey, Place, WorkerId};
use crate::law::draw::{Draw, Holding};
use crate::law::{lease, order};
use crate::record::Lease;

/// Messages under lease.
#[derive(Debug, Default)]
pub(super) struct Hand {
    pub(super) items: Vec<Item>,
    pub(super) holdings: Vec<Held>,
    pub(super) epoch: Epoch,
    /// Was there more to claim than was wanted?
    pub(super) more: bool,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) holding: Holding,
    pub(super) lost: bool,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) place: Place,
    pub(super) frame: Vec<u8>,
    pub(super) holding: usize,
    pub(super) fate: Fate,
    /// Commits in a row that found a read changed.
    pub(super) conflicts: u32,
}

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
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
    pub(super) kind: Kind,
    pub(super) began: Instant,
    /// Frames that the step puts into the outbox, in order.
    pub(super) emitted: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Handled,
    Duplicate,
    Dead { reason: String },
}

/// One hand being worked off.
pub(super) struct Round {
    pub(super) hand: Hand,
    pub(super) group: Arc<Group>,
    pub(super) tickets: Vec<Ticket>,
    /// Dedupe rows as the messages of this round see them, by message id.
    pub(super) seen: HashMap<Vec<u8>, Option<Vec<u8>>>,
    pub(super) conflicted: VecDeque<usize>,
    /// What the round put into the outbox, by number.
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

impl Hand {
    pub(super) fn of(draw: Draw, epoch: Epoch, more: bool) -> Self {
        let holdings = draw.holdings.into_iter().map(|holding| Held { holding, lost: false }).collect();
        let items = draw.messages.into_iter().map(|drawn| Item {
            place: drawn.place,
            frame: drawn.frame,
            holding: drawn.holding,
            fate: Fate::Waiting,
            conflicts: 0,
        });
        Self { items: items.collect(), holdings, epoch, more }
    }

    /// In which order the messages are handled: the inbox before the timers, in the inbox high priority first, then by place.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by_cached_key(|index| {
            let item = &self.items[*index];
            let behind = matches!(item.place, Place::Inbox(_)) && !order::goes_first(&item.frame);
            (matches!(item.place, Place::Timer(_)), behind, item.place)
        });
        order
    }

    pub(super) fn lease(&self, item: usize) -> &Lease {
        &self.holdings[self.items[item].holding].holding.lease
    }

    pub(super) fn is_lost(&self, item: usize) -> bool {
        self.holdings[self.items[item].holding].lost
    }

    /// When the first lease is to be renewed.
    pub(super) fn renewal(&self) -> Option<Moment> {
        let live = self.holdings.iter().filter(|held| !held.lost);
        live.map(|held| lease::renewal(&held.holding.lease)).min()
    }

    /// The leases that are to be renewed, each with the batch that does it.
    pub(super) fn renewals(&self, worker: WorkerId, now: Moment) -> Vec<(usize, Lease, Batch)> {
        let live = self.holdings.iter().enumerate().filter(|(_, held)| !held.lost);
        let due = live.filter(|(_, held)| lease::renewal(&held.holding.lease) <= now);
        let renewed = due.filter(|(index, _)| self.is_needed(*index)).map(|(index, held)| {
            let (at, renewed) = (held.holding.key.at(worker), lease::renewed(&held.holding.lease, now));
            let guards = vec![Guard::Equals(at.clone(), held.holding.bytes.clone())];
            (index, renewed.clone(), Batch { guards, writes: vec![Write::Put(at, renewed.encode())] })
        });
        renewed.collect()
    }

    /// Is the lease still in the store? That of a single message goes with it.
    fn is_needed(&self, holding: usize) -> bool {
        let mut items = self.items.iter().filter(|item| item.holding == holding);
        match self.holdings[holding].holding.key {
            LeaseKey::Single(_) => items.any(|item| item.fate != Fate::Done),
            LeaseKey::Head | LeaseKey::Stretch(_) => true,
        }
    }

    /// The batches that give the leases back: messages to be tried again keep a lease of their own, with their count;
    /// those that were not begun are as if they had never been claimed.
    pub(super) fn releases(&self, worker: WorkerId, now: Moment) -> Vec<Batch> {
        let held = self.holdings.iter().enumerate().filter(|(_, held)| !held.lost);
        held.filter_map(|(index, held)| self.release(index, &held.holding, worker, now)).collect()
    }

    fn release(&self, index: usize, holding: &Holding, worker: WorkerId, now: Moment) -> Option<Batch> {
        if !self.is_needed(index) {
            return None;
        }
        let at = holding.key.at(worker);
        let guards = vec![Guard::Equals(at.clone(), holding.bytes.clone())];
        let mut writes = vec![Write::Delete(at)];
        for item in self.items.iter().filter(|item| item.holding == index) {
            if let Some(lease) = left_behind(item, &holding.lease, now) {
                writes.push(Write::Put(LeaseKey::Single(item.place).at(worker), lease.encode()));
            }
        }
        Some(Batch { guards, writes })
    }
}

/// The lease that stays on a message when its worker lets go of it.
fn left_behind(item: &Item, held: &Lease, now: Moment) -> Option<Lease> {
    match item.fate {
        Fate::Again(delay) => Some(lease::waiting(held, now, delay)),
        Fate::Waiting | Fate::Staged if held.attempts > 1 => Some(lease::put_back(held, now)),
        Fate::Waiting | Fate::Staged | Fate::Done | Fate::Gone => None,
    }
}

impl Round {
    pub(super) fn new(hand: Hand, group: Arc<Group>) -> Self {
        let tally = Tally { more: hand.more, ..Tally::default() };
        Self {
            hand,
            group,
            tickets: Vec::new(),
            seen: HashMap::new(),
            conflicted: VecDeque::new(),
            emitted: Vec::new(),
            tally,
        }
    }

    /// The guards that every commit about a message begins with: the lease is held, and the row is what was claimed.
    pub(super) fn claim_guards(&self, item: usize, worker: WorkerId) -> Vec<Guard> {
        let Item { place, frame, holding, .. } = &self.hand.items[item];
        let holding = &self.hand.holdings[*holding].holding;
        vec![
            Guard::Equals(holding.key.at(worker), holding.bytes.clone()),
            crate::context::row_guard(place.row(worker), frame),
        ]
    }

    /// The writes that take a message and its lease away.
    pub(super) fn removal(&self, item: usize, worker: WorkerId) -> Vec<Write> {
        let Item { place, holding, .. } = &self.hand.items[item];
        let mut writes = vec![Write::Delete(place.row(worker))];
        if let key @ LeaseKey::Single(_) = self.hand.holdings[*holding].holding.key {
            writes.push(Write::Delete(key.at(worker)));
        }
        writes
    }

    /// Keys of the dedupe rows that the messages of this round ask for.
    pub(super) fn dedupe_keys(&self) -> Vec<At> {
        let asked = self.hand.items.iter().filter_map(|item| {
            let message = Message::decode(&item.frame).ok()?;
            crate::law::dedupe::is_asked(&message).then(|| crate::key::dedupe(message.id))
        });
        asked.filter(|at| at.key.len() <= crate::limit::ID_MAX).collect()
    }
}
