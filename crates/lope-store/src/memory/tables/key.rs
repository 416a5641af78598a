//! A key as the memory keeps it: short ones stand in the map itself, so that finding one follows no pointers and a row costs one
//! allocation less. Nearly all keys of the mailbox are short.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Longest key that needs no allocation.
const SHORT_MAX: usize = 22;

#[derive(Clone, Debug)]
pub(in crate::memory) enum Key {
    Short { length: u8, bytes: [u8; SHORT_MAX] },
    Long(Box<[u8]>),
}

impl Key {
    pub(in crate::memory) fn of(key: &[u8]) -> Self {
        if key.len() > SHORT_MAX {
            return Self::Long(key.into());
        }
        let mut bytes = [0; SHORT_MAX];
        bytes[..key.len()].copy_from_slice(key);
        Self::Short { length: key.len() as u8, bytes }
    }

    pub(in crate::memory) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    /// Short keys end in zeros, so they compare as three numbers, and by their length if they differ in nothing else.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Short { length, bytes }, Self::Short { length: other_length, bytes: other_bytes }) => {
                let part = |at| number(bytes, at).cmp(&number(other_bytes, at));
                part(0).then_with(|| part(8)).then_with(|| part(SHORT_MAX - 8)).then_with(|| length.cmp(other_length))
            }
            _ => self.bytes().cmp(other.bytes()),
        }
    }
}

#[inline]
fn number(bytes: &[u8; SHORT_MAX], at: usize) -> u64 {
    let mut part = [0; 8];
    part.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(part)
}

/// The value at a key.
pub(super) fn find<'a, V>(rows: &'a BTreeMap<Key, V>, key: &[u8]) -> Option<&'a V> {
    if key.len() > SHORT_MAX { rows.get(key) } else { rows.get(&Key::of(key)) }
}

/// Take away the value at a key.
pub(super) fn remove<V>(rows: &mut BTreeMap<Key, V>, key: &[u8]) -> Option<V> {
    if key.len() > SHORT_MAX { rows.remove(key) } else { rows.remove(&Key::of(key)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_bytes_whether_they_are_short_or_long() {
        let texts: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", &[b'a'; SHORT_MAX], &[b'a'; SHORT_MAX + 1], b"b"];
        for (left, right) in texts.iter().zip(&texts[1..]) {
            assert!(left.cmp(right) == Key::of(left).cmp(&Key::of(right)), "{left:?} {right:?}");
            assert_eq!(Key::of(left).bytes(), *left);
            assert_ne!(Key::of(left), Key::of(right));
        }
        assert_eq!(size_of::<Key>(), size_of::<Vec<u8>>());
    }

    #[test]
    fn short_keys_differ_wherever_their_bytes_do() {
        let plain = [7; SHORT_MAX];
        for at in 0..SHORT_MAX {
            let mut more = plain;
            more[at] = 8;
            assert!(Key::of(&plain) < Key::of(&more), "{at}");
            assert_eq!(Key::of(&plain[..at]).cmp(&Key::of(&plain)), Ordering::Less, "{at}");
        }
        let rows: BTreeMap<Key, usize> =
            [3, SHORT_MAX, SHORT_MAX + 1].map(|length| (Key::of(&[1; 40][..length]), length)).into();
        for length in [3, SHORT_MAX, SHORT_MAX + 1] {
            assert_eq!(find(&rows, &[1; 40][..length]), Some(&length));
            assert_eq!(remove(&mut rows.clone(), &[1; 40][..length]), Some(length));
        }
        assert_eq!(find(&rows, &[1; 4]), None);
    }
}
