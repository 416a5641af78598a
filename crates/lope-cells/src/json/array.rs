//! A persistent list of values: chunks of a fixed size behind shared pointers.
//!
//! A clone is one count; changing an element copies its chunk and the list of chunks.

use std::sync::{Arc, OnceLock};

use lope_model::Digest;

use super::Json;

/// Elements in a full chunk.
const CHUNK: usize = 64;

/// A list of values.
#[derive(Clone, Debug, Default)]
pub struct Array(Arc<Elements>);

#[derive(Clone, Debug, Default)]
struct Elements {
    /// All full but the last, none empty.
    chunks: Vec<Arc<Vec<Json>>>,
    len: usize,
    digest: OnceLock<Digest>,
}

impl Array {
    pub fn len(&self) -> usize {
        self.0.len
    }

    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    pub fn get(&self, index: usize) -> Option<&Json> {
        self.0.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Json> {
        self.0.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Puts `value` at `index`; a gap before it is filled with null.
    pub fn set(&mut self, index: usize, value: Json) {
        while self.len() < index {
            self.push(Json::Null);
        }
        match self.get_mut(index) {
            Some(place) => *place = value,
            None => self.push(value),
        }
    }

    pub fn push(&mut self, value: Json) {
        let elements = self.change();
        elements.len += 1;
        match elements.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => Arc::make_mut(chunk).push(value),
            _ => elements.chunks.push(Arc::new(vec![value])),
        }
    }

    pub fn pop(&mut self) -> Option<Json> {
        let elements = self.change();
        let chunk = Arc::make_mut(elements.chunks.last_mut()?);
        let last = chunk.pop();
        if chunk.is_empty() {
            elements.chunks.pop();
        }
        elements.len -= 1;
        last
    }

    /// Whether both are the same piece of memory, which implies that they are equal.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Json> {
        let chunk = self.change().chunks.get_mut(index / CHUNK)?;
        Arc::make_mut(chunk).get_mut(index % CHUNK)
    }

    pub(super) fn digest_cache(&self) -> &OnceLock<Digest> {
        &self.0.digest
    }

    fn change(&mut self) -> &mut Elements {
        let elements = Arc::make_mut(&mut self.0);
        elements.digest = OnceLock::new();
        elements
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        if self.is_same(other) {
            return true;
        }
        let same_chunk = |(a, b): (&Arc<Vec<Json>>, &Arc<Vec<Json>>)| Arc::ptr_eq(a, b) || a == b;
        self.len() == other.len() && self.0.chunks.iter().zip(&other.0.chunks).all(same_chunk)
    }
}

impl FromIterator<Json> for Array {
    fn from_iter<I: IntoIterator<Item = Json>>(elements: I) -> Self {
        let mut chunks: Vec<Vec<Json>> = Vec::new();
        let mut len = 0;
        for element in elements {
            if len % CHUNK == 0 {
                chunks.push(Vec::with_capacity(4));
            }
            chunks
                .last_mut()
                .expect("a chunk was pushed for the first element")
                .push(element);
            len += 1;
        }
        Self(Arc::new(Elements {
            chunks: chunks.into_iter().map(Arc::new).collect(),
            len,
            digest: OnceLock::new(),
        }))
    }
}
