//! What the scheduler knows about a node.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use lope_model::{Span, Timestamp};

use crate::address::CellAddress;
use crate::id::SpaceName;
use crate::transaction::ReadLog;

/// A registered node. Keys rise in the order of registration and are not given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey(pub(super) u64);

impl NodeKey {
    pub(super) const FIRST: Self = Self(0);
    pub(super) const LAST: Self = Self(u64::MAX);
}

/// What is looked up by node and never listed: it has no order.
pub type NodeMap<T> = HashMap<NodeKey, T, BuildHasherDefault<NodeKeyHasher>>;
pub(super) type NodeSet = HashSet<NodeKey, BuildHasherDefault<NodeKeyHasher>>;

/// Spreads keys, which are numbers that nobody outside chooses.
#[derive(Debug, Default)]
pub struct NodeKeyHasher(u64);

impl Hasher for NodeKeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRole {
    /// Computes cells from cells; runs only while somebody live reads what it writes.
    Computation,
    /// Wanted for itself: an effect, or a result that somebody looks at. Always live.
    Observer,
    /// Takes events; run by them alone.
    Handler,
}

/// Where a node stands among those that the data does not put in order. What comes before is less: what is
/// less deep, then what was started earlier, then what stands earlier in its recipe. It follows from the
/// cells alone, so that it is the same whenever the space is taken up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePlace {
    /// How many started each other down to it.
    pub generation: u32,
    /// When whoever brought it about was started in its own right, as a number that grows with every such
    /// start in the space.
    pub started: u64,
    /// Which of those that were brought about by the same start its process is.
    pub branch: u64,
    pub index: usize,
}

/// A node as it is registered.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub role: NodeRole,
    pub place: NodePlace,
    /// The node that started it; it runs before it if nothing else decides.
    pub parent: Option<NodeKey>,
    /// What it will probably read, until a run tells.
    pub reads: ReadLog,
    /// What it writes.
    pub writes: BTreeSet<CellAddress>,
}

/// Why a node was to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunReason {
    /// It had never run.
    Registered,
    /// It was not up to date when the space was taken up.
    Resumed,
    /// Something it reads was changed.
    Changed { at: CellAddress, by: ChangedBy },
}

/// Who changed something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedBy {
    Node(NodeKey),
    /// The event with this id.
    Event(Arc<str>),
    /// An edit from outside.
    Edit,
    /// Another space, which the document is in.
    Space(SpaceName),
}

/// What stands in a node's way, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    pub role: NodeRole,
    /// Whether somebody live reads what it writes.
    pub live: bool,
    /// Why it has to run, if it has to.
    pub invalid: Option<RunReason>,
    /// Until when it waits because it did not settle.
    pub waits_until: Option<Timestamp>,
    /// Runs so far, and why the last one was.
    pub runs: u64,
    pub last_reason: Option<RunReason>,
    /// Nodes whose writes it reads, and nodes that read its writes.
    pub reads_from: BTreeSet<NodeKey>,
    pub read_by: BTreeSet<NodeKey>,
}

/// How often a node ran, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCount<'a> {
    /// Whether nothing it saw has changed since it ran.
    pub is_current: bool,
    pub runs: u64,
    pub last_reason: Option<&'a RunReason>,
}

/// A node that runs again and again without coming to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonSettling {
    pub node: NodeKey,
    pub runs: u32,
    /// The nodes that feed each other with it, itself included.
    pub cycle: BTreeSet<NodeKey>,
    /// When it runs again, and how long it waits for that.
    pub until: Timestamp,
    pub wait: Span,
    /// What made it run the last time.
    pub reason: Option<RunReason>,
}

#[derive(Debug)]
pub(super) struct NodeState {
    pub(super) role: NodeRole,
    pub(super) reads: ReadLog,
    pub(super) writes: BTreeSet<CellAddress>,
    pub(super) invalid: Option<RunReason>,
    pub(super) runs_in_pass: u32,
    pub(super) runs: u64,
    pub(super) last_reason: Option<RunReason>,
    pub(super) waits_until: Option<Timestamp>,
    pub(super) wait: Option<Span>,
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl fmt::Display for ChangedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "{node}"),
            Self::Event(id) => write!(f, "the event '{id}'"),
            Self::Edit => f.write_str("an edit"),
            Self::Space(space) => write!(f, "space {space}"),
        }
    }
}

impl fmt::Display for RunReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered => f.write_str("it had not run yet"),
            Self::Resumed => f.write_str("it was not up to date when the space was taken up"),
            Self::Changed { at, by } => write!(f, "{by} changed {at}"),
        }
    }
}
