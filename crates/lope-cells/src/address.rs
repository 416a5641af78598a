//! Addresses: where a value is. A space, a document in it, a path in that.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::{EntityId, SpaceName};
use crate::path::CellPath;

/// The address of a value. Clones are cheap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellAddress {
    pub space: SpaceName,
    pub id: EntityId,
    pub path: CellPath,
}

impl CellAddress {
    /// The root of a document.
    pub fn document(space: SpaceName, id: EntityId) -> Self {
        Self {
            space,
            id,
            path: CellPath::root(),
        }
    }

    /// The same document's value at `path`.
    pub fn with_path(&self, path: CellPath) -> Self {
        Self {
            space: self.space.clone(),
            id: self.id.clone(),
            path,
        }
    }

    /// The entry `key` of the value here.
    pub fn key(&self, key: impl Into<Arc<str>>) -> Self {
        self.with_path(self.path.join(key))
    }

    /// The value that the first `length` keys of the path lead to.
    pub fn prefix(&self, length: usize) -> Self {
        self.with_path(self.path.prefix(length))
    }

    /// Puts what `Display` writes behind a text.
    pub fn push_to(&self, text: &mut String) {
        text.push_str(self.space.as_str());
        text.push('/');
        text.push_str(self.id.as_str());
        self.path.push_to(text);
    }

    pub fn is_same_document(&self, other: &Self) -> bool {
        self.id == other.id && self.space == other.space
    }
}

/// A text that is no address of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{text}' is no address of a cell: {why}")]
pub struct BadAddress {
    text: String,
    why: String,
}

impl CellAddress {
    /// Reads `space/document/path`: the document by its id or by the name that people call it, the
    /// path as a JSON pointer. What `Display` writes is read as the same address.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let bad = |why: String| BadAddress {
            text: text.to_owned(),
            why,
        };
        let (space, rest) = text.split_once('/').unwrap_or((text, ""));
        let space = space.parse().map_err(|error| bad(format!("{error}")))?;
        let unescape = |key: &str| key.replace("~1", "/").replace("~0", "~");
        if let Some((id, path)) = inline_in(rest) {
            let path = path.split('/').skip(1).map(unescape).collect::<CellPath>();
            return Ok(Self::document(space, id).with_path(path));
        }
        let mut parts = rest.split('/');
        let document = parts.next().filter(|document| !document.is_empty());
        let document =
            document.ok_or_else(|| bad("SPACE/DOCUMENT or SPACE/DOCUMENT/PATH expected".into()))?;
        let id = if document.contains(':') {
            document.parse().map_err(|error| bad(format!("{error}")))?
        } else {
            EntityId::named(document)
        };
        let path = parts.map(unescape).collect::<CellPath>();
        Ok(Self::document(space, id).with_path(path))
    }

    /// The name that `text`, which was read as an address, has for the document.
    pub fn name_in(text: &str) -> Option<&str> {
        let document = text.split('/').nth(1)?;
        (!document.contains(':')).then_some(document)
    }
}

/// The inline document that a text begins with, and what stands behind it. It ends where its JSON
/// does, which may have slashes in it.
fn inline_in(text: &str) -> Option<(EntityId, &str)> {
    let ends = text.rmatch_indices('/').map(|(at, _)| at);
    let mut ends = std::iter::once(text.len()).chain(ends);
    text.starts_with("data:").then_some(())?;
    ends.find_map(|end| {
        let id: EntityId = text[..end].parse().ok()?;
        id.inline_value().map(|_| (id, &text[end..]))
    })
}

/// `space/id/path`, for messages.
impl fmt::Display for CellAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.push_to(&mut text);
        f.write_str(&text)
    }
}
