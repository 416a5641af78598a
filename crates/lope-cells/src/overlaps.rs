//! Things by cells, found by every cell that contains one of theirs or stands in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::CellAddress;

/// Things, each at some cells.
#[derive(Clone, Debug)]
pub struct CellOverlaps<T>(BTreeMap<CellAddress, BTreeSet<T>>);

impl<T> Default for CellOverlaps<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy + Ord> CellOverlaps<T> {
    pub fn insert(&mut self, at: CellAddress, thing: T) {
        self.0.entry(at).or_default().insert(thing);
    }

    pub fn remove(&mut self, at: &CellAddress, thing: T) {
        if let Some(things) = self.0.get_mut(at) {
            things.remove(&thing);
            if things.is_empty() {
                self.0.remove(at);
            }
        }
    }

    /// What is at this cell, or at one that it is a part of.
    pub fn above(&self, at: &CellAddress) -> BTreeSet<T> {
        let prefixes = (0..=at.path.len()).filter_map(|length| self.0.get(&at.prefix(length)));
        prefixes.flatten().copied().collect()
    }

    /// What is at this cell, at one that it is a part of, or at a part of it.
    pub fn around(&self, at: &CellAddress) -> BTreeSet<T> {
        let is_below = |other: &CellAddress| {
            other.is_same_document(at) && other.path.keys().starts_with(at.path.keys())
        };
        let below = self.0.range(at..).take_while(|(other, _)| is_below(other));
        let below = below.flat_map(|(_, things)| things).copied();
        self.above(at).into_iter().chain(below).collect()
    }
}
