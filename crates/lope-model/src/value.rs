//! Values: JSON, plus bytes and tagged values for what only some front ends have (tuples, decimals,
//! dates…).
//!
//! Clones are cheap (shared text, lists and maps). Maps keep insertion order; equality ignores it.
//! The text and MessagePack forms are in `codec`.

mod codec;
mod head;

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

pub use codec::{BadValue, from_json, from_msgpack, to_json, to_msgpack};
pub use head::from_msgpack_head;

/// A map of values in insertion order.
pub type Map = IndexMap<Arc<str>, Value>;

/// A value of the workflow language.
#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<Vec<Value>>),
    Map(Arc<Map>),
    /// A value of a type that JSON lacks, by name; text operators do not apply to it.
    Tag(Arc<Tag>),
}

/// The inside of a tagged value: which type, and its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    pub name: Arc<str>,
    pub value: Value,
}

impl Value {
    pub fn str(text: impl AsRef<str>) -> Self {
        Self::Str(text.as_ref().into())
    }

    pub fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bytes(bytes.as_ref().into())
    }

    pub fn list(items: Vec<Value>) -> Self {
        Self::List(Arc::new(items))
    }

    pub fn map<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Map(Arc::new(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        ))
    }

    pub fn tag(name: &str, value: Value) -> Self {
        Self::Tag(Arc::new(Tag {
            name: name.into(),
            value,
        }))
    }

    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The entry `key` of a map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map().and_then(|map| map.get(key))
    }

    /// What kind of value this is, in the words of error messages.
    pub fn kind(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Tag(tag) => &tag.name,
        }
    }

    /// About how many bytes it takes when it is stored.
    pub fn weight(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 1,
            Self::Int(_) | Self::Float(_) => 9,
            Self::Str(text) => text.len() + 5,
            Self::Bytes(bytes) => bytes.len() + 5,
            Self::List(items) => items.iter().map(Self::weight).sum::<usize>() + 5,
            Self::Map(map) => {
                let entry = |(key, value): (&Arc<str>, &Self)| key.len() + 5 + value.weight();
                map.iter().map(entry).sum::<usize>() + 5
            }
            Self::Tag(tag) => tag.name.len() + 12 + tag.value.weight(),
        }
    }

    /// As text that keys are compared by.
    pub fn key_text(&self) -> Arc<str> {
        match self {
            Self::Str(text) => Arc::clone(text),
            other => other.to_string().into(),
        }
    }
}

/// Structural equality: an int and a float are different values, NaN equals itself (so that a value
/// equals its copy), the order of map entries does not count.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::List(a), Self::List(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Map(a), Self::Map(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Tag(a), Self::Tag(b)) => a == b,
            _ => false,
        }
    }
}

/// Compact JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_json(self))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Str(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Str(value.into())
    }
}

impl From<Vec<Value>> for Value {
    fn from(value: Vec<Value>) -> Self {
        Self::list(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
