//! Documents of other spaces: which were brought, which somebody wanted to see that were not, and who
//! waits for those. Whoever would see less than there is does nothing until it is here.

use std::collections::BTreeSet;

use crate::address::CellAddress;
use crate::id::SpaceName;
use crate::transaction::ReadLog;

use crate::scheduler::NodeKey;

#[derive(Debug, Default)]
pub struct Elsewhere {
    /// Whether somebody brings them; if not, all that there is is here.
    is_fetched: bool,
    brought: BTreeSet<CellAddress>,
    unseen: BTreeSet<CellAddress>,
    held: BTreeSet<NodeKey>,
}

impl Elsewhere {
    pub fn note_brought(&mut self, documents: BTreeSet<CellAddress>) {
        self.is_fetched = true;
        self.brought = documents;
        self.unseen.retain(|at| !self.brought.contains(at));
    }

    pub fn brought(&self) -> &BTreeSet<CellAddress> {
        &self.brought
    }

    /// Whether reads of a space are of something that was not brought; that is wanted from now on.
    pub fn is_missing(&mut self, own: &SpaceName, reads: &ReadLog) -> bool {
        if !self.is_fetched {
            return false;
        }
        let mut is_missing = false;
        for at in reads.keys() {
            if at.space == *own || at.id.is_inline() {
                continue;
            }
            let document = CellAddress::document(at.space.clone(), at.id.clone());
            if !self.brought.contains(&document) {
                self.unseen.insert(document);
                is_missing = true;
            }
        }
        is_missing
    }

    /// A node waits until everything is here.
    pub fn hold(&mut self, node: NodeKey) {
        self.held.insert(node);
    }

    pub fn unseen(&self) -> impl Iterator<Item = &CellAddress> {
        self.unseen.iter()
    }

    pub fn is_complete(&self) -> bool {
        self.unseen.is_empty()
    }

    /// Those who waited, once everything is here.
    pub fn take_resumed(&mut self) -> BTreeSet<NodeKey> {
        if self.is_complete() {
            std::mem::take(&mut self.held)
        } else {
            BTreeSet::new()
        }
    }
}
