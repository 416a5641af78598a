//! Names of spaces and ids of documents.
//!
//! The id of a stored document is `of:` and the digest of what caused it, so that the same cause
//! gives the same id on every machine and after every restart. A `data:` id holds the document
//! itself; such a document is never stored and never changes.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::json::Json;
use crate::limit;

const STORED: &str = "of:";
const INLINE: &str = "data:application/json,";

/// The name of a space.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpaceName(Arc<str>);

/// The id of a document: a URI.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntityId(Arc<str>);

/// A text that is no id of a document.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadEntityId {
    #[error(
        "'{0}' is no id of a document: a URI such as 'of:…' or 'data:application/json,…' expected"
    )]
    NoUri(String),
    #[error("an id has {0} bytes, more than {max} are allowed", max = limit::ENTITY_ID_MAX)]
    TooLong(usize),
}

/// A text that is no name of a space.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is no name of a space: 1 to {max} bytes without '/' expected", max = limit::SPACE_NAME_MAX)]
pub struct BadSpaceName(String);

impl SpaceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as it can be kept without a copy.
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }
}

impl Ord for SpaceName {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_shared(&self.0, &other.0)
    }
}

impl PartialOrd for SpaceName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EntityId {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_shared(&self.0, &other.0)
    }
}

impl PartialOrd for EntityId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of two texts; those that are one piece of memory are not looked at.
pub(crate) fn compare_shared(one: &Arc<str>, other: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(one, other) {
        return Ordering::Equal;
    }
    one.cmp(other)
}

impl EntityId {
    /// The id of the document that `cause` brings about.
    pub fn of_cause(cause: &Json) -> Self {
        Self(format!("{STORED}{}", cause.digest()).into())
    }

    /// The id of the document that people call `name`.
    pub fn named(name: &str) -> Self {
        Self::of_cause(&Json::object([("name", Json::from(name))]))
    }

    /// The id that holds `value` itself.
    pub fn inline(value: &Json) -> Self {
        Self(format!("{INLINE}{}", escape(&value.to_string())).into())
    }

    pub fn is_inline(&self) -> bool {
        self.0.starts_with("data:")
    }

    /// The document that an inline id holds; none if the id is not inline or holds no JSON.
    pub fn inline_value(&self) -> Option<Json> {
        let text = unescape(self.0.strip_prefix(INLINE)?)?;
        Json::parse(&text).ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as it can be kept without a copy.
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }
}

/// Percent-encodes what may not stand in a URI.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:,[]@!$&'()*+;=/?".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let (code, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

impl FromStr for EntityId {
    type Err = BadEntityId;

    fn from_str(text: &str) -> Result<Self, BadEntityId> {
        validate_id(text)?;
        Ok(Self(text.into()))
    }
}

/// The id that a text is, without a copy of it.
impl TryFrom<&Arc<str>> for EntityId {
    type Error = BadEntityId;

    fn try_from(text: &Arc<str>) -> Result<Self, BadEntityId> {
        validate_id(text)?;
        Ok(Self(Arc::clone(text)))
    }
}

fn validate_id(text: &str) -> Result<(), BadEntityId> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_lowercase())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let is_rest =
        |rest: &str| !rest.is_empty() && !rest.bytes().any(|byte| byte.is_ascii_control());
    match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) && is_rest(rest) => {}
        _ => return Err(BadEntityId::NoUri(text.to_owned())),
    }
    if !text.starts_with("data:") && text.len() > limit::ENTITY_ID_MAX {
        return Err(BadEntityId::TooLong(text.len()));
    }
    Ok(())
}

impl FromStr for SpaceName {
    type Err = BadSpaceName;

    fn from_str(text: &str) -> Result<Self, BadSpaceName> {
        validate_name(text)?;
        Ok(Self(text.into()))
    }
}

/// The name that a text is, without a copy of it.
impl TryFrom<&Arc<str>> for SpaceName {
    type Error = BadSpaceName;

    fn try_from(text: &Arc<str>) -> Result<Self, BadSpaceName> {
        validate_name(text)?;
        Ok(Self(Arc::clone(text)))
    }
}

fn validate_name(text: &str) -> Result<(), BadSpaceName> {
    let fits = !text.is_empty() && text.len() <= limit::SPACE_NAME_MAX && !text.contains('/');
    fits.then_some(())
        .ok_or_else(|| BadSpaceName(text.to_owned()))
}

impl TryFrom<String> for EntityId {
    type Error = BadEntityId;

    fn try_from(text: String) -> Result<Self, BadEntityId> {
        text.parse()
    }
}

impl TryFrom<String> for SpaceName {
    type Error = BadSpaceName;

    fn try_from(text: String) -> Result<Self, BadSpaceName> {
        text.parse()
    }
}

impl From<EntityId> for String {
    fn from(id: EntityId) -> Self {
        id.as_str().to_owned()
    }
}

impl From<SpaceName> for String {
    fn from(name: SpaceName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for SpaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
