//! Functions of lists for text expressions.

use lope_model::Value;

use super::{Entry, Kind, line};
use crate::expr::error::EvalError;
use crate::expr::fuel::Fuel;

pub(super) const TABLE: &[Entry] = &[line("size", "value", Kind::Function, size)];

fn size(args: &mut [Value], _: &mut Fuel) -> Result<Value, EvalError> {
    let len = match &args[0] {
        Value::Str(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.len(),
        other => {
            return Err(EvalError::typed(format!("size() takes text, bytes, a list or a map, not {}", other.kind())));
        }
    };
    Ok(Value::Int(len as i64))
}
