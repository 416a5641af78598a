//! Who reads what and who writes what, by document and path.
//!
//! Answers three questions without looking at anybody else: whom does this change concern, whose
//! writes might this read see, whose reads might this write touch.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::node::NodeKey;
use crate::address::CellAddress;
use crate::id::{EntityId, SpaceName};
use crate::json::Json;
use crate::link::Link;
use crate::path::CellPath;
use crate::read::Extent;
use crate::space::{DocumentChange, PathChange};

/// Readers and writers of every document.
#[derive(Debug, Default)]
pub(super) struct PathIndex {
    documents: BTreeMap<SpaceName, HashMap<EntityId, PathTree>>,
}

const EXTENTS: [Extent; 5] = [
    Extent::Link,
    Extent::Shape,
    Extent::Keys,
    Extent::Links,
    Extent::Whole,
];

#[derive(Debug, Default)]
struct PathTree {
    /// By extent, so that what a change means to all who look equally far is found out once.
    readers: BTreeSet<(Extent, NodeKey)>,
    writers: BTreeSet<NodeKey>,
    below: HashMap<Arc<str>, PathTree>,
}

impl PathIndex {
    pub(super) fn add_reader(&mut self, node: NodeKey, at: &CellAddress, extent: Extent) {
        self.place(at).readers.insert((extent, node));
    }

    pub(super) fn remove_reader(&mut self, node: NodeKey, at: &CellAddress, extent: Extent) {
        self.change(at, |place| {
            place.readers.remove(&(extent, node));
        });
    }

    pub(super) fn add_writer(&mut self, node: NodeKey, at: &CellAddress) {
        self.place(at).writers.insert(node);
    }

    pub(super) fn remove_writer(&mut self, node: NodeKey, at: &CellAddress) {
        self.change(at, |place| {
            place.writers.remove(&node);
        });
    }

    /// The documents outside of a space that somebody reads.
    pub(super) fn foreign(&self, own: &SpaceName) -> BTreeSet<CellAddress> {
        let others = self.documents.iter().filter(|(space, _)| *space != own);
        let others = others.flat_map(|(space, documents)| {
            let ids = documents.keys().cloned();
            ids.map(|id| CellAddress::document(space.clone(), id))
        });
        others.collect()
    }

    fn tree(&self, space: &SpaceName, id: &EntityId) -> Option<&PathTree> {
        self.documents.get(space)?.get(id)
    }

    /// The readers that see something else after a change, each with the place of the change.
    pub(super) fn concerned<'a>(&self, change: &'a DocumentChange) -> Vec<(NodeKey, &'a CellPath)> {
        let mut found = Vec::new();
        let Some(tree) = self.tree(&change.space, &change.id) else {
            return found;
        };
        for place in &change.paths {
            tree.concerned(change, place, |node| found.push((node, &place.path)));
        }
        found.sort_by_key(|(node, _)| *node);
        found.dedup_by_key(|(node, _)| *node);
        found
    }

    /// The nodes whose writes might change what a read of `at` sees.
    pub(super) fn writers_for(&self, at: &CellAddress, extent: Extent) -> BTreeSet<NodeKey> {
        let mut found = BTreeSet::new();
        let Some(place) = self.walk(at, |_, place| found.extend(&place.writers)) else {
            return found;
        };
        match extent {
            Extent::Link | Extent::Shape => {}
            Extent::Keys => place
                .below
                .values()
                .for_each(|child| found.extend(&child.writers)),
            Extent::Links | Extent::Whole => {
                place.visit(&mut |place| found.extend(&place.writers));
            }
        }
        found
    }

    /// The nodes whose reads a write to `at` might change.
    pub(super) fn readers_for(&self, at: &CellAddress) -> BTreeSet<NodeKey> {
        let mut found = BTreeSet::new();
        let depth = at.path.len();
        let place = self.walk(at, |above, place| {
            let sees = |extent: &Extent| match extent {
                Extent::Links | Extent::Whole => true,
                Extent::Keys => above + 1 >= depth,
                Extent::Link | Extent::Shape => above == depth,
            };
            for extent in EXTENTS.into_iter().filter(sees) {
                found.extend(place.readers_of(extent));
            }
        });
        if let Some(place) = place {
            place.visit(&mut |place| found.extend(place.readers.iter().map(|(_, node)| *node)));
        }
        found
    }

    fn place(&mut self, at: &CellAddress) -> &mut PathTree {
        let documents = self.documents.entry(at.space.clone()).or_default();
        let mut place = documents.entry(at.id.clone()).or_default();
        for key in at.path.keys() {
            place = place.below.entry(Arc::clone(key)).or_default();
        }
        place
    }

    /// Shows every place on the way to `at`, itself included, with its depth.
    fn walk<'a>(
        &'a self,
        at: &CellAddress,
        mut see: impl FnMut(usize, &'a PathTree),
    ) -> Option<&'a PathTree> {
        let mut place = self.tree(&at.space, &at.id)?;
        see(0, place);
        for (index, key) in at.path.keys().iter().enumerate() {
            place = place.below.get(key)?;
            see(index + 1, place);
        }
        Some(place)
    }

    /// Changes the place of `at` and drops what is empty afterwards.
    fn change(&mut self, at: &CellAddress, change: impl FnOnce(&mut PathTree)) {
        let Some(documents) = self.documents.get_mut(&at.space) else {
            return;
        };
        if let Some(tree) = documents.get_mut(&at.id) {
            tree.change(at.path.keys(), change);
            if tree.is_empty() {
                documents.remove(&at.id);
            }
        }
    }
}

impl PathTree {
    fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.writers.is_empty() && self.below.is_empty()
    }

    fn change(&mut self, keys: &[Arc<str>], change: impl FnOnce(&mut PathTree)) {
        let Some((key, rest)) = keys.split_first() else {
            return change(self);
        };
        if let Some(child) = self.below.get_mut(key) {
            child.change(rest, change);
            if child.is_empty() {
                self.below.remove(key);
            }
        }
    }

    fn visit<'a>(&'a self, see: &mut impl FnMut(&'a PathTree)) {
        see(self);
        self.below.values().for_each(|child| child.visit(see));
    }

    fn concerned(
        &self,
        change: &DocumentChange,
        changed: &PathChange,
        mut see: impl FnMut(NodeKey),
    ) {
        let keys = changed.path.keys();
        let mut place = self;
        let has_moved = OnceCell::new();
        for (depth, key) in keys.iter().enumerate() {
            place.show(&mut see, |extent| match extent {
                Extent::Whole => true,
                Extent::Links => *has_moved.get_or_init(|| has_moved_links(change, &changed.path)),
                Extent::Link | Extent::Shape | Extent::Keys => {
                    let [before, after] = change.at(&keys[..depth]);
                    !extent.is_same(before, after)
                }
            });
            let Some(child) = place.below.get(key) else {
                return;
            };
            place = child;
        }
        place.differing_below(changed.before.as_ref(), changed.after.as_ref(), &mut see);
    }

    /// Shows the readers right here that look so far that they see something else.
    fn show(&self, see: &mut impl FnMut(NodeKey), is_different: impl Fn(Extent) -> bool) {
        let mut next = self.readers.first();
        while let Some((extent, _)) = next.copied() {
            if is_different(extent) {
                self.readers_of(extent).for_each(&mut *see);
            }
            let last = (extent, NodeKey::LAST);
            let behind = (Bound::Excluded(last), Bound::Unbounded);
            let has_more = self.readers.last().is_some_and(|reader| *reader > last);
            next = has_more
                .then(|| self.readers.range(behind).next())
                .flatten();
        }
    }

    /// The readers right here that look so far.
    fn readers_of(&self, extent: Extent) -> impl Iterator<Item = NodeKey> {
        let first = (extent, NodeKey::FIRST);
        let readers = self.readers.range(first..=(extent, NodeKey::LAST));
        readers.map(|(_, node)| *node)
    }

    fn differing_below(
        &self,
        before: Option<&Json>,
        after: Option<&Json>,
        see: &mut impl FnMut(NodeKey),
    ) {
        if before == after {
            return;
        }
        self.show(see, |extent| {
            extent == Extent::Whole || !extent.is_same(before, after)
        });
        for (key, child) in &self.below {
            let before = before.and_then(|value| value.child(key));
            let after = after.and_then(|value| value.child(key));
            child.differing_below(before, after, see);
        }
    }
}

/// Whether a change at `path` changes where links lead: those in what stands there, or one that it
/// is a part of.
fn has_moved_links(change: &DocumentChange, path: &CellPath) -> bool {
    let mut before = change.before.as_ref();
    let mut after = change.after.as_ref();
    for key in path.keys() {
        let is_link =
            |value: Option<&Json>| value.is_some_and(|value| Link::from_json(value).is_some());
        if is_link(before) || is_link(after) {
            return true;
        }
        before = before.and_then(|value| value.child(key));
        after = after.and_then(|value| value.child(key));
    }
    !Extent::Links.is_same(before, after)
}
