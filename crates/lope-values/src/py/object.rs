//! Objects of the user's: what a tagged value says about its class.
//!
//! A tag named after a class (`module:Class`) holds the fields as a map. Where more must be known
//! there is a second tag around them: `frozen` (cannot be changed, may be a key), `model` (writes
//! itself as pydantic does), `enum` for a member of an enum with its `name` and `value`, `enum.str`
//! and `enum.int` for one that also is a text or an int.

use lope_model::{Map, Value};

/// What kind of object it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Plain,
    Frozen,
    Model,
    Enum,
    /// An enum whose members are texts or ints too.
    Mixed,
}

/// The form and fields of an object; nothing if the value is none.
pub fn object(value: &Value) -> Option<(Form, &Map)> {
    let Value::Tag(tag) = value else { return None };
    if super::is_reserved(&tag.name) {
        return None;
    }
    match &tag.value {
        Value::Map(fields) => Some((Form::Plain, fields)),
        Value::Tag(inner) => Some((form(&inner.name)?, inner.value.as_map()?)),
        _ => None,
    }
}

fn form(name: &str) -> Option<Form> {
    Some(match name {
        "frozen" => Form::Frozen,
        "model" => Form::Model,
        "enum" => Form::Enum,
        "enum.str" | "enum.int" => Form::Mixed,
        _ => return None,
    })
}

/// The text or int that a member of a mixed enum is; any other value as it is.
pub(crate) fn plain(value: &Value) -> &Value {
    match object(value) {
        Some((Form::Mixed, fields)) => fields.get("value").unwrap_or(value),
        _ => value,
    }
}

/// The object with other fields.
pub(crate) fn with_fields(whole: &Value, fields: Map) -> Value {
    let fields = Value::Map(std::sync::Arc::new(fields));
    match whole {
        Value::Tag(tag) => match &tag.value {
            Value::Tag(inner) => Value::tag(&tag.name, Value::tag(&inner.name, fields)),
            _ => Value::tag(&tag.name, fields),
        },
        _ => fields,
    }
}

/// What an exception was made with: as its failure says, else its message.
pub(super) fn exception_args(failure: &Value) -> Vec<Value> {
    let told = failure
        .get("detail")
        .and_then(|detail| detail.get("args"))
        .and_then(Value::as_list);
    match (told, failure.get("message")) {
        (Some(args), _) => args.to_vec(),
        (None, Some(message)) if message.as_str() != Some("") => vec![message.clone()],
        (None, _) => Vec::new(),
    }
}
