//! What people call documents, put in place of their ids: in addresses, and in texts that name them.

use std::collections::BTreeMap;

use crate::address::CellAddress;
use crate::id::EntityId;
use crate::link::links_seen;
use crate::snapshot::SpaceSnapshot;

/// The labels of documents, by id. The same id has the same label in every space.
#[derive(Clone, Debug, Default)]
pub struct CellLabels(BTreeMap<String, String>);

impl CellLabels {
    pub fn insert(&mut self, id: &EntityId, label: String) {
        self.0.insert(id.to_string(), label);
    }

    /// Calls documents, as far as they are meant and have no label, by the way that links lead to them
    /// from a cell whose document has one.
    pub fn add_seen_from(
        &mut self,
        from: &CellAddress,
        cells: &SpaceSnapshot,
        is_meant: impl Fn(&EntityId) -> bool,
    ) {
        let Some(label) = self.0.get(from.id.as_str()).cloned() else {
            return;
        };
        for (way, to) in links_seen(cells, from) {
            if to.path.is_root() && is_meant(&to.id) {
                let known = self.0.entry(to.id.to_string());
                known.or_insert_with(|| format!("{label}{way}"));
            }
        }
    }

    /// A document by its label, or else by its id.
    pub fn document(&self, id: &EntityId) -> String {
        let label = self.0.get(id.as_str());
        label.map_or_else(|| id.to_string(), Clone::clone)
    }

    /// A cell, with the label of its document if that has one.
    pub fn cell(&self, at: &CellAddress) -> String {
        format!("{}/{}{}", at.space, self.document(&at.id), at.path)
    }

    /// A text with labels in place of the ids in it.
    pub fn text(&self, text: &str) -> String {
        let mut told = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("of:") {
            let (before, from) = rest.split_at(at);
            let hash = from[3..].find(|c: char| !c.is_ascii_alphanumeric());
            let (id, after) = from.split_at(hash.map_or(from.len(), |length| length + 3));
            told.push_str(before);
            told.push_str(self.0.get(id).map_or(id, String::as_str));
            rest = after;
        }
        told + rest
    }
}
