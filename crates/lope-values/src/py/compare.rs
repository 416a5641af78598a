//! Python's equality, order, membership and identity.

use std::cmp::Ordering;

use lope_model::Value;

use super::object::plain;
use super::{DICT, Dict, Distinct, SET, TUPLE, sequence, tagged, type_name};
use crate::compare::{Relation, numbers};
use crate::error::EvalError;
use crate::fuel::Fuel;
use crate::text;

/// Bools are numbers here.
fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(value) => Some(Value::Int(i64::from(*value))),
        Value::Int(_) | Value::Float(_) => Some(value.clone()),
        _ => None,
    }
}

/// How two numbers compare; nothing if they are no numbers.
enum Numbers {
    Ordered(Ordering),
    /// One of them is NaN.
    Unordered,
}

fn number_order(left: &Value, right: &Value) -> Option<Numbers> {
    Some(numbers(&number(left)?, &number(right)?).map_or(Numbers::Unordered, Numbers::Ordered))
}

pub fn equal(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    let (left, right) = (plain(left), plain(right));
    if let Some(order) = number_order(left, right) {
        return Ok(matches!(order, Numbers::Ordered(Ordering::Equal)));
    }
    match (left, right) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Str(a), Value::Str(b)) => Ok(a == b),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(a == b),
        (Value::List(a), Value::List(b)) => items_equal(a, b, fuel),
        (Value::Map(_), _) | (_, Value::Map(_)) => dicts_equal(left, right, fuel),
        (Value::Tag(a), Value::Tag(b)) => {
            text::no_secret(left)?;
            text::no_secret(right)?;
            match (&*a.name, &*b.name) {
                (SET, SET) => sets_equal(left, right, fuel),
                (DICT, DICT) => dicts_equal(left, right, fuel),
                (TUPLE, TUPLE) => equal(&a.value, &b.value, fuel),
                (left, right) => Ok(left == right && equal(&a.value, &b.value, fuel)?),
            }
        }
        _ => {
            text::no_secret(left)?;
            text::no_secret(right)?;
            Ok(false)
        }
    }
}

fn item_equal(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    fuel.spend(1)?;
    equal(left, right, fuel)
}

fn items_equal(left: &[Value], right: &[Value], fuel: &mut Fuel) -> Result<bool, EvalError> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (left, right) in left.iter().zip(right) {
        if !item_equal(left, right, fuel)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn dicts_equal(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    text::no_secret(left)?;
    text::no_secret(right)?;
    let (Some(a), Some(b)) = (Dict::of(left), Dict::of(right)) else {
        return Ok(false);
    };
    if a.len() != b.len() {
        return Ok(false);
    }
    for (key, value) in a.iter() {
        match b.get(&key, fuel)? {
            Some(other) if item_equal(value, other, fuel)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn set_items(value: &Value) -> &[Value] {
    tagged(value, SET).map_or(&[], |items| items)
}

fn sets_equal(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    Ok(set_items(left).len() == set_items(right).len() && is_subset(left, right, fuel)?)
}

fn is_subset(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    let whole = Distinct::of(set_items(right), fuel)?;
    for item in set_items(left) {
        if !whole.has(item, fuel)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub fn less(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    ordered(Relation::Lt, left, right, fuel)
}

pub fn ordered(
    order: Relation,
    left: &Value,
    right: &Value,
    fuel: &mut Fuel,
) -> Result<bool, EvalError> {
    let (left, right) = (plain(left), plain(right));
    if let Some(found) = number_order(left, right) {
        return Ok(matches!(found, Numbers::Ordered(ordering) if order.holds(ordering)));
    }
    match (left, right) {
        (Value::Str(a), Value::Str(b)) => Ok(order.holds(a.cmp(b))),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(order.holds(a.cmp(b))),
        (Value::List(a), Value::List(b)) => sequences(order, a, b, fuel),
        (Value::Tag(a), Value::Tag(b)) if a.name == b.name => match &*a.name {
            TUPLE => sequences(order, set_or_tuple(left), set_or_tuple(right), fuel),
            SET => subsets(order, left, right, fuel),
            _ => Err(unordered(order, left, right)),
        },
        _ => Err(unordered(order, left, right)),
    }
}

fn set_or_tuple(value: &Value) -> &[Value] {
    sequence(value).map_or(&[], |items| items)
}

fn unordered(order: Relation, left: &Value, right: &Value) -> EvalError {
    let secret = text::no_secret(left).and_then(|()| text::no_secret(right));
    secret.err().unwrap_or_else(|| {
        let sign = order.sign();
        let left = type_name(left);
        let right = type_name(right);
        EvalError::typed(format!(
            "'{sign}' not supported between instances of '{left}' and '{right}'"
        ))
    })
}

/// The first items that differ decide; if there are none, the lengths.
fn sequences(
    order: Relation,
    left: &[Value],
    right: &[Value],
    fuel: &mut Fuel,
) -> Result<bool, EvalError> {
    for (a, b) in left.iter().zip(right) {
        if !item_equal(a, b, fuel)? {
            return ordered(order, a, b, fuel);
        }
    }
    Ok(order.holds(left.len().cmp(&right.len())))
}

fn subsets(
    order: Relation,
    left: &Value,
    right: &Value,
    fuel: &mut Fuel,
) -> Result<bool, EvalError> {
    let (left, right) = if matches!(order, Relation::Lt | Relation::Le) {
        (left, right)
    } else {
        (right, left)
    };
    let proper = matches!(order, Relation::Lt | Relation::Gt);
    let smaller = set_items(left).len() < set_items(right).len();
    Ok((smaller || !proper) && is_subset(left, right, fuel)?)
}

pub fn is_in(item: &Value, whole: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    match whole {
        Value::Str(text) => match item {
            Value::Str(part) => {
                fuel.spend(text.len() as u64 / 16)?;
                Ok(text.contains(&**part))
            }
            other => {
                let message = format!(
                    "'in <string>' requires string as left operand, not {}",
                    type_name(other)
                );
                Err(EvalError::typed(message))
            }
        },
        Value::Bytes(bytes) => in_bytes(item, bytes),
        Value::List(items) => any_equal(item, items, fuel),
        // A set is looked for as if it were frozen; no set holds one.
        _ if tagged(whole, SET).is_some() && tagged(item, SET).is_some() => Ok(false),
        Value::Tag(tag) if matches!(&*tag.name, SET | super::FROZENSET) => match &tag.value {
            Value::List(items) => {
                Ok(super::lookup::index(items, |item| Some(item), item, fuel)?.is_some())
            }
            _ => Ok(false),
        },
        Value::Tag(tag) if &*tag.name == TUPLE => {
            any_equal(item, tag.value.as_list().unwrap_or_default(), fuel)
        }
        _ => {
            text::no_secret(whole)?;
            let not_iterable = || {
                EvalError::typed(format!(
                    "argument of type '{}' is not iterable",
                    type_name(whole)
                ))
            };
            Ok(Dict::of(whole)
                .ok_or_else(not_iterable)?
                .get(item, fuel)?
                .is_some())
        }
    }
}

fn any_equal(item: &Value, items: &[Value], fuel: &mut Fuel) -> Result<bool, EvalError> {
    for other in items {
        if item_equal(item, other, fuel)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn in_bytes(item: &Value, bytes: &[u8]) -> Result<bool, EvalError> {
    match item {
        Value::Bytes(part) => {
            Ok(part.is_empty() || bytes.windows(part.len()).any(|window| window == &**part))
        }
        _ => match super::int(item) {
            Some(byte @ 0..=255) => Ok(bytes.contains(&(byte as u8))),
            Some(_) => Err(EvalError::value("byte must be in range(0, 256)")),
            None => Err(EvalError::typed(format!(
                "a bytes-like object is required, not '{}'",
                type_name(item)
            ))),
        },
    }
}

/// `is`, as far as values without identity can tell: equal, and of the same kind.
pub fn same(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    Ok(left.kind() == right.kind() && equal(left, right, fuel)?)
}
