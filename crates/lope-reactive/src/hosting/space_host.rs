//! A space at work on a store: the machine with its documents loaded, its events fetched and its
//! waves saved. Decides nothing; the machine does.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::{Clock, Span, Timestamp};

use super::HostError;
use super::document_rows::{DocumentRows, PlannedRows};
use super::found_message::FoundMessage;
use super::lease::{LeaseRequest, SpaceLease};
use super::posts::WaitingPosts;
use super::space_store::{SavedWave, SpaceStore, StoredReceipt};
use crate::limit;
use crate::machine::{Program, SpaceInput, SpaceMachine, SpaceOutput, Wave};
use lope_cells::address::CellAddress;
use lope_cells::chain::ChainWaits;
use lope_cells::id::{EntityId, SpaceName};
use lope_cells::transaction::Transaction;

/// Longest time between two looks of somebody who waits until nothing is to be done.
const IDLE_POLL: Span = Span::from_millis(250);

/// A space that this process hosts.
#[derive(Debug)]
pub struct SpaceHost<P> {
    store: SpaceStore,
    lease: SpaceLease,
    machine: SpaceMachine<P>,
    /// Events that the machine has and the inbox still holds, by number.
    fetched: BTreeMap<u64, FoundMessage>,
    inputs: Vec<SpaceInput>,
    /// What is still to be told, because a turn that it came from failed later on.
    told: Vec<SpaceOutput>,
    rows: DocumentRows,
    /// A wave that is to be saved, or was sent and not answered.
    unsaved: Option<UnsavedWave>,
    /// Whether the commit of that wave was sent and not answered.
    is_unanswered: bool,
    posts: WaitingPosts,
    /// Other spaces whose changes follow from each other without end.
    waits: ChainWaits,
}

/// A wave with the rows that save its documents.
#[derive(Debug)]
struct UnsavedWave {
    wave: Wave,
    planned: PlannedRows,
}

impl<P: Program> SpaceHost<P> {
    /// Takes a space and starts what runs in it.
    pub async fn take(
        store: SpaceStore,
        program: P,
        asked: LeaseRequest<'_>,
    ) -> Result<Self, HostError> {
        let now = asked.now;
        let lease = store.acquire(asked).await?;
        let taken = store.take_up().await?;
        let mut machine = SpaceMachine::new(store.space().clone(), taken.spaces, program);
        machine.note_past(taken.chain, now);
        machine.resume(taken.nodes);
        machine.note_brought(BTreeSet::new());
        let posts = WaitingPosts {
            count: store.posts().await?,
            due: None,
            delayed: store.delayed_posts().await?,
        };
        machine.note_posts(posts.all());
        Ok(Self {
            store,
            lease,
            machine,
            fetched: BTreeMap::new(),
            inputs: Vec::new(),
            told: Vec::new(),
            rows: taken.rows,
            unsaved: None,
            is_unanswered: false,
            posts,
            waits: ChainWaits::default(),
        })
    }

    /// Puts a transaction in line for the next turn; the answer names the ticket.
    pub fn edit(&mut self, ticket: u64, transaction: Transaction) {
        let edit = SpaceInput::Edit {
            ticket,
            transaction,
        };
        self.inputs.push(edit);
    }

    /// Does what can be done now: events, computations, saves. Gives what the machine tells.
    pub async fn turn(&mut self, now: Timestamp) -> Result<Vec<SpaceOutput>, HostError> {
        let mut told = Vec::new();
        loop {
            match self.slice(now).await {
                Ok(more) => told.extend(more),
                Err(error) => return Err(self.tell_later(told, error)),
            }
            if !self.is_settling() {
                return Ok(told);
            }
        }
    }

    /// What was to be told when something failed is told next time: it is on disk.
    fn tell_later(&mut self, mut told: Vec<SpaceOutput>, error: HostError) -> HostError {
        told.append(&mut self.told);
        self.told = told;
        error
    }

    /// Does a part of what can be done now, unless that is little: whoever hosts many spaces, or is to
    /// stop, need not wait for one that has very much to do.
    pub async fn slice(&mut self, now: Timestamp) -> Result<Vec<SpaceOutput>, HostError> {
        loop {
            if !self.is_settling() {
                self.save(now).await?;
                self.forward(now).await?;
                self.fetch(now).await?;
                self.fetch_foreign(now).await?;
            }
            let mut outputs = Vec::new();
            let machine = &mut self.machine;
            let is_settled = machine.handle_slice(now, &mut self.inputs, &mut outputs);
            for output in outputs {
                match output {
                    SpaceOutput::Save(wave) => self.unsaved = Some(self.planned(wave)?),
                    SpaceOutput::Refused(event) => self.forget(&event.id),
                    other => self.told.push(other),
                }
            }
            let is_due = self
                .machine
                .next_deadline(now)
                .is_some_and(|due| due <= now);
            if !is_settled || (self.unsaved.is_none() && !is_due) {
                return Ok(std::mem::take(&mut self.told));
            }
        }
    }

    /// Whether a slice left something to do.
    pub fn is_settling(&self) -> bool {
        self.machine.is_settling()
    }

    /// When to take a turn though nothing came in.
    pub fn next_deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let machine = self.machine.next_deadline(now);
        let deadlines = [machine, self.posts.next(now), self.waits.next()];
        deadlines.into_iter().flatten().min()
    }

    /// Whether nothing can run, everything is saved and sent, and no event was waiting when last asked.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        let is_saved = self.unsaved.is_none() && self.posts.count == 0;
        is_saved && self.inputs.is_empty() && self.machine.is_idle(now)
    }

    /// Takes turns until nothing can run, everything is saved and sent, and no event waits. A node that
    /// does not settle is not waited for while it has to wait. Gives what the machine tells.
    pub async fn idle(&mut self, clock: &dyn Clock) -> Result<Vec<SpaceOutput>, HostError> {
        let mut told = Vec::new();
        loop {
            let now = clock.now();
            match self.turn(now).await {
                Ok(more) => told.extend(more),
                Err(error) => return Err(self.tell_later(told, error)),
            }
            if self.is_idle(now) && self.fetched.is_empty() {
                return Ok(told);
            }
            let due = self.next_deadline(now).unwrap_or(now.plus(IDLE_POLL));
            let left = due.millis().saturating_sub(now.millis());
            let left = Span::from_millis(left.max(0).cast_unsigned()).min(IDLE_POLL);
            tokio::time::sleep(left.to_duration()).await;
        }
    }

    /// Whether nodes look at other spaces, so that a turn is due when these change.
    pub fn looks_elsewhere(&self) -> bool {
        !self.machine.foreign().is_empty()
    }

    /// Which taking of the space this is.
    pub fn epoch(&self) -> u64 {
        self.lease.epoch
    }

    pub fn machine(&mut self) -> &mut SpaceMachine<P> {
        &mut self.machine
    }

    /// Keeps the space for longer.
    pub async fn renew(&mut self, now: Timestamp, span: Span) -> Result<(), HostError> {
        self.lease = self.store.renew(&self.lease, now, span).await?;
        Ok(())
    }

    /// Gives the space back. What is not saved is not done.
    pub async fn release(self) -> Result<(), HostError> {
        self.store.release(&self.lease).await
    }

    /// Saves the wave that waits. One whose commit was not answered is looked for first.
    async fn save(&mut self, now: Timestamp) -> Result<(), HostError> {
        let Some(unsaved) = &self.unsaved else {
            return Ok(());
        };
        let wave = &unsaved.wave;
        let epoch = self.lease.epoch;
        let done = self.done_with(wave);
        let is_saved = self.is_unanswered && self.store.is_saved(epoch, wave).await?;
        if !is_saved {
            self.is_unanswered = true;
            let saved = SavedWave {
                epoch,
                wave,
                documents: &unsaved.planned.writes,
                done: &done,
            };
            if !self.store.save(saved, now).await? {
                return Err(HostError::Lost);
            }
        }
        self.is_unanswered = false;
        let answered = done.iter().filter(|found| found.from.is_some()).count();
        for found in done {
            self.fetched.remove(&found.seq);
        }
        if let Some(saved) = self.unsaved.take() {
            self.posts.add(&saved.wave, answered, now);
            let wave = saved.wave.number;
            self.inputs.push(SpaceInput::Saved { wave });
            self.rows.saved(saved.planned);
        }
        Ok(())
    }

    /// Moves messages to other spaces that have room for them.
    async fn forward(&mut self, now: Timestamp) -> Result<(), HostError> {
        if self.posts.next(now).is_none_or(|due| due > now) {
            return Ok(());
        }
        let left = self.store.forward(self.lease.epoch, self.posts, now);
        self.posts = left.await?.ok_or(HostError::Lost)?;
        self.machine.note_posts(self.posts.all());
        Ok(())
    }

    fn planned(&self, wave: Wave) -> Result<UnsavedWave, HostError> {
        let planned = self.rows.plan(&self.store.keys, &wave)?;
        Ok(UnsavedWave { wave, planned })
    }

    /// The fetched messages that a wave ends.
    fn done_with(&self, wave: &Wave) -> Vec<FoundMessage> {
        let ended: BTreeSet<&str> = wave
            .receipts
            .iter()
            .map(|receipt| &*receipt.event)
            .collect();
        let is_done = |found: &&FoundMessage| {
            let arrival = found.arrival.as_ref();
            arrival.is_some_and(|arrival| ended.contains(&**arrival.id()))
        };
        self.fetched.values().filter(is_done).cloned().collect()
    }

    /// Hands new messages to the machine. One that has its receipt, and what means nothing, is
    /// removed; one that nobody handled before is handed over again.
    async fn fetch(&mut self, now: Timestamp) -> Result<(), HostError> {
        let mut fresh = self.store.waiting(2 * limit::BACKLOG_MAX).await?;
        fresh.retain(|found| !self.fetched.contains_key(&found.seq));
        let ids = fresh.iter().filter_map(|found| found.arrival.as_ref());
        let known = self.store.receipts(ids.map(|arrival| &**arrival.id()));
        let known = known.await?.into_iter().flatten();
        let known = known.filter(|receipt| !receipt.is_dead());
        let known: BTreeMap<String, StoredReceipt> = known
            .map(|receipt| (receipt.event.clone(), receipt))
            .collect();
        for found in fresh {
            let arrival = found.arrival.clone();
            let receipt = arrival.as_ref().and_then(|it| known.get(&**it.id()));
            if let Some(arrival) = arrival.filter(|_| receipt.is_none()) {
                let chain = found.chain.clone();
                self.inputs.push(SpaceInput::Followed { arrival, chain });
                self.fetched.insert(found.seq, found);
                continue;
            }
            let epoch = self.lease.epoch;
            if !self
                .store
                .remove_message(epoch, &found, receipt, now)
                .await?
            {
                return Err(HostError::Lost);
            }
        }
        Ok(())
    }

    /// Brings documents of other spaces up to date that nodes look at.
    async fn fetch_foreign(&mut self, now: Timestamp) -> Result<(), HostError> {
        let mut wanted: BTreeMap<SpaceName, Vec<CellAddress>> = BTreeMap::new();
        for at in self.machine.foreign() {
            wanted.entry(at.space.clone()).or_default().push(at);
        }
        let mut brought = BTreeSet::new();
        for (space, cells) in wanted {
            let ids: Vec<EntityId> = cells.iter().map(|at| at.id.clone()).collect();
            let store = self.store.beside(space);
            let (values, chain) = store.documents_and_chain(&ids).await?;
            let here = chain.next(|| "".into());
            let is_admitted = self.waits.admit(store.space(), &here, now);
            brought.extend(cells.iter().cloned());
            // Whoever waits for something that was never here is not held up besides.
            let known = self.machine.brought();
            let inputs = cells.into_iter().zip(values);
            let inputs = inputs.filter(|(at, _)| is_admitted || !known.contains(at));
            self.inputs.extend(inputs.map(|(at, value)| {
                let chain = chain.clone();
                SpaceInput::Foreign { at, value, chain }
            }));
        }
        self.machine.note_brought(brought);
        Ok(())
    }

    /// An event that the machine had no room for is fetched again later.
    fn forget(&mut self, id: &str) {
        self.fetched.retain(|_, found| {
            let arrival = found.arrival.as_ref();
            arrival.is_none_or(|arrival| **arrival.id() != *id)
        });
    }
}
