//! Paths: the keys that lead from a document's root to a value in it. An element of a list has its
//! index as key, in decimal.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::compare_shared;
use crate::json::Json;

/// A path inside a document. Clones are cheap.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CellPath(Arc<[Arc<str>]>);

/// Key by key; a path stands before those that lead on from it.
impl Ord for CellPath {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        let keys = self.0.iter().zip(&*other.0);
        let mut orders = keys.map(|(one, other)| compare_shared(one, other));
        let first = orders.find(|order| order.is_ne());
        first.unwrap_or_else(|| self.len().cmp(&other.len()))
    }
}

impl PartialOrd for CellPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl CellPath {
    /// The path of a document's root.
    pub fn root() -> Self {
        Self(Arc::default())
    }

    pub fn keys(&self) -> &[Arc<str>] {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.is_root()
    }

    /// The path one key further.
    pub fn join(&self, key: impl Into<Arc<str>>) -> Self {
        self.keys().iter().cloned().chain([key.into()]).collect()
    }

    /// The path followed by more keys.
    pub fn extend(&self, more: &[Arc<str>]) -> Self {
        if more.is_empty() {
            return self.clone();
        }
        self.keys().iter().chain(more).cloned().collect()
    }

    /// The first `length` keys.
    pub fn prefix(&self, length: usize) -> Self {
        if length == self.len() {
            return self.clone();
        }
        Self(self.0[..length].into())
    }

    /// Whether a change at one path can be seen at the other: one leads through the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.keys().starts_with(other.keys()) || other.keys().starts_with(self.keys())
    }

    /// Puts the path behind a text as a JSON pointer: `/a/b`, with `~1` for a slash in a key and `~0` for
    /// a tilde.
    pub(crate) fn push_to(&self, text: &mut String) {
        for key in self.keys() {
            text.push('/');
            if key.contains(['~', '/']) {
                text.push_str(&key.replace('~', "~0").replace('/', "~1"));
            } else {
                text.push_str(key);
            }
        }
    }

    /// The path as a list of texts.
    pub fn to_json(&self) -> Json {
        Json::array(self.keys().iter().cloned().map(Json::Text))
    }

    /// Reads a list of texts; whole numbers stand for indices.
    pub fn from_json(json: &Json) -> Option<Self> {
        json.as_array()?.iter().map(key_of).collect()
    }
}

fn key_of(json: &Json) -> Option<Arc<str>> {
    match json {
        Json::Text(text) => Some(Arc::clone(text)),
        Json::Number(number) => {
            let index = number.as_int().filter(|index| *index >= 0)?;
            Some(index.to_string().into())
        }
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

impl Default for CellPath {
    fn default() -> Self {
        Self::root()
    }
}

impl<K: Into<Arc<str>>> FromIterator<K> for CellPath {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        Self(keys.into_iter().map(Into::into).collect())
    }
}

/// As a JSON pointer.
impl fmt::Display for CellPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.push_to(&mut text);
        f.write_str(&text)
    }
}
