//! What makes two keys of a dict, or two items of a set, the same: Python's equality of hashable
//! values, as something that can be hashed.

use std::collections::HashSet;
use std::sync::Arc;

use lope_model::Value;

use super::object::{Form, object, plain};
use super::{DICT, EXCEPTION, SET, TUPLE, type_name};
use crate::error::EvalError;
use crate::fuel::Fuel;
use crate::key::HashKey;
use crate::text;

/// The key that a value is, if it can be one.
impl HashKey {
    pub fn of(value: &Value, fuel: &mut Fuel) -> Result<Self, EvalError> {
        fuel.spend(1)?;
        let value = plain(value);
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Int(i64::from(*value)),
            Value::Int(number) => Self::Int(*number),
            Value::Float(number) => float(*number),
            Value::Str(text) => Self::Text(Arc::clone(text)),
            Value::Bytes(bytes) => Self::Bytes(Arc::clone(bytes)),
            Value::List(_) | Value::Map(_) => return Err(unhashable(value)),
            Value::Tag(tag) => {
                text::no_secret(value)?;
                match (&*tag.name, &tag.value) {
                    (SET | DICT, _) => return Err(unhashable(value)),
                    (TUPLE, Value::List(items)) => Self::Tuple(
                        items
                            .iter()
                            .map(|item| Self::of(item, fuel))
                            .collect::<Result<_, _>>()?,
                    ),
                    (EXCEPTION, _) => return Err(unhashable(value)),
                    _ if matches!(object(value), Some((Form::Plain | Form::Model, _))) => {
                        return Err(unhashable(value));
                    }
                    (_, inside) => Self::Tag(Arc::clone(&tag.name), fields(inside, fuel)?),
                }
            }
        })
    }
}

fn unhashable(value: &Value) -> EvalError {
    EvalError::typed(format!("unhashable type: '{}'", type_name(value)))
}

fn float(number: f64) -> HashKey {
    // Comparing as floats would let 2^63 pass for the largest int.
    if number.fract() == 0.0
        && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number)
    {
        return HashKey::Int(number as i64);
    }
    HashKey::Float(number.to_bits())
}

/// The parts of an object, in the order of their names.
fn fields(inside: &Value, fuel: &mut Fuel) -> Result<Vec<(Arc<str>, HashKey)>, EvalError> {
    let map = match inside {
        Value::Map(map) => map,
        Value::Tag(inner) => return fields(&inner.value, fuel),
        Value::List(items) => {
            let keys = items
                .iter()
                .map(|item| Ok(("".into(), HashKey::of(item, fuel)?)));
            return keys.collect();
        }
        inside => return Ok(vec![("".into(), HashKey::of(inside, fuel)?)]),
    };
    let parts = map
        .iter()
        .map(|(name, value)| Ok((Arc::clone(name), HashKey::of(value, fuel)?)));
    let mut parts: Vec<_> = parts.collect::<Result<_, EvalError>>()?;
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(parts)
}

/// Items without those that are the same as an earlier one.
#[derive(Debug, Default)]
pub struct Distinct {
    seen: HashSet<HashKey>,
    pub items: Vec<Value>,
}

impl Distinct {
    pub fn of(items: &[Value], fuel: &mut Fuel) -> Result<Self, EvalError> {
        let mut found = Self::default();
        for item in items {
            found.add(item, fuel)?;
        }
        Ok(found)
    }

    pub fn add(&mut self, item: &Value, fuel: &mut Fuel) -> Result<(), EvalError> {
        if self.seen.insert(HashKey::of(item, fuel)?) {
            fuel.build(1)?;
            self.items.push(item.clone());
        }
        Ok(())
    }

    pub fn has(&self, item: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
        Ok(self.seen.contains(&HashKey::of(item, fuel)?))
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn into_set(self) -> Value {
        Value::tag(SET, Value::list(self.items))
    }
}
