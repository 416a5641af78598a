//! A place for what is alive: dense, with keys that notice when their owner is gone.
//!
//! Keys are the same after a snapshot as before it, so the layout (generations and the order of
//! free places) is part of what is stored.

use serde::{Deserialize, Serialize};

/// Where something lives in an arena.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct Key(u32, u32);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Arena<T> {
    #[serde(rename = "s")]
    entries: Vec<(u32, Option<T>)>,
    #[serde(rename = "f")]
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Arena<T> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            entry.1 = Some(value);
            return Key(index, entry.0);
        }
        self.entries.push((0, Some(value)));
        Key((self.entries.len() - 1) as u32, 0)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self
            .entries
            .get_mut(key.0 as usize)
            .filter(|entry| entry.0 == key.1)?;
        let value = entry.1.take()?;
        entry.0 = entry.0.wrapping_add(1);
        self.free.push(key.0);
        Some(value)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.entries
            .get(key.0 as usize)
            .filter(|entry| entry.0 == key.1)?
            .1
            .as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.entries
            .get_mut(key.0 as usize)
            .filter(|entry| entry.0 == key.1)?
            .1
            .as_mut()
    }

    /// Everything alive, by place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(index, (generation, value))| {
            Some((Key(index as u32, *generation), value.as_ref()?))
        })
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries
            .iter_mut()
            .filter_map(|(_, value)| value.as_mut())
    }

    /// Forgets the layout when nothing is alive. Only when no key is held anywhere.
    pub(crate) fn rest(&mut self) {
        if self.len() == 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_dies_with_its_owner_and_places_are_used_again() {
        let mut arena = Arena::default();
        let (first, second) = (arena.insert('a'), arena.insert('b'));
        assert_eq!(arena.remove(first), Some('a'));
        assert_eq!(arena.get(first), None);
        assert_eq!((arena.remove(first), arena.len()), (None, 1));
        let third = arena.insert('c');
        assert_ne!(first, third);
        assert_eq!(
            (arena.get(third), arena.get(second), arena.get(first)),
            (Some(&'c'), Some(&'b'), None)
        );
        assert_eq!(
            arena.iter().map(|(_, value)| *value).collect::<String>(),
            "cb"
        );
    }
}
