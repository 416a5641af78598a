//! Values with Python's meaning: truth, operators, attributes, indexes, text forms, keys of dicts
//! and sets.
//!
//! What only Python has is tagged: `tuple` and `set` hold a list (a set's items are distinct, in
//! the order they came), `dict` holds a list of `[key, value]` pairs and is only used when some key
//! is not text, `exception` holds a failure's map. Any other tag is an object of the user's (see
//! `object`). Messages are those of Python 3.11.

mod arithmetic;
mod compare;
mod dict;
mod digit;
mod key;
mod lookup;
mod object;
mod repr;
mod select;

pub use crate::key::HashKey;
pub use arithmetic::{add, binary, floor_divide, modulo, raise, unary};
pub use compare::{equal, is_in, less, ordered, same};
pub use dict::{Dict, Pairs};
pub use digit::{ascii_number, decimal, is_digit};
pub use key::Distinct;
pub use object::{Form, object};
pub use repr::{escape, is_printable, repr, str_of};
pub use select::{
    attribute, index, position, set_attribute, set_item, slice, slice_bounds, unpack,
};

use std::borrow::Cow;
use std::sync::Arc;

use lope_model::Value;

use super::error::EvalError;
use super::fuel::Fuel;
use super::text;
use crate::unicode;

pub const TUPLE: &str = "tuple";
pub const SET: &str = "set";
pub const FROZENSET: &str = "frozenset";
pub const DICT: &str = "dict";
pub const EXCEPTION: &str = "exception";

pub fn tuple(items: Vec<Value>) -> Value {
    Value::tag(TUPLE, Value::list(items))
}

/// The items of a tagged list, such as a tuple or a set.
pub fn tagged<'v>(value: &'v Value, name: &str) -> Option<&'v Arc<Vec<Value>>> {
    match value {
        Value::Tag(tag) if &*tag.name == name => match &tag.value {
            Value::List(items) => Some(items),
            _ => None,
        },
        _ => None,
    }
}

/// The items of a list or a tuple.
pub fn sequence(value: &Value) -> Option<&Arc<Vec<Value>>> {
    match value {
        Value::List(items) => Some(items),
        _ => tagged(value, TUPLE),
    }
}

/// The name that Python has for a value's type.
pub fn type_name(value: &Value) -> &str {
    match value {
        Value::Null => "NoneType",
        Value::Str(_) => "str",
        Value::Map(_) => "dict",
        Value::Tag(tag) if &*tag.name == EXCEPTION => tag
            .value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("Exception"),
        Value::Tag(tag) => tag.name.rsplit(['.', ':']).next().unwrap_or(&tag.name),
        other => other.kind(),
    }
}

pub fn truth(value: &Value) -> Result<bool, EvalError> {
    Ok(match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::Str(text) => !text.is_empty(),
        Value::Bytes(bytes) => !bytes.is_empty(),
        Value::List(items) => !items.is_empty(),
        Value::Map(map) => !map.is_empty(),
        Value::Tag(tag) => {
            text::no_secret(value)?;
            match (&*tag.name, &tag.value) {
                (TUPLE | SET | FROZENSET | DICT, Value::List(items)) => !items.is_empty(),
                _ => match object(value) {
                    Some((Form::Mixed, _)) => truth(object::plain(value))?,
                    _ => true,
                },
            }
        }
    })
}

/// An int as Python counts it: bools are ints.
pub fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Bool(value) => Some(i64::from(*value)),
        _ => None,
    }
}

/// A number as a float, bools included.
pub fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        _ => int(value).map(|number| number as f64),
    }
}

/// The items that iterating over a value gives.
pub fn iterate<'v>(value: &'v Value, fuel: &mut Fuel) -> Result<Cow<'v, [Value]>, EvalError> {
    match value {
        Value::List(items) => Ok(Cow::Borrowed(items)),
        Value::Str(text) => {
            fuel.build(text.chars().count())?;
            Ok(Cow::Owned(
                text.chars()
                    .map(|c| Value::str(c.encode_utf8(&mut [0; 4])))
                    .collect(),
            ))
        }
        Value::Bytes(bytes) => {
            fuel.build(bytes.len())?;
            Ok(Cow::Owned(
                bytes
                    .iter()
                    .map(|byte| Value::Int((*byte).into()))
                    .collect(),
            ))
        }
        Value::Tag(tag) if matches!(&*tag.name, TUPLE | SET | FROZENSET) => {
            Ok(Cow::Borrowed(tag.value.as_list().unwrap_or_default()))
        }
        _ => {
            text::no_secret(value)?;
            let not_iterable =
                || EvalError::typed(format!("'{}' object is not iterable", type_name(value)));
            let dict = Dict::of(value).ok_or_else(not_iterable)?;
            fuel.build(dict.len())?;
            Ok(Cow::Owned(
                dict.iter().map(|(key, _)| key.into_owned()).collect(),
            ))
        }
    }
}

pub fn length(value: &Value) -> Result<usize, EvalError> {
    match value {
        Value::Str(text) => Ok(text.chars().count()),
        Value::Bytes(bytes) => Ok(bytes.len()),
        Value::List(items) => Ok(items.len()),
        Value::Map(map) => Ok(map.len()),
        Value::Tag(tag) if matches!(&*tag.name, TUPLE | SET | FROZENSET | DICT) => {
            Ok(tag.value.as_list().map_or(0, <[_]>::len))
        }
        other => {
            text::no_secret(other)?;
            Err(EvalError::typed(format!(
                "object of type '{}' has no len()",
                type_name(other)
            )))
        }
    }
}

/// The tags that have a meaning of their own and are no objects of the user's.
pub fn is_reserved(tag: &str) -> bool {
    matches!(
        tag,
        TUPLE | SET | FROZENSET | DICT | EXCEPTION | text::SECRET | text::SECRET_TEXT
    ) || text::is_time(tag)
}

/// Is a failure of the type `name`, or of one whose base it is?
pub fn is_exception(failure: &Value, name: &str) -> bool {
    let names = |value: &Value| value.as_str() == Some(name);
    matches!(name, "Exception" | "BaseException")
        || failure.get("type").is_some_and(names)
        || failure
            .get("bases")
            .and_then(Value::as_list)
            .is_some_and(|bases| bases.iter().any(names))
}

/// What Python counts as white space.
pub fn is_space(c: char) -> bool {
    unicode::is_whitespace(c) || matches!(c, '\u{1c}'..='\u{1f}')
}
