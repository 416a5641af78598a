//! Arguments as functions want them, and the errors when they are something else.

use std::sync::Arc;

use lope_model::{Map, Value};
use lope_values::{EvalError, text};

fn wrong(wanted: &str, found: &Value) -> EvalError {
    let secret = text::no_secret(found).err();
    secret.unwrap_or_else(|| EvalError::typed(format!("{wanted} expected, not {}", found.kind())))
}

pub(super) fn text(value: &Value) -> Result<&str, EvalError> {
    value.as_str().ok_or_else(|| wrong("text", value))
}

pub(super) fn list(value: &Value) -> Result<&Arc<Vec<Value>>, EvalError> {
    match value {
        Value::List(items) => Ok(items),
        other => Err(wrong("a list", other)),
    }
}

pub(super) fn map(value: &Value) -> Result<&Arc<Map>, EvalError> {
    match value {
        Value::Map(map) => Ok(map),
        other => Err(wrong("a map", other)),
    }
}

pub(super) fn int(value: &Value) -> Result<i64, EvalError> {
    value.as_int().ok_or_else(|| wrong("an int", value))
}

/// An index or count: an int that is not negative.
pub(super) fn count(value: &Value) -> Result<usize, EvalError> {
    usize::try_from(int(value)?)
        .map_err(|_| EvalError::value("a number that is not negative expected"))
}

/// The argument at `index`, if it was given and is not null.
pub(super) fn given(args: &[Value], index: usize) -> Option<&Value> {
    args.get(index).filter(|value| !value.is_null())
}
