//! What makes two keys of a dict, or two items of a set, the same: Python's equality of hashable values, as something
//! that can be hashed.

use std::collections::HashSet;
use std::sync::Arc;

use lope_model::Value;

use super::object::{Form, object, plain};
use super::{DICT, EXCEPTION, SET, TUPLE, type_name};
use crate::expr::error::EvalError;
use crate::expr::fuel::Fuel;
use crate::expr::text;

/// A hashable value up to Python's equality: `1`, `1.0` and `True` are one key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::expr) enum Key {
    Null,
    Int(i64),
    Float(u64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    Tuple(Vec<Key>),
    Tag(Arc<str>, Vec<(Arc<str>, Key)>),
}

impl Key {
    pub(in crate::expr) fn of(value: &Value, fuel: &mut Fuel) -> Result<Self, EvalError> {
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
                    (TUPLE, Value::List(items)) => {
                        Self::Tuple(items.iter().map(|item| Self::of(item, fuel)).collect::<Result<_, _>>()?)
                    }
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

fn float(number: f64) -> Key {
    // Comparing as floats would let 2^63 pass for the largest int.
    if number.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
        return Key::Int(number as i64);
    }
    Key::Float(number.to_bits())
}

/// The parts of an object, in the order of their names.
fn fields(inside: &Value, fuel: &mut Fuel) -> Result<Vec<(Arc<str>, Key)>, EvalError> {
    let map = match inside {
        Value::Map(map) => map,
        Value::Tag(inner) => return fields(&inner.value, fuel),
        Value::List(items) => {
            let keys = items.iter().map(|item| Ok(("".into(), Key::of(item, fuel)?)));
            return keys.collect();
        }
        inside => return Ok(vec![("".into(), Key::of(inside, fuel)?)]),
    };
    let parts = map.iter().map(|(name, value)| Ok((Arc::clone(name), Key::of(value, fuel)?)));
    let mut parts: Vec<_> = parts.collect::<Result<_, EvalError>>()?;
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(parts)
}

/// Items without those that are the same as an earlier one.
#[derive(Debug, Default)]
pub(in crate::expr) struct Distinct {
    seen: HashSet<Key>,
    pub(in crate::expr) items: Vec<Value>,
}

impl Distinct {
    pub(in crate::expr) fn of(items: &[Value], fuel: &mut Fuel) -> Result<Self, EvalError> {
        let mut found = Self::default();
        for item in items {
            found.add(item, fuel)?;
        }
        Ok(found)
    }

    pub(in crate::expr) fn add(&mut self, item: &Value, fuel: &mut Fuel) -> Result<(), EvalError> {
        if self.seen.insert(Key::of(item, fuel)?) {
            fuel.build(1)?;
            self.items.push(item.clone());
        }
        Ok(())
    }

    pub(in crate::expr) fn has(&self, item: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
        Ok(self.seen.contains(&Key::of(item, fuel)?))
    }

    pub(in crate::expr) fn len(&self) -> usize {
        self.items.len()
    }

    pub(in crate::expr) fn into_set(self) -> Value {
        Value::tag(SET, Value::list(self.items))
    }
}
