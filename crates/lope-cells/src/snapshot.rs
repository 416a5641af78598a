//! The documents of spaces at one moment. A clone is one count and stays as it is; changing a
//! document copies only the piece of the map that it stands in, and only while a clone is alive.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::address::CellAddress;
use crate::id::{EntityId, SpaceName};
use crate::json::Json;

/// Pieces in the map of a space's documents.
const PIECES: usize = 256;

/// Spaces as they were at one moment.
#[derive(Clone, Debug, Default)]
pub struct SpaceSnapshot {
    spaces: Arc<BTreeMap<SpaceName, Documents>>,
}

#[derive(Clone, Debug)]
struct Documents {
    /// How many commits have changed the space.
    revision: u64,
    pieces: Vec<Arc<BTreeMap<EntityId, Json>>>,
}

impl SpaceSnapshot {
    pub fn document(&self, space: &SpaceName, id: &EntityId) -> Option<&Json> {
        self.spaces.get(space)?.pieces[piece(id)].get(id)
    }

    /// The id of a document as it is kept here: whoever has this very one is soon told that it is the same.
    pub fn kept_id(&self, space: &SpaceName, id: &EntityId) -> Option<&EntityId> {
        let piece = &self.spaces.get(space)?.pieces[piece(id)];
        piece.get_key_value(id).map(|(kept, _)| kept)
    }

    /// What stands at an address, links not followed.
    pub fn at(&self, at: &CellAddress) -> Option<&Json> {
        self.document(&at.space, &at.id)?.at(at.path.keys())
    }

    /// Whether both are the same moment.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.spaces, &other.spaces)
    }

    /// How many commits have changed a space.
    pub fn revision(&self, space: &SpaceName) -> u64 {
        self.spaces.get(space).map_or(0, |space| space.revision)
    }

    /// The documents of a space, sorted by id.
    pub fn documents(&self, space: &SpaceName) -> BTreeMap<&EntityId, &Json> {
        let pieces = self.spaces.get(space).into_iter();
        let pieces = pieces.flat_map(|documents| documents.pieces.iter());
        pieces.flat_map(|piece| piece.iter()).collect()
    }

    pub(crate) fn put(&mut self, space: &SpaceName, id: EntityId, value: Option<Json>) {
        self.space_mut(space).put(id, value);
    }

    /// Puts in what a commit changed, and counts it unless that is nothing.
    pub(crate) fn commit(
        &mut self,
        space: &SpaceName,
        changes: impl ExactSizeIterator<Item = (EntityId, Option<Json>)>,
    ) -> u64 {
        if changes.len() == 0 {
            return self.revision(space);
        }
        let documents = self.space_mut(space);
        changes.for_each(|(id, value)| documents.put(id, value));
        documents.revision += 1;
        documents.revision
    }

    fn space_mut(&mut self, space: &SpaceName) -> &mut Documents {
        let spaces = Arc::make_mut(&mut self.spaces);
        if !spaces.contains_key(space) {
            spaces.insert(space.clone(), Documents::default());
        }
        spaces.get_mut(space).expect("it was just put in")
    }
}

impl Documents {
    fn put(&mut self, id: EntityId, value: Option<Json>) {
        let piece = Arc::make_mut(&mut self.pieces[piece(&id)]);
        match value {
            Some(value) => piece.insert(id, value),
            None => piece.remove(&id),
        };
    }
}

impl Default for Documents {
    fn default() -> Self {
        Self {
            revision: 0,
            pieces: vec![Arc::default(); PIECES],
        }
    }
}

/// Where a document stands: by the end of its id, which is the end of a digest.
fn piece(id: &EntityId) -> usize {
    let bytes = id.as_str().as_bytes();
    let end = bytes.last_chunk::<8>().copied();
    let end = u64::from_be_bytes(end.unwrap_or_default());
    // The upper bits of a product by the golden ratio are spread evenly.
    (end.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % PIECES
}
