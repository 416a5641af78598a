//! Elements of a list that are something: an object with an `id` keeps its identity wherever in the
//! list it stands.
//!
//! Such an element is a document of its own, whose id comes from the list and the element's `id`;
//! the list holds a link to it. Inserting, removing and reordering then change links only, and
//! whoever points at the element goes on pointing at it. Of several elements with the same `id` the
//! first one has it; the others are ordinary values.

use std::collections::BTreeSet;

use crate::address::CellAddress;
use crate::error::WriteError;
use crate::id::{EntityId, SpaceName};
use crate::json::{Array, Json};
use crate::limit;
use crate::link::{Link, rebase, rewrite};
use crate::read::{BeyondBound, Extent, Reads};
use crate::resolve::{Follow, resolve};

/// A value ready to be stored: elements with an id and inline documents taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Normal {
    pub(crate) value: Json,
    /// The elements that are documents, in the order they were met.
    pub(crate) elements: Vec<(EntityId, Json)>,
}

/// Takes `value` apart as it will stand at `at`.
pub(crate) fn normalise(value: &Json, at: &CellAddress) -> Result<Normal, WriteError> {
    let mut normaliser = Normaliser::default();
    let changed = normaliser.value(value, at, 0);
    match normaliser.error {
        Some(error) => Err(error),
        None => Ok(Normal {
            value: changed.unwrap_or_else(|| value.clone()),
            elements: normaliser.elements,
        }),
    }
}

/// The document of the element `id` in the list at `list`.
pub fn element_id(list: &CellAddress, id: &Json) -> EntityId {
    EntityId::of_cause(&Json::object([
        ("list", Json::from(list.id.as_str())),
        ("path", list.path.to_json()),
        ("element", id.clone()),
    ]))
}

#[derive(Default)]
struct Normaliser {
    elements: Vec<(EntityId, Json)>,
    error: Option<WriteError>,
}

impl Normaliser {
    /// The value in its stored form; none if that is as it stands.
    fn value(&mut self, value: &Json, at: &CellAddress, depth: usize) -> Option<Json> {
        if depth > limit::DEPTH_MAX {
            self.error = Some(WriteError::TooDeep { at: at.clone() });
            return None;
        }
        if let Some(link) = Link::from_json(value) {
            return self.inlined(&link, at, depth);
        }
        match value {
            Json::Array(array) => self.list(array, at, depth).map(Json::Array),
            _ => rewrite(value, &mut |child, key| {
                self.value(child, &at.key(key.clone()), depth + 1)
            }),
        }
    }

    /// The content that an inline link stands for, or a link to where it leads. Links in it lead
    /// into it, not into the document where it is written.
    fn inlined(&mut self, link: &Link, at: &CellAddress, depth: usize) -> Option<Json> {
        let id = link.id.as_ref().filter(|id| id.is_inline())?;
        if id.inline_value().is_none() {
            self.error = Some(WriteError::NoJson { at: at.clone() });
            return None;
        }
        if link.redirect {
            return None;
        }
        let inline = CellAddress::document(at.space.clone(), id.clone());
        let target = inline.with_path(link.path.clone());
        let found = match resolve(&mut InlineOnly, &target, Follow::Nothing) {
            Ok(found) => found,
            Err(endless) => {
                self.error = Some(endless.into());
                return None;
            }
        };
        if !found.address.id.is_inline() {
            return Some(Link::to(&found.address, at).to_json());
        }
        if found.address.id.inline_value().is_none() {
            self.error = Some(WriteError::NoJson { at: at.clone() });
            return None;
        }
        let content = found.value.unwrap_or_default();
        let content = rebase(&content, &found.address).unwrap_or(content);
        Some(self.value(&content, at, depth + 1).unwrap_or(content))
    }

    /// The list with links for the elements that have an id; none if nothing changes.
    fn list(&mut self, array: &Array, at: &CellAddress, depth: usize) -> Option<Array> {
        let mut taken = BTreeSet::new();
        let mut changed = None;
        for (index, element) in array.iter().enumerate() {
            let document = identity(element).map(|id| element_id(at, id));
            let other = match document.filter(|document| taken.insert(document.clone())) {
                Some(document) => Some(self.document(document, element, at, depth)),
                None => self.value(element, &at.key(index.to_string()), depth + 1),
            };
            if let Some(other) = other {
                changed
                    .get_or_insert_with(|| array.clone())
                    .set(index, other);
            }
        }
        changed
    }

    /// Sets an element aside as the document `id`, and gives the link to it.
    fn document(&mut self, id: EntityId, element: &Json, at: &CellAddress, depth: usize) -> Json {
        let rebased = rebase(element, at).unwrap_or_else(|| element.clone());
        let own = CellAddress::document(at.space.clone(), id.clone());
        let place = self.elements.len();
        self.elements.push((id.clone(), Json::Null));
        let content = self.value(&rebased, &own, depth + 1).unwrap_or(rebased);
        self.elements[place].1 = content;
        Link {
            id: Some(id),
            ..Link::default()
        }
        .to_json()
    }
}

/// No documents but those that ids hold.
struct InlineOnly;

impl Reads for InlineOnly {
    fn document(&self, _: &SpaceName, _: &EntityId) -> Option<Json> {
        None
    }

    fn record(&mut self, _: &CellAddress, _: Extent) {}

    fn cut_short(&mut self, _: BeyondBound) {}
}

/// What an element is known by: a text or a number under `id`.
pub fn identity(element: &Json) -> Option<&Json> {
    let id = element.as_object()?.get("id")?;
    matches!(id, Json::Text(_) | Json::Number(_)).then_some(id)
}
