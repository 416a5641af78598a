//! A persistent map from keys to values, sorted by key: sorted chunks behind shared pointers.
//!
//! A clone is one count; changing an entry copies its chunk and the list of chunks, so that one
//! entry of a very wide object changes in microseconds.

use std::sync::{Arc, OnceLock};

use lope_model::Digest;

use super::Json;

/// A chunk that grows beyond this is split in two.
const CHUNK: usize = 128;

/// A map from keys to values.
#[derive(Clone, Debug, Default)]
pub struct Object(Arc<Entries>);

#[derive(Clone, Debug, Default)]
struct Entries {
    /// Sorted in themselves and among each other, none empty.
    chunks: Vec<Arc<Chunk>>,
    len: usize,
    digest: OnceLock<Digest>,
}

type Chunk = Vec<(Arc<str>, Json)>;

impl Object {
    pub fn len(&self) -> usize {
        self.0.len
    }

    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    pub fn get(&self, key: &str) -> Option<&Json> {
        let chunk = self.0.chunks.get(self.0.chunk_of(key))?;
        let place = find(chunk, key).ok()?;
        Some(&chunk[place].1)
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The entries, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Json)> {
        let chunks = self.0.chunks.iter();
        chunks.flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value)))
    }

    pub fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.iter().map(|(key, _)| key)
    }

    /// Puts an entry in, and gives back the one it replaces.
    pub fn insert(&mut self, key: Arc<str>, value: Json) -> Option<Json> {
        let entries = self.change();
        if entries.chunks.is_empty() {
            entries.chunks.push(Arc::default());
        }
        let index = entries.chunk_of(&key);
        let chunk = Arc::make_mut(&mut entries.chunks[index]);
        match find(chunk, &key) {
            Ok(place) => Some(std::mem::replace(&mut chunk[place].1, value)),
            Err(place) => {
                chunk.insert(place, (key, value));
                entries.len += 1;
                entries.split(index);
                None
            }
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let index = self.0.chunk_of(key);
        let place = find(self.0.chunks.get(index)?, key).ok()?;
        let entries = self.change();
        let chunk = Arc::make_mut(&mut entries.chunks[index]);
        let (_, value) = chunk.remove(place);
        if chunk.is_empty() {
            entries.chunks.remove(index);
        }
        entries.len -= 1;
        Some(value)
    }

    /// Whether both are the same piece of memory, which implies that they are equal.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        let entries = self.change();
        let index = entries.chunk_of(key);
        let chunk = entries.chunks.get_mut(index)?;
        let place = find(chunk, key).ok()?;
        Some(&mut Arc::make_mut(chunk)[place].1)
    }

    pub(super) fn digest_cache(&self) -> &OnceLock<Digest> {
        &self.0.digest
    }

    fn change(&mut self) -> &mut Entries {
        let entries = Arc::make_mut(&mut self.0);
        entries.digest = OnceLock::new();
        entries
    }
}

impl Entries {
    /// The chunk in which `key` stands or would stand.
    fn chunk_of(&self, key: &str) -> usize {
        let starts_after =
            |chunk: &Arc<Chunk>| chunk.first().is_some_and(|(first, _)| **first > *key);
        let behind = self.chunks.partition_point(|chunk| !starts_after(chunk));
        behind.saturating_sub(1)
    }

    fn split(&mut self, index: usize) {
        if self.chunks[index].len() > CHUNK {
            let upper = Arc::make_mut(&mut self.chunks[index]).split_off(CHUNK / 2);
            self.chunks.insert(index + 1, Arc::new(upper));
        }
    }
}

fn find(chunk: &Chunk, key: &str) -> Result<usize, usize> {
    chunk.binary_search_by(|(other, _)| (**other).cmp(key))
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || (self.len() == other.len() && self.iter().eq(other.iter()))
    }
}

impl FromIterator<(Arc<str>, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Json)>>(entries: I) -> Self {
        let mut object = Self::default();
        for (key, value) in entries {
            object.insert(key, value);
        }
        object
    }
}
