//! Which computation runs next. Knows nodes, what they read and write, and the time; runs nothing.
//!
//! A node runs when it is invalid (something it saw has changed), live (somebody wants what it
//! writes) and eligible (it does not wait). Nodes run in the order of the data, then parents before
//! children, then in that of their places, then as registered. A node that runs too often in one pass waits, longer each time,
//! and the others go on.

mod graph;
mod index;
mod node;

use std::collections::BTreeSet;

use lope_model::{Span, Timestamp};

use crate::address::CellAddress;
use crate::id::SpaceName;
use crate::limit;
use crate::space::DocumentChange;
use crate::transaction::ReadLog;
use graph::{Graph, ReadyKey};
use index::PathIndex;
pub use node::{
    ChangedBy, NodeKey, NodeMap, NodePlace, NodeReport, NodeRole, NodeSpec, NonSettling, RunCount,
    RunReason,
};
use node::{NodeSet, NodeState};

/// The order of computations in one space.
#[derive(Debug, Default)]
pub struct Scheduler {
    nodes: NodeMap<NodeState>,
    graph: Graph,
    index: PathIndex,
    ready: BTreeSet<ReadyKey>,
    /// Where each ready node stands in `ready`.
    ready_keys: NodeMap<ReadyKey>,
    waiting: BTreeSet<(Timestamp, NodeKey)>,
    /// Nodes that have to run, live or not.
    invalid: BTreeSet<NodeKey>,
    /// Nodes that ran in this pass.
    ran: NodeSet,
    reports: Vec<NonSettling>,
    /// Nodes whose reads or writes are others than when last asked.
    rewired: NodeSet,
    /// What was found out for the last event.
    upstream: Upstream,
    registered: u64,
}

/// The nodes whose writes may reach a handler.
#[derive(Debug, Default)]
struct Upstream {
    /// The handler, and the edition of the graph.
    of: Option<(NodeKey, u64)>,
    nodes: BTreeSet<NodeKey>,
}

impl Scheduler {
    /// Adds a node, which has to run once it is live. Nothing runs by this.
    pub fn register(&mut self, spec: NodeSpec) -> NodeKey {
        let is_handler = spec.role == NodeRole::Handler;
        self.insert(spec, (!is_handler).then_some(RunReason::Registered), 0)
    }

    /// Adds a node that ran so often before, under another host. If it is up to date it runs when
    /// something it reads changes.
    pub fn restore(&mut self, spec: NodeSpec, runs: u64, is_current: bool) -> NodeKey {
        let node = self.insert(spec, (!is_current).then_some(RunReason::Resumed), runs);
        if is_current {
            self.rewired.remove(&node);
        }
        node
    }

    /// Goes on with the wait of a node that did not settle under another host.
    pub fn wait_on(&mut self, node: NodeKey, until: Timestamp, wait: Span) {
        let Some(state) = self.nodes.get_mut(&node) else {
            return;
        };
        (state.waits_until, state.wait) = (Some(until), Some(wait));
        self.waiting.insert((until, node));
        self.dequeue(node);
    }

    /// Goes on counting the runs of a node where another host ended.
    pub fn count_from(&mut self, node: NodeKey, runs: u64) {
        if let Some(state) = self.nodes.get_mut(&node) {
            state.runs = runs;
        }
    }

    fn insert(&mut self, spec: NodeSpec, invalid: Option<RunReason>, runs: u64) -> NodeKey {
        self.registered += 1;
        let node = NodeKey(self.registered);
        let wanted = spec.role == NodeRole::Observer;
        self.graph.add(node, wanted, spec.place, spec.parent);
        let is_handler = spec.role == NodeRole::Handler;
        let state = NodeState {
            role: spec.role,
            reads: ReadLog::new(),
            writes: BTreeSet::new(),
            invalid,
            runs_in_pass: 0,
            runs,
            last_reason: None,
            waits_until: None,
            wait: None,
        };
        self.nodes.insert(node, state);
        self.set_reads(node, spec.reads);
        if !is_handler {
            if self.nodes[&node].invalid.is_some() {
                self.invalid.insert(node);
            }
            self.add_writes(node, spec.writes.iter());
        }
        self.reconsider(node);
        self.reconsider_revived();
        node
    }

    /// Takes a node out; it never runs again.
    pub fn unregister(&mut self, node: NodeKey) {
        if !self.nodes.contains_key(&node) {
            return;
        }
        self.set_reads(node, ReadLog::new());
        for at in std::mem::take(&mut self.state(node).writes) {
            self.index.remove_writer(node, &at);
        }
        self.dequeue(node);
        self.graph.remove(node);
        let state = self.nodes.remove(&node);
        if let Some(until) = state.and_then(|state| state.waits_until) {
            self.waiting.remove(&(until, node));
        }
        self.ran.remove(&node);
        self.invalid.remove(&node);
        self.rewired.remove(&node);
        self.reconsider_revived();
    }

    /// Invalidates whoever sees something else after `changes`, except who made them.
    pub fn changed(&mut self, changes: &[DocumentChange], by: &ChangedBy) {
        for change in changes {
            for (node, path) in self.index.concerned(change) {
                let own = matches!(by, ChangedBy::Node(author) if *author == node);
                if own || self.nodes[&node].role == NodeRole::Handler {
                    continue;
                }
                let invalid = &mut self.state(node).invalid;
                invalid.get_or_insert_with(|| RunReason::Changed {
                    at: change.address(path),
                    by: by.clone(),
                });
                self.invalid.insert(node);
                self.reconsider(node);
            }
        }
    }

    /// The node whose turn it is. None ends the pass: nothing can run now.
    pub fn next(&mut self, now: Timestamp) -> Option<NodeKey> {
        self.end_waits(now);
        loop {
            self.reorder();
            let Some((_, (_, node))) = self.ready.first().copied() else {
                self.begin_pass();
                return None;
            };
            self.dequeue(node);
            if self.may_run(node, now) {
                return Some(node);
            }
        }
    }

    /// The next node that has to run before `handler` sees what is up to date; live or not.
    pub fn next_for(&mut self, handler: NodeKey, now: Timestamp) -> Option<NodeKey> {
        self.end_waits(now);
        if self.invalid.is_empty() {
            return None;
        }
        self.reorder();
        self.look_upstream(handler);
        let may_run = |node: &&NodeKey| self.nodes[node].waits_until.is_none();
        let stale = self.upstream.nodes.intersection(&self.invalid);
        let stale = stale.filter(may_run);
        let mut ready_keys: Vec<ReadyKey> = stale.map(|node| self.graph.ready_key(*node)).collect();
        ready_keys.sort_unstable();
        for (_, (_, node)) in ready_keys {
            self.dequeue(node);
            if self.may_run(node, now) {
                return Some(node);
            }
        }
        None
    }

    /// Finds out whose writes may reach `handler`, unless that is known and the graph is the same.
    fn look_upstream(&mut self, handler: NodeKey) {
        let edition = self.graph.edition();
        if self.upstream.of != Some((handler, edition)) {
            self.upstream = Upstream {
                of: Some((handler, edition)),
                nodes: self.graph.everything_before(handler),
            };
        }
    }

    /// Tells that `node` ran, what it read, and where it wrote. What it changed is told by
    /// `changed`.
    pub fn finished<'a>(
        &mut self,
        node: NodeKey,
        reads: ReadLog,
        writes: impl Iterator<Item = &'a CellAddress>,
    ) {
        if !self.nodes.contains_key(&node) {
            return;
        }
        self.ran.insert(node);
        self.invalid.remove(&node);
        let mut writes = writes.peekable();
        let state = self.state(node);
        state.runs += 1;
        // Who writes nothing keeps nobody busy.
        let writes_something = !state.writes.is_empty() || writes.peek().is_some();
        state.runs_in_pass += u32::from(writes_something);
        state.last_reason = state.invalid.take();
        let is_handler = state.role == NodeRole::Handler;
        self.set_reads(node, reads);
        if !is_handler {
            self.add_writes(node, writes);
        }
        self.reconsider_revived();
    }

    /// A node that was to run and could not may run now.
    pub fn resume(&mut self, node: NodeKey) {
        if self.nodes.contains_key(&node) {
            self.reconsider(node);
        }
    }

    /// Counts runs from the start again; who waits keeps how long it waited.
    pub fn begin_pass(&mut self) {
        for node in std::mem::take(&mut self.ran) {
            let state = self.state(node);
            if state.waits_until.is_none() {
                state.runs_in_pass = 0;
                state.wait = None;
            }
        }
    }

    /// Whether nothing can run now.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.ready.is_empty()
            && self
                .next_deadline(now)
                .is_none_or(|deadline| deadline > now)
    }

    /// When a node that waits may run again. No wait is longer than the longest, whatever the clock was
    /// when it began.
    pub fn next_deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let first = self.waiting.first();
        first.map(|(until, _)| (*until).min(now.plus(limit::BACKOFF_MAX)))
    }

    /// Whether a node waits because it does not settle.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The nodes that were found not to settle, since last asked.
    pub fn take_reports(&mut self) -> Vec<NonSettling> {
        std::mem::take(&mut self.reports)
    }

    /// What a node reads and writes, if that is another than when last asked.
    pub fn take_wiring(&mut self, node: NodeKey) -> Option<(ReadLog, BTreeSet<CellAddress>)> {
        let is_new = self.rewired.remove(&node);
        let state = self.nodes.get(&node).filter(|_| is_new)?;
        Some((state.reads.clone(), state.writes.clone()))
    }

    /// The documents of spaces other than this one that nodes look at.
    pub fn foreign(&self, own: &SpaceName) -> BTreeSet<CellAddress> {
        self.index.foreign(own)
    }

    /// Where a node writes.
    pub fn writes(&self, node: NodeKey) -> Option<&BTreeSet<CellAddress>> {
        self.nodes.get(&node).map(|state| &state.writes)
    }

    /// What a node read when it ran last.
    pub fn reads(&self, node: NodeKey) -> Option<&ReadLog> {
        self.nodes.get(&node).map(|state| &state.reads)
    }

    /// Why a node ran, and what keeps it from running.
    pub fn why(&self, node: NodeKey) -> Option<NodeReport> {
        let state = self.nodes.get(&node)?;
        Some(NodeReport {
            role: state.role,
            live: self.graph.is_live(node),
            invalid: state.invalid.clone(),
            waits_until: state.waits_until,
            runs: state.runs,
            last_reason: state.last_reason.clone(),
            reads_from: self.graph.reads_from(node).clone(),
            read_by: self.graph.read_by(node).clone(),
        })
    }

    /// How a node fared so far.
    pub fn fared(&self, node: NodeKey) -> Option<RunCount<'_>> {
        let state = self.nodes.get(&node)?;
        Some(RunCount {
            is_current: state.invalid.is_none(),
            runs: state.runs,
            last_reason: state.last_reason.as_ref(),
        })
    }

    /// Sends a node that ran too often to wait; says whether it may run.
    fn may_run(&mut self, node: NodeKey, now: Timestamp) -> bool {
        let state = self.state(node);
        if state.runs_in_pass < limit::RUNS_PER_PASS_MAX {
            return true;
        }
        let wait = state
            .wait
            .map_or(limit::BACKOFF_FIRST, |wait| wait.times(2));
        let wait = wait.min(limit::BACKOFF_MAX);
        let until = now.plus(wait);
        state.wait = Some(wait);
        state.waits_until = Some(until);
        let runs = state.runs_in_pass;
        let reason = state.invalid.clone();
        self.waiting.insert((until, node));
        self.reports.push(NonSettling {
            node,
            runs,
            cycle: self.graph.cycle_of(node),
            until,
            wait,
            reason,
        });
        false
    }

    /// Ends the waits that are over, and those that would last longer than any: a clock that is set back
    /// holds nobody up.
    fn end_waits(&mut self, now: Timestamp) {
        let latest = now.plus(limit::BACKOFF_MAX);
        loop {
            let first = self.waiting.first().filter(|(until, _)| *until <= now);
            let last = self.waiting.last().filter(|(until, _)| *until > latest);
            let Some(over) = first.or(last).copied() else {
                return;
            };
            self.waiting.remove(&over);
            let state = self.state(over.1);
            state.waits_until = None;
            state.runs_in_pass = 0;
            self.reconsider(over.1);
        }
    }

    fn set_reads(&mut self, node: NodeKey, reads: ReadLog) {
        if self.nodes[&node].reads == reads {
            return;
        }
        for (at, extent) in std::mem::take(&mut self.state(node).reads) {
            self.index.remove_reader(node, &at, extent);
        }
        let mut writers = BTreeSet::new();
        for (at, extent) in &reads {
            self.index.add_reader(node, at, *extent);
            writers.extend(self.index.writers_for(at, *extent));
        }
        writers.remove(&node);
        self.rewired.insert(node);
        self.state(node).reads = reads;
        self.graph.set_reads_from(node, writers);
    }

    /// A node keeps what it once wrote: a run that changes nothing does not make it less its own.
    fn add_writes<'a>(&mut self, node: NodeKey, writes: impl Iterator<Item = &'a CellAddress>) {
        let known = &self.nodes[&node].writes;
        let is_known = |at: &CellAddress| {
            known.contains(at)
                || (0..at.path.len()).any(|length| known.contains(&at.prefix(length)))
        };
        let added: Vec<CellAddress> = writes.filter(|at| !is_known(at)).cloned().collect();
        if added.is_empty() {
            return;
        }
        self.rewired.insert(node);
        let mut readers = self.graph.read_by(node).clone();
        for at in added {
            self.index.add_writer(node, &at);
            readers.extend(self.index.readers_for(&at));
            self.state(node).writes.insert(at);
        }
        readers.remove(&node);
        self.graph.set_read_by(node, readers);
    }

    fn reorder(&mut self) {
        for node in self.graph.reorder() {
            if self.ready_keys.contains_key(&node) {
                self.dequeue(node);
                self.enqueue(node);
            }
        }
    }

    fn reconsider_revived(&mut self) {
        for node in std::mem::take(&mut self.graph.revived) {
            if self.nodes.contains_key(&node) {
                self.reconsider(node);
            }
        }
    }

    /// Puts a node where it belongs: ready, or not.
    fn reconsider(&mut self, node: NodeKey) {
        let state = &self.nodes[&node];
        let can_run = state.invalid.is_some() && state.waits_until.is_none();
        if can_run && self.graph.is_live(node) {
            self.enqueue(node);
        } else {
            self.dequeue(node);
        }
    }

    fn enqueue(&mut self, node: NodeKey) {
        if !self.ready_keys.contains_key(&node) {
            let ready_key = self.graph.ready_key(node);
            self.ready_keys.insert(node, ready_key);
            self.ready.insert(ready_key);
        }
    }

    fn dequeue(&mut self, node: NodeKey) {
        if let Some(ready_key) = self.ready_keys.remove(&node) {
            self.ready.remove(&ready_key);
        }
    }

    fn state(&mut self, node: NodeKey) -> &mut NodeState {
        self.nodes.get_mut(&node).expect("the node is registered")
    }
}
