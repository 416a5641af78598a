//! Keys of dicts and items of sets as something that can be hashed. How a value becomes one is in
//! `py`.

use std::sync::Arc;

/// A hashable value up to Python's equality: `1`, `1.0` and `True` are one key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum HashKey {
    Null,
    Int(i64),
    Float(u64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    Tuple(Vec<HashKey>),
    Tag(Arc<str>, Vec<(Arc<str>, HashKey)>),
}
