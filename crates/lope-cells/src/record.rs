//! What is kept of a node besides the cells it wrote: what it read, as a digest of what it saw, so
//! that whoever takes the space up runs only what is not up to date; and how it fared, for whoever
//! asks why.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::address::CellAddress;
use crate::json::Json;
use crate::limit;
use crate::read::Extent;
use crate::snapshot::SpaceSnapshot;
use crate::transaction::ReadLog;
use lope_model::{Failure, Span, Timestamp};
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
    /// What a handler did; none for any other node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled: Option<HandledNote>,
}

impl NodeRecord {
    /// Until when the node waits because it does not settle, and how long that is.
    pub fn waits(&self) -> Option<(Timestamp, Span)> {
        let note = self.unsettled.as_ref().filter(|note| note.runs > 0)?;
        let wait = Span::from_millis(note.wait).max(limit::BACKOFF_FIRST);
        Some((Timestamp::from_millis(note.until), wait))
    }
}

/// What a handler did last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HandledNote {
    /// The last event.
    pub event: Arc<str>,
    /// Where it wrote when it last wrote something.
    pub writes: BTreeSet<CellAddress>,
    /// The last event that it failed with, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<(Arc<str>, Failure)>,
}

/// That a node ran again and again without coming to rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsettledNote {
    /// Runs in one pass; 0 if messages from node to node do not end.
    pub runs: u32,
    /// Messages that followed from each other, until this node sent one that has to wait.
    #[serde(default, skip_serializing_if = "is_none")]
    pub messages: u32,
    /// The nodes that feed each other with it, by name.
    pub cycle: Vec<Arc<str>>,
    /// When it runs again, or what it sent goes on, in milliseconds since 1970.
    pub until: i64,
    /// How long that was when it began to wait, in milliseconds.
    #[serde(default)]
    pub wait: u64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "as it is called by what writes records"
)]
const fn is_none(count: &u32) -> bool {
    *count == 0
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
    pub fn rewired(&self, spec: NodeSpec) -> NodeSpec {
        let writes = spec.writes.union(&self.wiring.writes).cloned().collect();
        NodeSpec {
            reads: self.wiring.reads.clone(),
            writes,
            ..spec
        }
    }

    /// Whether everything that the node read still reads the same.
    pub fn is_current(&self, now: &SpaceSnapshot) -> bool {
        self.record.seen == Some(seen(&self.wiring.reads, now))
    }
}

/// A digest of what stands where a node read: enough to tell apart, not to prove.
pub fn seen(reads: &ReadLog, now: &SpaceSnapshot) -> u64 {
    let mut known: Option<(&CellAddress, Option<&Json>)> = None;
    reads.iter().fold(0, |hash, (at, extent)| {
        // Most of what a node reads stands in one document.
        let (_, document) = match known.filter(|(last, _)| last.is_same_document(at)) {
            Some(known) => known,
            None => *known.insert((at, now.document(&at.space, &at.id))),
        };
        let value = document.and_then(|root| root.at(at.path.keys()));
        mix(hash ^ looked_at(*extent, value))
    })
}

/// What a reader that looked so far saw, as a number. Digests are for what is longer than one.
fn looked_at(extent: Extent, value: Option<&Json>) -> u64 {
    let Some(Json::Number(number)) = value.filter(|_| extent == Extent::Whole) else {
        return extent.digest(value).short();
    };
    match number.as_int() {
        Some(whole) => mix(whole.cast_unsigned()),
        None => mix(!number.as_f64().to_bits()),
    }
}

/// Spreads every bit over all others (the end of SplitMix64).
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
