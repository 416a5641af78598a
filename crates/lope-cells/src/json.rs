//! JSON values that are cheap to clone and know their digest.
//!
//! Lists and objects are persistent: a clone shares everything, and a change copies only the pieces
//! on its way. An object has no order of its own; its entries stand sorted by key, so that equal
//! values look and hash alike however they were made. What is absent is `None`, never `Null`.

mod array;
mod digest;
mod number;
mod object;
mod serial;
mod update;
mod weight;

use std::fmt;
use std::sync::Arc;

pub use array::Array;
pub use number::Number;
pub use object::Object;
pub use update::{NotAContainer, put};

/// A JSON value.
#[derive(Clone, Default, PartialEq)]
pub enum Json {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(Arc<str>),
    Array(Array),
    Object(Object),
}

impl Json {
    /// A list of `elements`.
    pub fn array(elements: impl IntoIterator<Item = Json>) -> Self {
        Self::Array(elements.into_iter().collect())
    }

    /// An object of `entries`; of two with the same key the later one counts.
    pub fn object<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Json)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value));
        Self::Object(entries.collect())
    }

    /// Reads JSON text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub const fn as_number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_int)
    }

    /// The text, as it can be kept without a copy.
    pub const fn as_text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub const fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// As in JavaScript.
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(value) => *value,
            Self::Number(number) => number.as_int() != Some(0),
            Self::Text(text) => !text.is_empty(),
            Self::Array(_) | Self::Object(_) => true,
        }
    }

    pub const fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The entry `key` of an object, or the element of a list whose index is written `key`.
    pub fn child(&self, key: &str) -> Option<&Json> {
        match self {
            Self::Object(object) => object.get(key),
            Self::Array(array) => array.get(index(key)?),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => None,
        }
    }

    /// What stands at the end of `path`, links not followed.
    pub fn at(&self, path: &[Arc<str>]) -> Option<&Json> {
        path.iter()
            .try_fold(self, |value, key| Self::child(value, key))
    }

    /// The name of the value's type, as JSON Schema has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

/// An index written in decimal, without sign or leading zeros.
pub(crate) fn index(key: &str) -> Option<usize> {
    let plain = key == "0" || !key.starts_with('0');
    let digits = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    (plain && digits).then(|| key.parse().ok()).flatten()
}

/// Compact JSON text, entries sorted by key.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

/// What is not a number is null, as in JavaScript's `JSON.stringify`.
impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Number::from_f64(value).map_or(Self::Null, Self::Number)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<Arc<str>> for Json {
    fn from(value: Arc<str>) -> Self {
        Self::Text(value)
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::Text(value.into())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => number.as_i64().map_or_else(
                || Self::from(number.as_f64().unwrap_or(f64::NAN)),
                Self::from,
            ),
            serde_json::Value::String(text) => Self::from(text.as_str()),
            serde_json::Value::Array(elements) => Self::array(elements.iter().map(Self::from)),
            serde_json::Value::Object(entries) => Self::object(
                entries
                    .iter()
                    .map(|(key, value)| (key.as_str(), Self::from(value))),
            ),
        }
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::from(&value)
    }
}
