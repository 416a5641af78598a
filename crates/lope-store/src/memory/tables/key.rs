//! A key as the memory keeps it: short ones stand in the map itself, so that finding one follows no pointers and a row costs one
//! allocation less. Nearly all keys of the mailbox are short.

use std::borrow::Borrow;
use std::cmp::Ordering;

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
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
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
}
