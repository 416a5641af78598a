//! Parts of values as text expressions reach them: `a.b`, `a[b]`, `has(a.b)`. Strict: what is not
//! there is an error.

use std::borrow::Cow;

use lope_model::{Map, Value};

use super::error::{ErrorKind, EvalError};
use super::nearest::nearest;
use super::text;

/// A part of a value that may be borrowed or not: what it is taken from decides.
pub fn part<'a>(
    whole: Cow<'a, Value>,
    find: impl for<'v> FnOnce(&'v Value) -> Result<&'v Value, EvalError>,
) -> Result<Cow<'a, Value>, EvalError> {
    match whole {
        Cow::Borrowed(whole) => find(whole).map(Cow::Borrowed),
        Cow::Owned(whole) => find(&whole).map(|part| Cow::Owned(part.clone())),
    }
}

pub fn field<'a>(whole: Cow<'a, Value>, name: &str) -> Result<Cow<'a, Value>, EvalError> {
    part(whole, |whole| match fields(whole)? {
        Some(map) => map.get(name).ok_or_else(|| missing(name, map)),
        None => Err(EvalError::typed(format!(
            "{} has no fields: '{name}' asked for",
            whole.kind()
        ))),
    })
}

pub fn has(whole: &Value, name: &str) -> Result<bool, EvalError> {
    Ok(fields(whole)?.is_some_and(|map| map.contains_key(name)))
}

/// The fields of a map, or of a tagged value that has some.
fn fields(whole: &Value) -> Result<Option<&Map>, EvalError> {
    match whole {
        Value::Map(map) => Ok(Some(map)),
        Value::Tag(tag) => text::no_secret(whole).map(|()| inside(&tag.value)),
        _ => Ok(None),
    }
}

/// A class may say more about itself in a tag around its fields.
fn inside(value: &Value) -> Option<&Map> {
    match value {
        Value::Tag(inner) => inner.value.as_map(),
        value => value.as_map(),
    }
}

fn missing(name: &str, map: &Map) -> EvalError {
    let hint = match nearest(name, map.keys().map(|key| &**key)) {
        Some(close) => format!("; did you mean '{close}'?"),
        None => String::new(),
    };
    EvalError::new(
        ErrorKind::Key,
        format!("there is no '{name}' in the map{hint}"),
    )
}

pub fn index<'a>(whole: Cow<'a, Value>, index: &Value) -> Result<Cow<'a, Value>, EvalError> {
    part(whole, |whole| match (whole, index) {
        (Value::List(items), Value::Int(index)) => {
            let found = usize::try_from(*index)
                .ok()
                .and_then(|index| items.get(index));
            found.ok_or_else(|| {
                let message = format!(
                    "index {index} is outside the list, which has {} items",
                    items.len()
                );
                EvalError::new(ErrorKind::Index, message)
            })
        }
        (Value::Map(map), Value::Str(key)) => map.get(key).ok_or_else(|| missing(key, map)),
        _ => Err(EvalError::typed(format!(
            "{} cannot be indexed by {}",
            whole.kind(),
            index.kind()
        ))),
    })
}
