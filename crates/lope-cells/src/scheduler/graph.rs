//! The graph of nodes: who reads from whom, in which order they run, who is live.
//!
//! A node's rank is greater than the rank of every node it reads from, except around a cycle. Ranks
//! are put right in one go, when the next node is asked for. A node is live if it is wanted for
//! itself or a live node reads from it.

use std::collections::{BTreeMap, BTreeSet};

use super::node::{NodeKey, NodeMap, NodePlace};

/// Where a node stands apart from the data: its place, then its registration.
type Standing = (NodePlace, NodeKey);

/// Where a node stands in the order: its rank, then the rest.
pub(super) type ReadyKey = (u32, Standing);

#[derive(Debug, Default)]
pub(super) struct Graph {
    vertices: NodeMap<Vertex>,
    /// Nodes whose rank may be too small.
    misplaced: BTreeSet<NodeKey>,
    /// Nodes that became live or ceased to be, since last asked.
    pub(super) revived: Vec<NodeKey>,
    /// Grows with every change of an edge.
    edition: u64,
}

#[derive(Debug, Default)]
struct Vertex {
    wanted: bool,
    place: NodePlace,
    reads_from: BTreeSet<NodeKey>,
    read_by: BTreeSet<NodeKey>,
    rank: u32,
    live: bool,
    live_readers: usize,
    in_cycle: bool,
}

impl Graph {
    pub(super) fn add(
        &mut self,
        node: NodeKey,
        wanted: bool,
        place: NodePlace,
        parent: Option<NodeKey>,
    ) {
        let parent = parent.and_then(|parent| self.vertices.get(&parent));
        let below = parent.map_or(0, |parent| parent.place.generation + 1);
        let generation = place.generation.max(below);
        let vertex = Vertex {
            wanted,
            live: wanted,
            place: NodePlace {
                generation,
                ..place
            },
            ..Vertex::default()
        };
        self.vertices.insert(node, vertex);
    }

    pub(super) fn remove(&mut self, node: NodeKey) {
        self.set_reads_from(node, BTreeSet::new());
        self.set_read_by(node, BTreeSet::new());
        self.vertices.remove(&node);
        self.misplaced.remove(&node);
    }

    pub(super) fn reads_from(&self, node: NodeKey) -> &BTreeSet<NodeKey> {
        &self.vertices[&node].reads_from
    }

    pub(super) fn read_by(&self, node: NodeKey) -> &BTreeSet<NodeKey> {
        &self.vertices[&node].read_by
    }

    pub(super) fn is_live(&self, node: NodeKey) -> bool {
        self.vertices[&node].live
    }

    pub(super) fn ready_key(&self, node: NodeKey) -> ReadyKey {
        let vertex = &self.vertices[&node];
        (vertex.rank, (vertex.place, node))
    }

    fn standing(&self, node: NodeKey) -> Standing {
        (self.vertices[&node].place, node)
    }

    pub(super) fn set_reads_from(&mut self, node: NodeKey, others: BTreeSet<NodeKey>) {
        let known = self.vertices[&node].reads_from.clone();
        for other in known.difference(&others) {
            self.disconnect(*other, node);
        }
        for other in others.difference(&known) {
            self.connect(*other, node);
        }
    }

    pub(super) fn set_read_by(&mut self, node: NodeKey, others: BTreeSet<NodeKey>) {
        let known = self.vertices[&node].read_by.clone();
        for other in known.difference(&others) {
            self.disconnect(node, *other);
        }
        for other in others.difference(&known) {
            self.connect(node, *other);
        }
    }

    /// The nodes that feed each other with `node`, itself included.
    pub(super) fn cycle_of(&self, node: NodeKey) -> BTreeSet<NodeKey> {
        let behind = self.closure([node], |vertex| &vertex.read_by);
        let before = self.closure([node], |vertex| &vertex.reads_from);
        behind.intersection(&before).copied().collect()
    }

    /// Every node that `node` reads from, however far.
    pub(super) fn everything_before(&self, node: NodeKey) -> BTreeSet<NodeKey> {
        let mut found = self.closure([node], |vertex| &vertex.reads_from);
        found.remove(&node);
        found
    }

    /// Puts ranks right and gives the nodes whose turn may be another now.
    pub(super) fn reorder(&mut self) -> BTreeSet<NodeKey> {
        if self.misplaced.is_empty() {
            return BTreeSet::new();
        }
        let misplaced = std::mem::take(&mut self.misplaced);
        let affected = self.closure(misplaced, |vertex| &vertex.read_by);
        let inside = |node: &&NodeKey| affected.contains(node);
        let count = |node: NodeKey| self.reads_from(node).iter().filter(inside).count();
        let mut open: BTreeMap<Standing, usize> = affected
            .iter()
            .map(|node| (self.standing(*node), count(*node)))
            .collect();
        let mut ready: BTreeSet<Standing> = open
            .iter()
            .filter(|(_, count)| **count == 0)
            .map(|(standing, _)| *standing)
            .collect();
        // What is left when nobody is ready is around a cycle or behind one.
        let mut stuck = false;
        while let Some(standing) = ready.first().or_else(|| open.keys().next()).copied() {
            let (_, node) = standing;
            stuck |= !ready.remove(&standing);
            let rank = self.rank_after(node, &open);
            open.remove(&standing);
            let vertex = self.vertex(node);
            (vertex.rank, vertex.in_cycle) = (rank, stuck);
            for reader in self.read_by(node) {
                let reader = self.standing(*reader);
                if let Some(count) = open.get_mut(&reader) {
                    *count -= 1;
                    if *count == 0 {
                        ready.insert(reader);
                    }
                }
            }
        }
        affected
    }

    /// The rank after all that `node` reads from, as far as these have one.
    fn rank_after(&self, node: NodeKey, open: &BTreeMap<Standing, usize>) -> u32 {
        let known = self.reads_from(node).iter();
        let known = known.filter(|other| !open.contains_key(&self.standing(**other)));
        known
            .map(|other| self.vertices[other].rank + 1)
            .max()
            .unwrap_or(0)
    }

    fn closure(
        &self,
        from: impl IntoIterator<Item = NodeKey>,
        next: impl Fn(&Vertex) -> &BTreeSet<NodeKey>,
    ) -> BTreeSet<NodeKey> {
        let mut open: Vec<NodeKey> = from.into_iter().collect();
        let mut found = BTreeSet::new();
        while let Some(node) = open.pop() {
            if found.insert(node) {
                open.extend(next(&self.vertices[&node]));
            }
        }
        found
    }

    /// Another number whenever somebody reads from another node than before.
    pub(super) fn edition(&self) -> u64 {
        self.edition
    }

    fn connect(&mut self, writer: NodeKey, reader: NodeKey) {
        self.edition += 1;
        self.vertex(writer).read_by.insert(reader);
        self.vertex(reader).reads_from.insert(writer);
        if self.vertices[&reader].rank <= self.vertices[&writer].rank {
            self.misplaced.insert(reader);
        }
        if self.vertices[&reader].live {
            self.gain(writer);
        }
    }

    fn disconnect(&mut self, writer: NodeKey, reader: NodeKey) {
        self.edition += 1;
        self.vertex(writer).read_by.remove(&reader);
        self.vertex(reader).reads_from.remove(&writer);
        if self.vertices[&reader].live {
            self.lose(writer);
        }
    }

    /// `node` has one more live reader.
    fn gain(&mut self, node: NodeKey) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            let vertex = self.vertex(node);
            vertex.live_readers += 1;
            if !vertex.live {
                vertex.live = true;
                open.extend(&vertex.reads_from);
                self.revived.push(node);
            }
        }
    }

    /// `node` has one live reader less.
    fn lose(&mut self, node: NodeKey) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            self.vertex(node).live_readers -= 1;
            if self.vertices[&node].live && !self.is_wanted(node) {
                let vertex = self.vertex(node);
                vertex.live = false;
                open.extend(&vertex.reads_from);
                self.revived.push(node);
            }
        }
    }

    /// Whether something that is wanted for itself reads from `node`. Without a cycle one live
    /// reader proves it; around one the readers might be live through `node` alone.
    fn is_wanted(&self, node: NodeKey) -> bool {
        let vertex = &self.vertices[&node];
        if vertex.wanted || vertex.live_readers == 0 || !vertex.in_cycle {
            return vertex.wanted || vertex.live_readers > 0;
        }
        let readers = self.closure([node], |vertex| &vertex.read_by);
        readers.iter().any(|reader| self.vertices[reader].wanted)
    }

    fn vertex(&mut self, node: NodeKey) -> &mut Vertex {
        self.vertices
            .get_mut(&node)
            .expect("edges join nodes that are there")
    }
}
