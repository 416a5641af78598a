//! What nodes are, as the cells say: whose events a node handles, and where it writes. In: a node and the
//! cells; out: its role, and which cells decide on it. A node is looked at again when one of those becomes a
//! link or a stream, or ceases to be one; so it is the same whenever the space is taken up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lope_cells::address::CellAddress;
use lope_cells::id::SpaceName;
use lope_cells::json::Json;
use lope_cells::link::{Link, rewrite};
use lope_cells::path::CellPath;
use lope_cells::project::is_stream;
use lope_cells::read::{Extent, Reads, has_links};
use lope_cells::resolve::{Follow, is_elsewhere, resolve_within};
use lope_cells::space::DocumentChange;
use lope_cells::transaction::Transaction;

use super::node::{BoundNode, NodeWork};
use super::overlaps::CellOverlaps;
use crate::binding::{stream_in, targets};
use crate::scheduler::NodeKey;

/// What a node is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DecidedRole {
    /// The stream that it handles, and which input that is.
    pub(super) stream: Option<(CellPath, CellAddress)>,
    /// Where its outputs lead in its own space, links named by the recipe and those behind them.
    pub(super) writes: BTreeSet<CellAddress>,
    /// Whether some of them lead into another space.
    pub(super) leads_out: bool,
}

impl DecidedRole {
    /// Looks at the cells; what is read then is what decides.
    pub(super) fn of(bound: &BoundNode, looking: &mut Transaction) -> Self {
        let stream = match &bound.work {
            NodeWork::Function(function) => {
                let schema = function.argument_schema.as_ref();
                stream_in(looking, &bound.inputs, &bound.base, schema)
            }
            NodeWork::Raw(_) | NodeWork::Effect(_) | NodeWork::Passthrough => None,
            NodeWork::Observer => return Self::default(),
        };
        let mut role = Self {
            stream,
            ..Self::default()
        };
        for target in targets(&bound.outputs, &bound.base) {
            role.follow(&target, &bound.base.space, looking);
            role.writes.insert(target);
        }
        role
    }

    /// Notes where a write goes: through redirects, and through those that stand in the value there.
    fn follow(&mut self, at: &CellAddress, home: &SpaceName, looking: &mut Transaction) {
        let Ok(found) = resolve_within(looking, at, Follow::Redirects, Some(home)) else {
            return;
        };
        if is_elsewhere(&found.address, home) {
            self.leads_out = true;
            return;
        }
        looking.record(&found.address, Extent::Shape);
        if !self.writes.insert(found.address.clone()) {
            return;
        }
        let value = found.value.filter(has_links);
        let redirects = value.map(|value| redirects_in(&value, &found.address));
        for redirect in redirects.unwrap_or_default() {
            self.follow(&redirect, home, looking);
        }
    }
}

/// Where the redirects in a value stand.
fn redirects_in(value: &Json, at: &CellAddress) -> Vec<CellAddress> {
    fn collect(value: &Json, at: &CellAddress, found: &mut Vec<CellAddress>) {
        match Link::from_json(value) {
            Some(link) if link.redirect => found.push(at.clone()),
            Some(_) => {}
            None => {
                rewrite(value, &mut |child, key: &Arc<str>| {
                    collect(child, &at.key(key.clone()), found);
                    None
                });
            }
        }
    }
    let mut found = Vec::new();
    collect(value, at, &mut found);
    found
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
        let document = CellAddress::document(change.space.clone(), change.id.clone());
        let paths = change.paths.iter().filter(|path| may_decide(change, path));
        let nodes = paths.map(|path| self.nodes.around(&document.with_path(path.clone())));
        nodes.flatten().collect()
    }
}

/// Whether a link or a stream came, went or changed; values decide on nothing.
fn may_decide(change: &DocumentChange, path: &CellPath) -> bool {
    [&change.before, &change.after].into_iter().any(|root| {
        let mut at = root.as_ref();
        for key in path.keys() {
            if at.is_some_and(decides) {
                return true;
            }
            at = at.and_then(|value| value.child(key));
        }
        at.is_some_and(has_deciding)
    })
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
