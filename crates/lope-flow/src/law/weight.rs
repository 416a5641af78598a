//! Roughly how many bytes a value takes when it is stored. Cheap to ask of small values.

use lope_model::Value;

/// About as many bytes as the MessagePack form has.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Int(_) | Value::Float(_) => 9,
        Value::Str(text) => text.len() + 3,
        Value::Bytes(bytes) => bytes.len() + 3,
        Value::List(items) => items.iter().map(weight).sum::<usize>() + 3,
        Value::Map(map) => {
            map.iter()
                .map(|(key, value)| key.len() + 3 + weight(value))
                .sum::<usize>()
                + 3
        }
        Value::Tag(tag) => tag.name.len() + 12 + weight(&tag.value),
    }
}
