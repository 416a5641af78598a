//! Which children each node has, as the running set of the space says: kept beside it so that a node
//! that runs does not look through everything that runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::process::{ProcessOwner, entries, entry};
use lope_cells::id::EntityId;
use lope_cells::json::Json;

/// The children of nodes, by process and node.
#[derive(Debug, Default)]
pub(super) struct Offspring {
    children: BTreeMap<EntityId, BTreeMap<usize, BTreeSet<EntityId>>>,
    count: usize,
}

impl Offspring {
    /// All that a running set says.
    pub(super) fn in_set(set: Option<&Json>) -> Self {
        let mut offspring = Self::default();
        for (process, owner) in entries(set) {
            offspring.add(process, owner);
        }
        offspring
    }

    /// The children of one node; none if it has none.
    pub(super) fn of(&self, process: &EntityId, node: usize) -> Option<&BTreeSet<EntityId>> {
        self.children.get(process)?.get(&node)
    }

    /// Some processes and all that they started, however deep.
    pub(super) fn with_descendants(&self, of: BTreeSet<EntityId>) -> BTreeSet<EntityId> {
        let mut open: Vec<EntityId> = of.into_iter().collect();
        let mut found = BTreeSet::new();
        while let Some(next) = open.pop() {
            let children = self
                .children
                .get(&next)
                .into_iter()
                .flat_map(BTreeMap::values);
            open.extend(
                children
                    .flatten()
                    .filter(|child| !found.contains(*child))
                    .cloned(),
            );
            found.insert(next);
        }
        found
    }

    /// How many processes are children of others.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Takes in what became of the entry of one process.
    pub(super) fn replace(
        &mut self,
        process: &EntityId,
        before: Option<&Json>,
        after: Option<&Json>,
    ) {
        if let Some(owner) = entry(before, process).flatten() {
            self.remove(process, &owner);
        }
        if let Some(owner) = entry(after, process) {
            self.add(process.clone(), owner);
        }
    }

    fn add(&mut self, process: EntityId, owner: Option<ProcessOwner>) {
        if let Some(owner) = owner {
            let nodes = self.children.entry(owner.process).or_default();
            let is_new = nodes.entry(owner.node).or_default().insert(process);
            self.count += usize::from(is_new);
        }
    }

    fn remove(&mut self, process: &EntityId, owner: &ProcessOwner) {
        let Some(nodes) = self.children.get_mut(&owner.process) else {
            return;
        };
        if let Some(children) = nodes.get_mut(&owner.node) {
            self.count -= usize::from(children.remove(process));
            if children.is_empty() {
                nodes.remove(&owner.node);
            }
        }
        if nodes.is_empty() {
            self.children.remove(&owner.process);
        }
    }
}
