//! One space kept up to date, without I/O: edits, events and acknowledgements in; waves to save,
//! receipts, effects and reports out.
//!
//! Events are handled in order; before a handler runs, what it reads is brought up to date. When
//! nothing can run any more, everything that changed is saved as one wave; what is too much for one is
//! saved in several. Nobody is told of an edit, an event or an effect before its wave is on disk.

mod arrival;
mod command;
mod events;
mod notes;
mod post;
mod program;
mod wave;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_model::{Failure, Timestamp, failure};

use crate::limit;
use crate::scheduler::{ChangedBy, NodeKey, NodeMap, NonSettling};
pub use command::{NOT_DEPLOYED, PostAnswer, PostOrigin, SpaceAction, SpaceCommand};
use events::EventQueue;
pub use events::{Arrival, EventOutcome, EventReceipt, StreamEvent};
use lope_cells::address::CellAddress;
use lope_cells::bounds::{Bounds, WriteRoom};
pub use lope_cells::chain::PostChain;
use lope_cells::chain::{Chains, LastingChain};
use lope_cells::elsewhere::Elsewhere;
use lope_cells::error::{CommitError, CommitRefusal, WriteError};
use lope_cells::history::ChangedCells;
use lope_cells::id::SpaceName;
use lope_cells::json::Json;
pub use lope_cells::nodes::{NodeName, Nodes};
pub use lope_cells::record::{HandledNote, NodeRecord, NodeWiring, StoredNode, UnsettledNote};
use lope_cells::resolve::{Follow, resolve};
use lope_cells::space::{Committed, Spaces};
use lope_cells::transaction::{EffectRequest, Transaction};
pub use post::{PostContent, SpacePost};
pub use program::Program;
use wave::WaveUnderWay;
pub use wave::{CellChange, Wave};

/// What a space is told.
#[derive(Clone, Debug)]
pub enum SpaceInput {
    /// A transaction to commit; the answer names the ticket.
    Edit {
        ticket: u64,
        transaction: Transaction,
    },
    Arrived(Arrival),
    /// Something that arrived, with the messages that led to it, if any did.
    Followed {
        arrival: Arrival,
        chain: PostChain,
    },
    /// A document of another space, as it stands there now, and what led to the last wave there.
    Foreign {
        at: CellAddress,
        value: Option<Json>,
        chain: PostChain,
    },
    /// The wave with this number is on disk.
    Saved {
        wave: u64,
    },
}

impl From<StreamEvent> for SpaceInput {
    fn from(event: StreamEvent) -> Self {
        Self::Arrived(Arrival::Event(event))
    }
}

/// What a space asks for or tells.
#[derive(Clone, Debug, PartialEq)]
pub enum SpaceOutput {
    /// To be saved whole. One at a time is under way.
    Save(Wave),
    /// An edit is on disk with this revision, or was not done.
    Edited {
        ticket: u64,
        outcome: Result<u64, CommitError>,
    },
    Receipt(EventReceipt),
    /// The stream's backlog is full; the sender may try again.
    Refused(StreamEvent),
    /// To be done, now that what asked for it is on disk.
    Effect(EffectRequest),
    NonSettling(NonSettling),
    Failed {
        node: NodeKey,
        failure: Failure,
    },
}

/// What is left to run when some of it has run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Nothing,
    /// Nodes that may run now.
    Ready,
    /// What has run fills a wave; whatever is left runs when that is saved.
    NextWave,
}

/// A space at work.
#[derive(Debug)]
pub struct SpaceMachine<P> {
    space: SpaceName,
    spaces: Spaces,
    nodes: Nodes,
    program: P,
    events: EventQueue,
    wave: Wave,
    saving: Option<WaveUnderWay>,
    /// Nodes that ran since the last wave, and those that did not settle.
    ran: NodeMap<Option<Box<NonSettling>>>,
    /// Where documents changed since the last wave, and who did it.
    changed: ChangedCells,
    /// Whether a wave has begun that has not settled yet.
    is_settling: bool,
    /// Whether there is more to save than one wave takes, so that another one follows at once.
    is_cut: bool,
    /// Nodes that ran before a wave is saved though it has not settled.
    wave_nodes: usize,
    checks_twice: bool,
    bounds: Bounds,
    chains: Chains,
    last_chain: LastingChain,
    elsewhere: Elsewhere,
}

impl<P: Program> SpaceMachine<P> {
    pub fn new(space: SpaceName, spaces: Spaces, program: P) -> Self {
        Self {
            space,
            spaces,
            nodes: Nodes::default(),
            program,
            events: EventQueue::default(),
            wave: Wave {
                number: 1,
                ..Wave::default()
            },
            saving: None,
            ran: NodeMap::default(),
            changed: ChangedCells::default(),
            is_settling: false,
            is_cut: false,
            wave_nodes: limit::WAVE_NODES_MAX,
            checks_twice: false,
            bounds: Bounds::default(),
            chains: Chains::default(),
            last_chain: LastingChain::default(),
            elsewhere: Elsewhere::default(),
        }
    }

    /// Starts what runs in the space, as its documents say. What `stored` says is up to date does
    /// not run.
    pub fn resume(&mut self, stored: BTreeMap<Arc<str>, StoredNode>) {
        self.nodes.restore(stored);
        self.program.resumed(&self.spaces, &mut self.nodes);
    }

    /// Takes in what led to how the space stood when it was taken up.
    pub fn note_past(&mut self, chain: PostChain, now: Timestamp) {
        self.last_chain.note(chain.clone(), now);
        self.chains.note_past(chain);
    }

    /// Runs every computation twice from now on; one whose writes differ fails.
    pub fn check_twice(&mut self) {
        self.checks_twice = true;
    }

    /// Saves a wave whenever so many nodes ran, though more can run; at most what a commit takes.
    pub fn bound_waves(&mut self, nodes: usize) {
        self.wave_nodes = nodes.clamp(1, limit::WAVE_NODES_MAX);
    }

    /// Takes in how many messages to other spaces wait in the store.
    pub fn note_posts(&mut self, waiting: usize) {
        self.bounds.posts = waiting + self.wave.posts.len();
    }

    /// Takes in what happened and does all that can be done now.
    pub fn handle(
        &mut self,
        now: Timestamp,
        inputs: &mut Vec<SpaceInput>,
        outputs: &mut Vec<SpaceOutput>,
    ) {
        while !self.handle_slice(now, inputs, outputs) {}
    }

    /// Takes in what happened and does some of what can be done now; says whether that was all. If
    /// not, nothing is saved yet, and the next call goes on.
    pub fn handle_slice(
        &mut self,
        now: Timestamp,
        inputs: &mut Vec<SpaceInput>,
        outputs: &mut Vec<SpaceOutput>,
    ) -> bool {
        self.take_in(now, inputs, outputs);
        for node in self.elsewhere.take_resumed() {
            self.nodes.scheduler.resume(node);
        }
        if !self.is_settling && !self.is_cut {
            self.bury(now);
            for _ in 0..limit::EVENTS_PER_WAVE_MAX {
                if self.is_full() || !self.handle_arrival(now, outputs) {
                    break;
                }
            }
        }
        let rest = self.run_ready(now, outputs);
        self.is_settling = rest == Rest::Ready;
        self.is_cut = rest == Rest::NextWave;
        match rest {
            Rest::Ready => {}
            Rest::NextWave => self.save(now, outputs),
            Rest::Nothing => self.end_wave(now, outputs),
        }
        !self.is_settling
    }

    fn take_in(
        &mut self,
        now: Timestamp,
        inputs: &mut Vec<SpaceInput>,
        outputs: &mut Vec<SpaceOutput>,
    ) {
        for input in inputs.drain(..) {
            match input {
                SpaceInput::Edit {
                    ticket,
                    transaction,
                } => {
                    self.edit(ticket, transaction, outputs);
                }
                SpaceInput::Arrived(arrival) => self.arrive(now, arrival, outputs),
                SpaceInput::Followed { arrival, chain } => {
                    self.chains.note_arrival(arrival.id(), chain);
                    self.arrive(now, arrival, outputs);
                }
                SpaceInput::Foreign { at, value, chain } => self.load_foreign(&at, value, &chain),
                SpaceInput::Saved { wave } => self.saved(wave, outputs),
            }
        }
    }

    /// Runs nodes whose turn it is; says what is left to run.
    fn run_ready(&mut self, now: Timestamp, outputs: &mut Vec<SpaceOutput>) -> Rest {
        for _ in 0..limit::RUNS_PER_SLICE_MAX {
            if self.is_full() {
                return Rest::NextWave;
            }
            match self.nodes.scheduler.next(now) {
                Some(node) => {
                    self.run(node, outputs);
                }
                None => return Rest::Nothing,
            }
        }
        Rest::Ready
    }

    /// Whether a wave has so much in it that whatever comes next is for the next one.
    fn is_full(&self) -> bool {
        self.bounds.is_full() || self.ran.len() >= self.wave_nodes
    }

    /// Everything has come to rest: reports, and the wave to be saved.
    fn end_wave(&mut self, now: Timestamp, outputs: &mut Vec<SpaceOutput>) {
        self.readdress(!self.changed.is_empty());
        for report in self.nodes.scheduler.take_reports() {
            let noted = Some(Box::new(report.clone()));
            self.ran.insert(report.node, noted);
            outputs.push(SpaceOutput::NonSettling(report));
        }
        self.chains.end_wave(|id| self.events.is_queued(id));
        if self.elsewhere.is_complete() {
            self.chains.forget_past();
        }
        self.save(now, outputs);
    }

    /// When to call `handle` again though nothing came in.
    pub fn next_deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let is_fetching = !self.elsewhere.is_complete();
        if self.is_settling || self.is_cut || is_fetching || self.has_events() {
            return Some(now);
        }
        let deadlines = [
            self.nodes.scheduler.next_deadline(now),
            self.events.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Whether nothing can run and everything is on disk.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        let at_rest = !self.is_settling && !self.is_cut && self.nodes.is_idle(now);
        let at_rest = at_rest && self.elsewhere.is_complete() && !self.has_events();
        at_rest && self.wave.is_empty() && self.saving.is_none()
    }

    /// Whether a wave has begun that has not settled yet.
    pub fn is_settling(&self) -> bool {
        self.is_settling
    }

    /// The documents of other spaces that nodes look at.
    pub fn foreign(&self) -> BTreeSet<CellAddress> {
        let mut all = self.nodes.scheduler.foreign(&self.space);
        all.extend(self.elsewhere.unseen().cloned());
        all
    }

    /// Notes which documents of other spaces were brought, or will be with the next input. Whoever
    /// looks at another one from now on does nothing until it is here.
    pub fn note_brought(&mut self, documents: BTreeSet<CellAddress>) {
        self.elsewhere.note_brought(documents);
    }

    /// Which documents of other spaces were brought last.
    pub fn brought(&self) -> &BTreeSet<CellAddress> {
        self.elsewhere.brought()
    }

    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    pub fn nodes(&mut self) -> &mut Nodes {
        &mut self.nodes
    }

    pub fn program(&mut self) -> &mut P {
        &mut self.program
    }

    /// Lets the program add and remove nodes by itself.
    pub fn with_program<T>(&mut self, work: impl FnOnce(&mut P, &Spaces, &mut Nodes) -> T) -> T {
        work(&mut self.program, &self.spaces, &mut self.nodes)
    }

    fn edit(&mut self, ticket: u64, transaction: Transaction, outputs: &mut Vec<SpaceOutput>) {
        let room = WriteRoom::Usual;
        let valid = self
            .bounds
            .validate(&self.spaces, &self.space, &transaction, room);
        let valid = valid.map_err(|failure| CommitRefusal::Beyond(failure.message).into());
        match valid.and_then(|()| self.commit(transaction)) {
            Ok(committed) => {
                self.apply(&committed, &ChangedBy::Edit);
                let revision = self.spaces.snapshot().revision(&self.space);
                self.wave.edits.push((ticket, revision));
            }
            Err(error) => outputs.push(SpaceOutput::Edited {
                ticket,
                outcome: Err(error),
            }),
        }
    }

    /// Takes in how a document of another space stands now.
    fn load_foreign(&mut self, at: &CellAddress, value: Option<Json>, chain: &PostChain) {
        if at.space == self.space {
            return;
        }
        if let Some(change) = self.spaces.replace(&at.space, &at.id, value) {
            self.chains.note_space(&at.space, chain);
            let by = ChangedBy::Space(at.space.clone());
            self.nodes.scheduler.changed(&[change], &by);
        }
    }

    /// The receipt of an event that was delivered again, unless it is still to be saved.
    fn repeat(&mut self, receipt: EventReceipt, outputs: &mut Vec<SpaceOutput>) {
        let saving = self.saving.iter().flat_map(|wave| &wave.receipts);
        let mut unsaved = saving.chain(&self.wave.receipts);
        if !unsaved.any(|other| other.event == receipt.event) {
            outputs.push(SpaceOutput::Receipt(receipt));
        }
    }

    fn saved(&mut self, number: u64, outputs: &mut Vec<SpaceOutput>) {
        let Some(wave) = self.saving.take_if(|wave| wave.number == number) else {
            return;
        };
        outputs.extend(wave.edits.into_iter().map(|(ticket, revision)| {
            let outcome = Ok(revision);
            SpaceOutput::Edited { ticket, outcome }
        }));
        outputs.extend(wave.receipts.into_iter().map(SpaceOutput::Receipt));
        outputs.extend(wave.effects.into_iter().map(SpaceOutput::Effect));
    }

    fn save(&mut self, now: Timestamp, outputs: &mut Vec<SpaceOutput>) {
        if self.saving.is_some() {
            return;
        }
        self.note_nodes(now);
        if self.wave.is_empty() {
            return;
        }
        self.note_history();
        let longest = self.chains.take_longest();
        self.wave.chain = self.last_chain.next(longest, now);
        let waits = self.nodes.scheduler.has_waiting();
        // One that looks at other spaces is to see what changes there.
        let looks_elsewhere = !self.foreign().is_empty();
        self.wave.is_active = self.is_cut || waits || looks_elsewhere || self.program.is_waiting();
        let next = Wave {
            number: self.wave.number + 1,
            ..Wave::default()
        };
        let wave = std::mem::replace(&mut self.wave, next);
        self.bounds.begin_wave();
        self.saving = Some(WaveUnderWay::of(&wave));
        outputs.push(SpaceOutput::Save(wave));
    }

    fn has_events(&self) -> bool {
        self.events
            .has(|stream| self.nodes.handler_of(stream).is_some())
    }

    /// Applies what an event or a command did, and puts its receipt into the wave.
    fn settle(&mut self, id: Arc<str>, result: Result<Committed, Failure>) {
        let outcome = match result {
            Ok(committed) => {
                self.apply(&committed, &ChangedBy::Event(id.clone()));
                EventOutcome::Handled
            }
            Err(failure) => EventOutcome::Failed(self.program.worded(failure, &self.spaces)),
        };
        let receipt = EventReceipt { event: id, outcome };
        self.events.remember(receipt.clone());
        self.wave.receipts.push(receipt);
    }

    /// Runs a node; says whether it could be run. If not, it has to run when it can see everything.
    fn run(&mut self, node: NodeKey, outputs: &mut Vec<SpaceOutput>) -> bool {
        let mut transaction = self.spaces.begin_in(&self.space);
        let result = self.program.run(node, &mut transaction);
        let result = saw_everything(&transaction).and(result);
        let result = result.and_then(|()| self.check(node, &transaction));
        let reads = self.spaces.take_reads(&mut transaction);
        if self.elsewhere.is_missing(&self.space, &reads) {
            self.elsewhere.hold(node);
            return false;
        }
        self.nodes
            .scheduler
            .finished(node, reads, transaction.writes());
        self.ran.insert(node, None);
        let result = result.map_err(shortened);
        let cause = self.chain_of_run(node);
        let result = result.and_then(|()| self.commit_of(node, transaction, &cause));
        match result {
            Ok(committed) => self.apply(&committed, &ChangedBy::Node(node)),
            Err(failure) => self.fail(node, &cause, failure, outputs),
        }
        true
    }

    fn fail(
        &mut self,
        node: NodeKey,
        cause: &PostChain,
        failure: Failure,
        outputs: &mut Vec<SpaceOutput>,
    ) {
        let failure = self.program.worded(failure, &self.spaces);
        let mut transaction = self.spaces.begin_in(&self.space);
        self.program.failed(node, &failure, &mut transaction);
        if let Ok(committed) = self.commit_bounded(transaction, WriteRoom::Reserved) {
            self.post(node, &committed.posts, cause);
            self.apply(&committed, &ChangedBy::Node(node));
        }
        outputs.push(SpaceOutput::Failed { node, failure });
    }

    /// In the mode for tests: whether a second run does the same.
    fn check(&mut self, node: NodeKey, first: &Transaction) -> Result<(), Failure> {
        if !self.checks_twice {
            return Ok(());
        }
        let mut second = self.spaces.begin_in(&self.space);
        self.program.run(node, &mut second)?;
        let same = first.operations() == second.operations()
            && first.effects() == second.effects()
            && first.posts() == second.posts();
        let message = "two runs on the same cells wrote different things";
        same.then_some(())
            .ok_or_else(|| Failure::new("Unstable", message))
    }

    /// Commits what a node did; what it asks of others goes into the wave.
    fn commit_of(
        &mut self,
        node: NodeKey,
        transaction: Transaction,
        cause: &PostChain,
    ) -> Result<Committed, Failure> {
        let mut committed = self.commit_bounded(transaction, WriteRoom::Usual)?;
        self.post(node, &committed.posts, cause);
        if !committed.effects.is_empty() {
            let chain = self.chain_from(node, cause);
            for effect in &mut committed.effects {
                effect.chain = chain.clone();
            }
        }
        Ok(committed)
    }

    /// Commits what can be saved.
    fn commit_bounded(
        &mut self,
        transaction: Transaction,
        room: WriteRoom,
    ) -> Result<Committed, Failure> {
        self.bounds
            .validate(&self.spaces, &self.space, &transaction, room)?;
        self.commit(transaction).map_err(failure_of)
    }

    fn commit(&mut self, transaction: Transaction) -> Result<Committed, CommitError> {
        if let Some(second) = transaction.space().filter(|space| **space != self.space) {
            let (first, second) = (self.space.clone(), second.clone());
            let refused = WriteError::OtherSpace { first, second };
            return Err(CommitError::Refused(refused.into()));
        }
        self.spaces.commit(transaction)
    }

    fn apply(&mut self, committed: &Committed, by: &ChangedBy) {
        self.nodes.scheduler.changed(&committed.changes, by);
        self.wave.add(committed);
        for change in &committed.changes {
            for place in &change.paths {
                self.changed.note(&change.id, &place.path, by);
            }
        }
        self.program
            .committed(committed, &self.spaces, &mut self.nodes);
    }
}

/// Where a stream is that a cell stands for.
fn stream_at(spaces: &Spaces, at: &CellAddress) -> CellAddress {
    let found = resolve(&mut spaces.begin(), at, Follow::Every);
    found.map_or_else(|_| at.clone(), |found| found.address)
}

/// Whoever was not shown all of what it read has nothing to say.
fn saw_everything(transaction: &Transaction) -> Result<(), Failure> {
    match transaction.beyond() {
        Some(beyond) => Err(Failure::new(failure::kind::LIMIT, beyond.to_string())),
        None => Ok(()),
    }
}

/// A failure as it can be kept, however much its function had to say.
fn shortened(failure: Failure) -> Failure {
    let short = |mut text: String| {
        text.truncate(text.floor_char_boundary(limit::FAILURE_MAX));
        text
    };
    let kind = match failure.kind.len() {
        0..=limit::FAILURE_MAX => failure.kind,
        _ => short(failure.kind.to_string()).into(),
    };
    Failure {
        kind,
        message: short(failure.message),
        traceback: failure.traceback.map(short),
        ..failure
    }
}

fn failure_of(error: CommitError) -> Failure {
    Failure::new("Write", error.to_string())
}
