//! What is kept of a node besides the cells it wrote: what it read, as a digest of what it saw, so
//! that whoever takes the space up runs only what is not up to date; and how it fared, for whoever
//! asks why.

use std::collections::BTreeSet;
use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::snapshot::Snapshot;
use lope_cells::transaction::ReadLog;
use lope_model::Digest;
use serde::{Deserialize, Serialize};

use crate::scheduler::NodeSpec;

/// How a node fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The recipe that the node is of.
    pub recipe: Arc<str>,
    /// A digest of everything it read; none if that has changed since it ran.
    pub seen: Option<u64>,
    pub runs: u64,
    /// Why it ran last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<UnsettledNote>,
}

/// That a node ran again and again without coming to rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsettledNote {
    /// Runs in one pass.
    pub runs: u32,
    /// The nodes that feed each other with it, by name.
    pub cycle: Vec<Arc<str>>,
    /// When it runs again, in milliseconds since 1970.
    pub until: i64,
}

/// What a node reads and writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeWiring {
    pub reads: ReadLog,
    pub writes: BTreeSet<CellAddress>,
}

/// A node as a store has it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredNode {
    pub record: NodeRecord,
    pub wiring: NodeWiring,
}

impl StoredNode {
    /// The node as it is to be added: with what it read and wrote.
    pub(super) fn rewired(&self, spec: NodeSpec) -> NodeSpec {
        let writes = spec.writes.union(&self.wiring.writes).cloned().collect();
        NodeSpec {
            reads: self.wiring.reads.clone(),
            writes,
            ..spec
        }
    }

    /// Whether everything that the node read still reads the same.
    pub fn is_current(&self, now: &Snapshot) -> bool {
        self.record.seen == Some(seen(&self.wiring.reads, now))
    }
}

/// A digest of what stands where a node read.
pub(super) fn seen(reads: &ReadLog, now: &Snapshot) -> u64 {
    let digests = reads.iter().map(|(at, extent)| extent.digest(now.at(at)));
    let digests: Vec<Digest> = digests.collect();
    let parts: Vec<&[u8]> = digests
        .iter()
        .map(|digest| &digest.as_bytes()[..])
        .collect();
    Digest::of_parts(&parts).short()
}
