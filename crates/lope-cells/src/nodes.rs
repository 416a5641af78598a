//! The nodes of a space by name: which there are, which streams they handle, what a store has and gets of
//! them. When each runs, the scheduler says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_model::{Failure, Timestamp};

use crate::address::CellAddress;
use crate::record::{HandledNote, NodeRecord, NodeWiring, StoredNode, UnsettledNote, seen};
use crate::scheduler::{
    ChangedBy, NodeKey, NodeMap, NodePlace, NodeReport, NodeRole, NodeSpec, RunReason, Scheduler,
};
use crate::snapshot::SpaceSnapshot;
use crate::transaction::ReadLog;

/// The nodes of a space and the streams they listen to.
#[derive(Debug, Default)]
pub struct Nodes {
    pub scheduler: Scheduler,
    /// The handlers of each stream, as they were started; the last one has it.
    handlers: BTreeMap<CellAddress, BTreeSet<StartedHandler>>,
    streams: BTreeMap<NodeKey, CellAddress>,
    /// Whether a handler was added since last asked.
    has_fresh_handlers: bool,
    /// The names of the nodes that a store keeps a record of, with their recipes.
    names: NodeMap<LabelledNode>,
    /// Names whose nodes were taken out since last asked.
    removed: BTreeSet<Arc<str>>,
    /// What nodes are called in words that are gone and did something in this wave, perhaps.
    former: BTreeMap<NodeKey, Arc<str>>,
    /// Records of nodes that were not added yet.
    stored: BTreeMap<Arc<str>, StoredNode>,
    /// How the nodes fared that were added with a record.
    recorded: BTreeMap<NodeKey, NodeRecord>,
    /// What handlers did.
    handled: BTreeMap<NodeKey, HandledNote>,
}

/// A handler, after those that were started before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StartedHandler {
    started: u64,
    place: NodePlace,
    node: NodeKey,
}

/// What a handler is to be added with.
#[derive(Clone, Debug)]
pub struct HandlerSpec {
    pub stream: CellAddress,
    /// What it will look at besides the event.
    pub reads: ReadLog,
    pub place: NodePlace,
}

/// What a reason has in it besides names and ids, most often.
const ROOM_FOR_PATH: usize = 64;

/// A node that has a name.
#[derive(Debug)]
struct LabelledNode {
    named: NodeName,
    /// What it is called in words.
    label: Arc<str>,
}

/// An event that a handler is done with.
#[derive(Debug)]
pub struct HandledEvent<'a> {
    pub event: &'a Arc<str>,
    pub writes: BTreeSet<CellAddress>,
    pub failure: Option<&'a Failure>,
}

/// What a node is called over the life of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName {
    pub name: Arc<str>,
    pub recipe: Arc<str>,
}

impl Nodes {
    /// Adds a node that runs when what it reads changes.
    pub fn add(&mut self, spec: NodeSpec) -> NodeKey {
        self.scheduler.register(spec)
    }

    /// Adds a node under a name. If a store has a record of it, and `may_rest`, it runs only if what
    /// it read has changed.
    pub fn add_named(
        &mut self,
        spec: NodeSpec,
        name: NodeName,
        now: &SpaceSnapshot,
        may_rest: bool,
    ) -> NodeKey {
        self.removed.remove(&name.name);
        let stored = self.stored.remove(&name.name);
        let node = match stored.filter(|stored| stored.record.recipe == name.recipe) {
            Some(stored) => {
                let is_current = may_rest && stored.is_current(now);
                let runs = stored.record.runs;
                let spec = if is_current {
                    stored.rewired(spec)
                } else {
                    spec
                };
                let node = self.scheduler.restore(spec, runs, is_current);
                if let Some((until, wait)) = stored.record.waits().filter(|_| !is_current) {
                    self.scheduler.wait_on(node, until, wait);
                }
                self.recorded.insert(node, stored.record);
                node
            }
            None => self.scheduler.register(spec),
        };
        self.label(node, name);
        node
    }

    fn label(&mut self, node: NodeKey, name: NodeName) {
        let labelled = LabelledNode {
            label: format!("node {}", name.name).into(),
            named: name,
        };
        self.names.insert(node, labelled);
    }

    /// Takes in what a store has of nodes that will be added.
    pub fn restore(&mut self, stored: BTreeMap<Arc<str>, StoredNode>) {
        self.stored = stored;
    }

    /// What a node is called, if it has a name.
    pub fn name_of(&self, node: NodeKey) -> Option<&Arc<str>> {
        self.names.get(&node).map(|known| &known.named.name)
    }

    /// Where a node reads and writes, as far as is known.
    pub fn wiring(&self, node: NodeKey) -> Option<(Vec<CellAddress>, Vec<CellAddress>)> {
        let reads = self.scheduler.reads(node)?.keys().cloned().collect();
        let writes = self.scheduler.writes(node)?.iter().cloned().collect();
        Some((reads, writes))
    }

    /// How a node fared when a record of it was taken up.
    pub fn recorded(&self, node: NodeKey) -> Option<&NodeRecord> {
        self.recorded.get(&node)
    }

    /// Who changed something, in words that mean the same after a restart.
    pub fn describe(&self, by: &ChangedBy) -> Arc<str> {
        match by {
            ChangedBy::Node(node) => {
                let label = self.names.get(node).map(|known| &known.label);
                let label = label.or_else(|| self.former.get(node));
                label.map_or_else(|| node.to_string().into(), Arc::clone)
            }
            ChangedBy::Event(_) | ChangedBy::Edit | ChangedBy::Space(_) => by.to_string().into(),
        }
    }

    /// Forgets what nodes were called that are gone.
    pub fn forget_removed(&mut self) {
        self.former.clear();
    }

    fn explain(&self, reason: &RunReason) -> String {
        match reason {
            RunReason::Changed { at, by } => {
                let room = ROOM_FOR_PATH + at.space.as_str().len() + at.id.as_str().len();
                let label = self.describe(by);
                let mut text = String::with_capacity(label.len() + room);
                text.push_str(&label);
                text.push_str(" changed ");
                at.push_to(&mut text);
                text
            }
            RunReason::Registered | RunReason::Resumed => reason.to_string(),
        }
    }

    /// The names of nodes that are gone, and not there again, so many at most.
    pub fn take_removed(&mut self, most: usize) -> BTreeSet<Arc<str>> {
        match self.removed.iter().nth(most).cloned() {
            Some(next) => {
                let rest = self.removed.split_off(&next);
                std::mem::replace(&mut self.removed, rest)
            }
            None => std::mem::take(&mut self.removed),
        }
    }

    /// Whether some were too many to be taken.
    pub fn has_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// A record of a node as it stands.
    pub fn record(
        &mut self,
        node: NodeKey,
        now: &SpaceSnapshot,
        unsettled: Option<UnsettledNote>,
    ) -> Option<(Arc<str>, NodeRecord, Option<NodeWiring>)> {
        let named = self.names.get(&node)?.named.clone();
        let wiring = self.scheduler.take_wiring(node);
        let fared = self.scheduler.fared(node)?;
        let reads = self.scheduler.reads(node)?;
        let record = NodeRecord {
            recipe: named.recipe,
            seen: fared.is_current.then(|| seen(reads, now)),
            runs: fared.runs,
            reason: fared.last_reason.map(|reason| self.explain(reason)),
            unsettled,
            handled: self.handled.get(&node).cloned(),
        };
        let wiring = wiring.map(|(reads, writes)| NodeWiring { reads, writes });
        Some((named.name, record, wiring))
    }

    /// Adds a handler of a stream; it has the stream until it is removed or one is added that was started
    /// later.
    pub fn add_handler(&mut self, spec: HandlerSpec) -> NodeKey {
        let HandlerSpec {
            stream,
            reads,
            place,
        } = spec;
        let node = self.scheduler.register(NodeSpec {
            role: NodeRole::Handler,
            place,
            parent: None,
            reads,
            writes: BTreeSet::new(),
        });
        self.has_fresh_handlers = true;
        let handlers = self.handlers.entry(stream.clone()).or_default();
        handlers.insert(StartedHandler {
            started: place.started,
            place,
            node,
        });
        self.streams.insert(node, stream);
        node
    }

    /// Adds a handler under a name; what a store has of it goes on being told.
    pub fn add_named_handler(&mut self, spec: HandlerSpec, name: NodeName) -> NodeKey {
        self.removed.remove(&name.name);
        let stored = self.stored.remove(&name.name);
        let stored = stored.filter(|stored| stored.record.recipe == name.recipe);
        let node = self.add_handler(spec);
        if let Some(StoredNode { record, .. }) = stored {
            self.scheduler.count_from(node, record.runs);
            self.handled
                .extend(record.handled.clone().map(|note| (node, note)));
            self.recorded.insert(node, record);
        }
        self.label(node, name);
        node
    }

    /// Notes what a handler did with an event.
    pub fn note_handled(&mut self, node: NodeKey, outcome: HandledEvent<'_>) {
        let note = self.handled.entry(node).or_default();
        note.event = Arc::clone(outcome.event);
        if !outcome.writes.is_empty() {
            note.writes = outcome.writes;
        }
        if let Some(failure) = outcome.failure {
            note.failed = Some((Arc::clone(outcome.event), failure.clone()));
        }
    }

    /// What a handler did last.
    pub fn handled(&self, node: NodeKey) -> Option<&HandledNote> {
        self.handled.get(&node)
    }

    /// Whether a handler was added since last asked.
    pub fn take_fresh_handlers(&mut self) -> bool {
        std::mem::take(&mut self.has_fresh_handlers)
    }

    /// Takes a node out, handler or not.
    pub fn remove(&mut self, node: NodeKey) {
        self.scheduler.unregister(node);
        self.recorded.remove(&node);
        self.handled.remove(&node);
        if let Some(known) = self.names.remove(&node) {
            self.former.insert(node, known.label);
            self.removed.insert(known.named.name);
        }
        let Some(stream) = self.streams.remove(&node) else {
            return;
        };
        if let Some(handlers) = self.handlers.get_mut(&stream) {
            handlers.retain(|other| other.node != node);
            if handlers.is_empty() {
                self.handlers.remove(&stream);
            }
        }
    }

    /// Whether a node gets the events of the stream that it handles.
    pub fn has_stream(&self, node: NodeKey) -> bool {
        let stream = self.streams.get(&node);
        stream.is_some_and(|stream| self.handler_of(stream) == Some(node))
    }

    /// Who gets the events of `stream`.
    pub fn handler_of(&self, stream: &CellAddress) -> Option<NodeKey> {
        self.handlers.get(stream)?.last().map(|last| last.node)
    }

    /// Why a node ran, and what keeps it from running.
    pub fn why(&self, node: NodeKey) -> Option<NodeReport> {
        self.scheduler.why(node)
    }

    /// Whether no node can run now.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.scheduler.is_idle(now)
    }
}
