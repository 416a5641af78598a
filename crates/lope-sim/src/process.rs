//! One simulated process: the real machines, with clocks of its own, and what its adopter holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_engine::Settings;
use lope_engine::executor::Token;
use lope_engine::session::{Now, SessionMachine};
use lope_engine::shard::{Shard, ShardSettings};
use lope_engine::slots::SlotScheduler;
use lope_limits::LimitsStore;
use lope_model::{Epoch, Moment, RunId, RunnerId, Timestamp};

use lope_store::Store;

use crate::wire::{Address, ProcessPart};

/// The epoch of a run that is born claimed.
pub(crate) const BORN: Epoch = Epoch(1);
/// The wall clock at the beginning of every world.
pub(crate) const MORNING: i64 = 1_767_258_000_000;

/// An attempt that a worker has.
#[derive(Debug)]
pub(crate) struct AtWork {
    /// What its process was when it began. Keys are held as long as that session is.
    pub(crate) session: RunnerId,
    pub(crate) keyed: Option<(Arc<str>, u32)>,
}

impl AtWork {
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.keyed.as_ref().is_some_and(|(own, _)| &**own == key)
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) address: Address,
    pub(crate) up: bool,
    /// When it started; its forward clock counts from here.
    born: i64,
    /// How far its wall clock is ahead of the store's.
    skew: i64,
    pub(crate) session_machine: SessionMachine,
    pub(crate) shards: Vec<Shard>,
    /// In which session each shard works.
    pub(crate) owners: Vec<RunnerId>,
    pub(crate) dispatcher: SlotScheduler,
    /// What it knows of the limits that all runners share.
    pub(crate) limits: LimitsStore,
    /// Runs that are in memory or on their way, under the epoch of their claim.
    pub(crate) held: BTreeMap<RunId, Epoch>,
    /// Attempts that workers are at, each with the key that bounds it; those that were told to stop
    /// too, until their end.
    pub(crate) working: BTreeMap<Token, AtWork>,
    /// Runs of which it was told that they are another's, under the epoch it had them in.
    pub(crate) lost: BTreeSet<(RunId, Epoch)>,
    /// How far commits have gone that its shards sent, and how far they had when what came after was
    /// to be thrown away.
    pub(crate) sent: BTreeMap<(RunId, Epoch), u64>,
    pub(crate) forgotten: BTreeMap<(RunId, Epoch), u64>,
    /// Runs of groups that the store refused.
    pub(crate) suspects: BTreeSet<RunId>,
    /// Shards that were told to start nothing more.
    pub(crate) drained: BTreeSet<usize>,
    /// Until when a part stands still.
    pub(crate) still: BTreeMap<ProcessPart, i64>,
    /// Until when the answers to its heartbeats are slow.
    pub(crate) strained: i64,
    /// Until when it does not reach the store.
    pub(crate) cut_off: i64,
    /// It ends when it holds nothing more, and at this time at the latest.
    pub(crate) ending: Option<i64>,
}

/// A moment of the world, and how far the clock of a process is off.
#[derive(Clone, Copy)]
pub(crate) struct SkewedTime {
    pub(crate) at: i64,
    pub(crate) skew: i64,
}

impl Process {
    pub(crate) fn start(
        address: Address,
        settings: &Settings,
        store: &Store,
        runner: RunnerId,
        began: SkewedTime,
    ) -> Self {
        let shard = ShardSettings::of(settings);
        Self {
            address,
            up: true,
            born: began.at,
            skew: began.skew,
            session_machine: SessionMachine::new(runner, settings.clone(), lope_flow::LAW),
            shards: (0..settings.shards)
                .map(|_| Shard::new(shard, runner))
                .collect(),
            owners: vec![runner; settings.shards],
            dispatcher: SlotScheduler::new(settings.concurrency),
            limits: LimitsStore::new(store.clone()),
            held: BTreeMap::new(),
            working: BTreeMap::new(),
            lost: BTreeSet::new(),
            sent: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            suspects: BTreeSet::new(),
            drained: BTreeSet::new(),
            still: BTreeMap::new(),
            strained: 0,
            cut_off: 0,
            ending: None,
        }
    }

    pub(crate) fn session(&self) -> RunnerId {
        self.session_machine.runner()
    }

    pub(crate) fn now(&self, at: i64) -> Now {
        Now {
            wall: self.wall(at),
            moment: self.moment(at),
        }
    }

    /// The store's clock is ahead by so much.
    pub(crate) fn set_clock(&mut self, ahead: i64) {
        self.skew += ahead;
    }

    pub(crate) fn wall(&self, at: i64) -> Timestamp {
        Timestamp::from_millis(MORNING + at + self.skew)
    }

    pub(crate) fn moment(&self, at: i64) -> Moment {
        Moment(at - self.born)
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = ProcessPart> + use<> {
        [ProcessPart::Session, ProcessPart::Dispatcher]
            .into_iter()
            .chain((0..self.shards.len()).map(ProcessPart::Shard))
    }

    /// When a part wants to look at the clock, in the world's time.
    pub(crate) fn deadline(&self, part: ProcessPart) -> Option<i64> {
        let due = match part {
            ProcessPart::Session => self
                .session_machine
                .next_deadline()
                .map(|due| due.0.saturating_add(self.born)),
            ProcessPart::Dispatcher => self
                .dispatcher
                .next_deadline()
                .map(|due| due.0.saturating_add(self.born)),
            ProcessPart::Shard(number) => {
                let due = self.shards[number].next_deadline();
                due.map(|due| due.millis().saturating_sub(MORNING + self.skew))
            }
            ProcessPart::Adopter => None,
        };
        due.map(|due| due.max(self.still_until(part)))
    }

    /// One that stands still already goes on with the later of the two: what waits for it keeps its
    /// order.
    pub(crate) fn stand_still(&mut self, part: ProcessPart, until: i64) {
        let until = until.max(self.still_until(part));
        self.still.insert(part, until);
    }

    pub(crate) fn still_until(&self, part: ProcessPart) -> i64 {
        self.still.get(&part).copied().unwrap_or(0)
    }

    /// A run left its shard. Was it held under this epoch?
    pub(crate) fn lets_go(&mut self, run: RunId, epoch: Epoch) -> bool {
        let is_held = self.held.get(&run) == Some(&epoch);
        if is_held {
            self.held.remove(&run);
        }
        is_held
    }

    /// Runs in the memory of its shards.
    pub(crate) fn resident(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }
}
