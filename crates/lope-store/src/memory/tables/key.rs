//! A key as the memory keeps it: short ones stand in the map itself, so that finding one follows no
//! pointers and a row costs one allocation less. Nearly all keys of the mailbox are short.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Longest key that needs no allocation.
const SHORT_MAX: usize = 22;

#[derive(Clone, Debug)]
pub(in crate::memory) enum TableKey {
    Short { length: u8, bytes: [u8; SHORT_MAX] },
    Long(Box<[u8]>),
}

impl TableKey {
    pub(in crate::memory) fn of(key: &[u8]) -> Self {
        if key.len() > SHORT_MAX {
            return Self::Long(key.into());
        }
        let mut bytes = [0; SHORT_MAX];
        bytes[..key.len()].copy_from_slice(key);
        Self::Short {
            length: key.len() as u8,
            bytes,
        }
    }

    pub(in crate::memory) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for TableKey {
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for TableKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for TableKey {}

impl PartialOrd for TableKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TableKey {
    /// Short keys end in zeros, so they compare as three numbers, and by their length if they
    /// differ in nothing else.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (
                Self::Short { length, bytes },
                Self::Short {
                    length: other_length,
                    bytes: other_bytes,
                },
            ) => {
                let part = |at| number(bytes, at).cmp(&number(other_bytes, at));
                part(0)
                    .then_with(|| part(8))
                    .then_with(|| part(SHORT_MAX - 8))
                    .then_with(|| length.cmp(other_length))
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
pub(super) fn find<'a, V>(rows: &'a BTreeMap<TableKey, V>, key: &[u8]) -> Option<&'a V> {
    if key.len() > SHORT_MAX {
        rows.get(key)
    } else {
        rows.get(&TableKey::of(key))
    }
}

/// Take away the value at a key.
pub(super) fn remove<V>(rows: &mut BTreeMap<TableKey, V>, key: &[u8]) -> Option<V> {
    if key.len() > SHORT_MAX {
        rows.remove(key)
    } else {
        rows.remove(&TableKey::of(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_bytes_whether_they_are_short_or_long() {
        let texts: [&[u8]; 7] = [
            b"",
            b"\0",
            b"a",
            b"a\0",
            &[b'a'; SHORT_MAX],
            &[b'a'; SHORT_MAX + 1],
            b"b",
        ];
        for (left, right) in texts.iter().zip(&texts[1..]) {
            assert!(
                left.cmp(right) == TableKey::of(left).cmp(&TableKey::of(right)),
                "{left:?} {right:?}"
            );
            assert_eq!(TableKey::of(left).bytes(), *left);
            assert_ne!(TableKey::of(left), TableKey::of(right));
        }
        assert_eq!(size_of::<TableKey>(), size_of::<Vec<u8>>());
    }

    #[test]
    fn short_keys_differ_wherever_their_bytes_do() {
        let plain = [7; SHORT_MAX];
        for at in 0..SHORT_MAX {
            let mut more = plain;
            more[at] = 8;
            assert!(TableKey::of(&plain) < TableKey::of(&more), "{at}");
            assert_eq!(
                TableKey::of(&plain[..at]).cmp(&TableKey::of(&plain)),
                Ordering::Less,
                "{at}"
            );
        }
        let rows: BTreeMap<TableKey, usize> = [3, SHORT_MAX, SHORT_MAX + 1]
            .map(|length| (TableKey::of(&[1; 40][..length]), length))
            .into();
        for length in [3, SHORT_MAX, SHORT_MAX + 1] {
            assert_eq!(find(&rows, &[1; 40][..length]), Some(&length));
            assert_eq!(remove(&mut rows.clone(), &[1; 40][..length]), Some(length));
        }
        assert_eq!(find(&rows, &[1; 4]), None);
    }
}
