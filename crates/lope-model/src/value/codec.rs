//! Values as JSON text and as MessagePack.
//!
//! Bytes and tagged values have reserved one-key forms in JSON: `{"$bytes": "base64"}`, `{"$tag":
//! [name, value]}`. A map of the user's that looks like one is written as `{"$map": [[key,
//! value]…]}`, so that every value comes back as it was. MessagePack uses the same forms, except
//! that bytes are bytes. Input deeper than `limit::DEPTH_MAX` is refused.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use thiserror::Error;

use super::{Map, Tag, Value};
use crate::limit;

const BYTES: &str = "$bytes";
const TAG: &str = "$tag";
const MAP: &str = "$map";

/// Bytes or text that hold no value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a value: {0}")]
pub struct BadValue(String);

pub fn to_json(value: &Value) -> String {
    serde_json::to_string(value).expect("every value has a JSON form")
}

pub fn from_json(text: &str) -> Result<Value, BadValue> {
    let value = serde_json::from_str(text).map_err(|error| BadValue(error.to_string()))?;
    bounded(value)
}

pub fn to_msgpack(value: &Value) -> Vec<u8> {
    rmp_serde::to_vec(value).expect("every value has a MessagePack form")
}

pub fn from_msgpack(bytes: &[u8]) -> Result<Value, BadValue> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(limit::DEPTH_MAX * 4);
    let value = Value::deserialize(&mut reader).map_err(|error| BadValue(error.to_string()))?;
    bounded(value)
}

fn bounded(value: Value) -> Result<Value, BadValue> {
    if deeper_than(&value, limit::DEPTH_MAX) {
        return Err(BadValue(format!(
            "nested deeper than {} levels",
            limit::DEPTH_MAX
        )));
    }
    Ok(value)
}

fn deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Str(_)
        | Value::Bytes(_) => levels == 0,
        Value::List(items) => levels == 0 || items.iter().any(|item| deeper_than(item, levels - 1)),
        Value::Map(map) => levels == 0 || map.values().any(|item| deeper_than(item, levels - 1)),
        Value::Tag(tag) => levels == 0 || deeper_than(&tag.value, levels - 1),
    }
}

fn looks_reserved(map: &Map) -> bool {
    map.len() == 1 && map.keys().all(|key| matches!(&**key, BYTES | TAG | MAP))
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serialize_float(*value, serializer),
            Self::Str(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) if serializer.is_human_readable() => {
                one(serializer, BYTES, &BASE64.encode(bytes))
            }
            Self::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Self::List(items) => serializer.collect_seq(items.iter()),
            Self::Map(map) if looks_reserved(map) => one(serializer, MAP, &Pairs(map)),
            Self::Map(map) => {
                serializer.collect_map(map.iter().map(|(key, value)| (&**key, value)))
            }
            Self::Tag(tag) => one(serializer, TAG, &(&*tag.name, &tag.value)),
        }
    }
}

/// JSON has no word for infinities and NaN; they travel as a tag.
fn serialize_float<S: Serializer>(value: f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() || !serializer.is_human_readable() {
        return serializer.serialize_f64(value);
    }
    one(serializer, TAG, &("float", value.to_string()))
}

fn one<S: Serializer, T: Serialize + ?Sized>(
    serializer: S,
    key: &str,
    value: &T,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(key, value)?;
    map.end()
}

struct Pairs<'a>(&'a Map);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.0.len()))?;
        for (key, value) in self.0 {
            seq.serialize_element(&(&**key, value))?;
        }
        seq.end()
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value)
            .map(Value::Int)
            .map_err(|_| E::custom(format!("integer {value} does not fit 64 bits")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Str(text.into()))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(bytes.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::with_capacity(seq.size_hint().unwrap_or(0).min(4096));
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::list(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::with_capacity(access.size_hint().unwrap_or(0).min(4096));
        while let Some((key, value)) = access.next_entry::<String, Value>()? {
            map.insert(key.into(), value);
        }
        if looks_reserved(&map) {
            return restore(map).map_err(de::Error::custom);
        }
        Ok(Value::Map(Arc::new(map)))
    }
}

/// A map as it was read, or what it stands for if it is a reserved one.
pub(super) fn restored(map: Map) -> Value {
    match restore_reserved(&map) {
        Some(value) => value,
        None => Value::Map(Arc::new(map)),
    }
}

fn restore_reserved(map: &Map) -> Option<Value> {
    let reserved = looks_reserved(map).then(|| map.clone())?;
    restore(reserved).ok()
}

/// What a reserved one-key map stands for.
fn restore(mut map: Map) -> Result<Value, String> {
    let (key, value) = map.pop().expect("a reserved map has one entry");
    match (&*key, &value) {
        (BYTES, Value::Str(text)) => {
            return BASE64
                .decode(&**text)
                .map(Value::bytes)
                .map_err(|error| format!("{BYTES}: {error}"));
        }
        (MAP, Value::List(pairs)) => pairs
            .iter()
            .map(pair)
            .collect::<Option<Map>>()
            .map(|map| Value::Map(Arc::new(map))),
        (TAG, Value::List(parts)) => return restore_tag(parts),
        _ => None,
    }
    .ok_or_else(|| format!("'{key}' is reserved and holds something else"))
}

fn pair(entry: &Value) -> Option<(Arc<str>, Value)> {
    match entry.as_list()? {
        [Value::Str(key), value] => Some((Arc::clone(key), value.clone())),
        _ => None,
    }
}

fn restore_tag(parts: &[Value]) -> Result<Value, String> {
    let [Value::Str(name), value] = parts else {
        return Err(format!("'{TAG}' wants [name, value]"));
    };
    if let ("float", Value::Str(text)) = (&**name, value) {
        return text
            .parse()
            .map(Value::Float)
            .map_err(|_| format!("'{text}' is not a float"));
    }
    Ok(Value::Tag(Arc::new(Tag {
        name: Arc::clone(name),
        value: value.clone(),
    })))
}

#[cfg(test)]
mod tests;
