//! Nodes are what the cells say. In: a node and the cells; out: its role, and which cells decide on it. A node
//! is looked at again when one of those becomes a link or a stream, or ceases to be one; so it is the same
//! whenever the space is taken up.

use std::collections::{BTreeMap, BTreeSet};

use lope_cells::address::CellAddress;
use lope_cells::json::Json;
use lope_cells::link::Link;
use lope_cells::overlaps::CellOverlaps;
use lope_cells::project::is_stream;
use lope_cells::space::{DocumentChange, PathChange};
use lope_cells::transaction::Transaction;

use super::decided_role::DecidedRole;
use super::node::{BoundNode, NodeWork};
use crate::binding::{stream_in, targets};
use crate::scheduler::NodeKey;

/// Looks at the cells for what a node is; what is read then is what decides.
pub(super) fn decide_role(bound: &BoundNode, looking: &mut Transaction) -> DecidedRole {
    let stream = match &bound.work {
        NodeWork::Function(function) => {
            let schema = function.argument_schema.as_ref();
            stream_in(looking, &bound.inputs, &bound.base, schema)
        }
        NodeWork::Raw(_) | NodeWork::Effect(_) | NodeWork::Passthrough => None,
        NodeWork::Observer => return DecidedRole::default(),
    };
    let mut role = DecidedRole {
        stream,
        ..DecidedRole::default()
    };
    for target in targets(&bound.outputs, &bound.base) {
        role.follow(&target, &bound.base.space, looking);
        role.writes.insert(target);
    }
    role
}

/// Which nodes have to be looked at again when a cell changes.
#[derive(Debug, Default)]
pub(super) struct RoleIndex {
    nodes: CellOverlaps<NodeKey>,
    cells: BTreeMap<NodeKey, Vec<CellAddress>>,
}

impl RoleIndex {
    /// Notes what decided on a node.
    pub(super) fn insert(&mut self, node: NodeKey, decided_by: &Transaction) {
        let cells: Vec<CellAddress> = decided_by.reads().keys().cloned().collect();
        for at in &cells {
            self.nodes.insert(at.clone(), node);
        }
        self.cells.insert(node, cells);
    }

    pub(super) fn remove(&mut self, node: NodeKey) {
        for at in self.cells.remove(&node).unwrap_or_default() {
            self.nodes.remove(&at, node);
        }
    }

    /// The nodes that may be something else after a change.
    pub(super) fn concerned(&self, change: &DocumentChange) -> BTreeSet<NodeKey> {
        let places = change.paths.iter();
        let places = places.filter(|place| may_decide(change, place));
        let nodes = places.map(|place| self.nodes.around(&change.address(&place.path)));
        nodes.flatten().collect()
    }
}

/// Whether a link or a stream came, went or changed; values decide on nothing.
fn may_decide(change: &DocumentChange, place: &PathChange) -> bool {
    let decides_above = |root: &Option<Json>| {
        let mut at = root.as_ref();
        let mut keys = place.path.keys().iter().peekable();
        while let Some(key) = keys.next() {
            if at.is_some_and(decides) {
                return true;
            }
            at = at.filter(|_| keys.peek().is_some());
            at = at.and_then(|value| value.child(key));
        }
        false
    };
    [&change.before, &change.after]
        .into_iter()
        .any(decides_above)
        || [&place.before, &place.after]
            .into_iter()
            .any(|value| value.as_ref().is_some_and(has_deciding))
}

fn decides(value: &Json) -> bool {
    is_stream(value) || Link::from_json(value).is_some()
}

fn has_deciding(value: &Json) -> bool {
    match value {
        Json::Array(array) => array.iter().any(has_deciding),
        Json::Object(object) => {
            decides(value) || object.iter().any(|(_, value)| has_deciding(value))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => false,
    }
}
