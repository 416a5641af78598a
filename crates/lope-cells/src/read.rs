//! What was looked at. Everything that is read is recorded with its extent, so that a transaction
//! can be checked and a computation run again exactly when something it saw has changed.

use std::sync::Arc;

use lope_model::Digest;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::address::CellAddress;
use crate::id::{EntityId, SpaceName};
use crate::json::{Json, Object};
use crate::limit;
use crate::link::{Link, rewrite};
use crate::path::CellPath;

/// How much of a value was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Extent {
    /// Whether it is a link, and where that leads: for one who was on the way to something below
    /// and found nothing. Whether a value stands there does not matter.
    Link,
    /// Its kind; the length of a list; where a link leads.
    Shape,
    /// Its shape and the keys of an object.
    Keys,
    /// Where the links in it lead, however deep they stand; nothing else.
    Links,
    /// All of it.
    Whole,
}

/// Documents that can be read, with a record of what was.
pub trait Reads {
    /// The value of a stored document. Looking at it is not recorded.
    fn document(&self, space: &SpaceName, id: &EntityId) -> Option<Json>;

    /// Notes that a computation depends on what stands at `at`.
    fn record(&mut self, at: &CellAddress, extent: Extent);

    /// Whether a place is in a space of which not everything need be here.
    fn leads_out(&self, _at: &CellAddress) -> bool {
        false
    }

    /// Notes that a read left something out, so that nobody takes that for absent.
    fn cut_short(&mut self, by: BeyondBound);
}

/// A read that went beyond a bound: something is missing in what it gave.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BeyondBound {
    #[error(
        "{from} stands for more than {max} parts, all links followed (PROJECTED_MAX): read less of it, by a path or through a schema",
        max = limit::PROJECTED_MAX
    )]
    Parts { from: CellAddress },
    #[error(
        "links lead on from {from} through more than {max} values within each other (DEPTH_MAX): read less of it, by a path or through a schema",
        max = limit::DEPTH_MAX
    )]
    Depth { from: CellAddress },
}

impl Extent {
    /// Whether a reader that looked this far sees the same in both.
    pub fn is_same(self, before: Option<&Json>, after: Option<&Json>) -> bool {
        match (self, before, after) {
            (Self::Link, _, _) => link_of(before) == link_of(after),
            (Self::Links | Self::Shape | Self::Keys | Self::Whole, None, None) => true,
            (Self::Links, Some(only), None) | (Self::Links, None, Some(only)) => !has_links(only),
            (Self::Shape | Self::Keys | Self::Whole, Some(_), None)
            | (Self::Shape | Self::Keys | Self::Whole, None, Some(_)) => false,
            (Self::Whole, Some(before), Some(after)) => before == after,
            (Self::Links, Some(before), Some(after)) => has_same_links(before, after),
            (Self::Shape, Some(before), Some(after)) => is_same_shape(before, after),
            (Self::Keys, Some(before), Some(after)) => {
                is_same_shape(before, after) && has_same_keys(before, after)
            }
        }
    }

    /// What a reader that looked this far saw, as a digest: the same for values that look the same
    /// to it.
    pub fn digest(self, value: Option<&Json>) -> Digest {
        match (self, value) {
            (Self::Link, value) => {
                let link = link_of(value).map(|link| link.to_json().digest());
                link.unwrap_or_else(|| Digest::of(b"no link"))
            }
            (Self::Links, None) => Digest::of_parts(&[]),
            (Self::Links, Some(value)) => links_digest(value),
            (Self::Shape | Self::Keys | Self::Whole, None) => Digest::of(b"absent"),
            (Self::Whole, Some(value)) => value.digest(),
            (Self::Shape, Some(value)) => shape_digest(value),
            (Self::Keys, Some(value)) => {
                let keys = value.as_object().into_iter().flat_map(Object::keys);
                let keys: Vec<&[u8]> = keys.map(|key| key.as_bytes()).collect();
                let keys = Digest::of_parts(&keys);
                Digest::of_parts(&[shape_digest(value).as_bytes(), keys.as_bytes()])
            }
        }
    }
}

fn link_of(value: Option<&Json>) -> Option<Link> {
    value.and_then(Link::from_json)
}

fn shape_digest(value: &Json) -> Digest {
    match value {
        Json::Array(array) => Digest::of_parts(&[b"array", &array.len().to_be_bytes()]),
        other => match Link::from_json(other) {
            Some(link) => link.to_json().digest(),
            None => Digest::of_parts(&[other.kind().as_bytes()]),
        },
    }
}

/// The links in a value, each with where it stands.
fn links_digest(value: &Json) -> Digest {
    fn collect(value: &Json, at: &CellPath, found: &mut Vec<Digest>) {
        if let Some(link) = Link::from_json(value) {
            found.extend([at.to_json().digest(), link.to_json().digest()]);
            return;
        }
        rewrite(value, &mut |child, key| {
            collect(child, &at.join(key.clone()), found);
            None
        });
    }
    let mut found = Vec::new();
    collect(value, &CellPath::root(), &mut found);
    let parts: Vec<&[u8]> = found.iter().map(|digest| &digest.as_bytes()[..]).collect();
    Digest::of_parts(&parts)
}

/// Whether a value is a link or has one in it.
pub fn has_links(value: &Json) -> bool {
    match value {
        Json::Array(array) => array.iter().any(has_links),
        Json::Object(object) => {
            Link::from_json(value).is_some() || object.iter().any(|(_, value)| has_links(value))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => false,
    }
}

fn has_same_links(before: &Json, after: &Json) -> bool {
    let same = |one: Option<&Json>, other: Option<&Json>| Extent::Links.is_same(one, other);
    match (Link::from_json(before), Link::from_json(after)) {
        (None, None) => {}
        (before, after) => return before == after,
    }
    match (before, after) {
        (Json::Object(before), Json::Object(after)) => {
            let is_gone = |key: &&Arc<str>| !after.contains_key(key);
            before.is_same(after)
                || (after
                    .iter()
                    .all(|(key, value)| same(before.get(key), Some(value)))
                    && before
                        .keys()
                        .filter(is_gone)
                        .all(|key| same(before.get(key), None)))
        }
        (Json::Array(before), Json::Array(after)) => {
            let longest = before.len().max(after.len());
            before.is_same(after)
                || (0..longest).all(|index| same(before.get(index), after.get(index)))
        }
        _ => links_digest(before) == links_digest(after),
    }
}

fn is_same_shape(before: &Json, after: &Json) -> bool {
    match (before, after) {
        (Json::Array(before), Json::Array(after)) => before.len() == after.len(),
        (Json::Object(_), Json::Object(_)) => {
            match (Link::from_json(before), Link::from_json(after)) {
                (None, None) => true,
                (Some(before), Some(after)) => before == after,
                _ => false,
            }
        }
        _ => before.kind() == after.kind(),
    }
}

fn has_same_keys(before: &Json, after: &Json) -> bool {
    match (before.as_object(), after.as_object()) {
        (Some(before), Some(after)) => before.has_same_keys(after),
        _ => true,
    }
}

/// The document at `at`, be it stored or inline.
pub fn document_at(reads: &dyn Reads, at: &CellAddress) -> Option<Json> {
    if at.id.is_inline() {
        return at.id.inline_value();
    }
    reads.document(&at.space, &at.id)
}
