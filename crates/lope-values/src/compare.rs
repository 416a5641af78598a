//! Equality and order as text expressions have them: numbers compare by value whatever their kind,
//! values of different kinds are unequal, order exists between numbers, texts, bytes, bools, times
//! and spans.
//!
//! A secret compares with nothing.

use std::cmp::Ordering;

use lope_model::Value;

use super::error::EvalError;
use super::fuel::Fuel;
use super::text;

/// The four questions about order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    Lt,
    Le,
    Gt,
    Ge,
}

impl Relation {
    pub const fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Lt => ordering.is_lt(),
            Self::Le => ordering.is_le(),
            Self::Gt => ordering.is_gt(),
            Self::Ge => ordering.is_ge(),
        }
    }

    pub const fn sign(self) -> &'static str {
        match self {
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
}

pub fn equal(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            numbers(left, right) == Some(Ordering::Equal)
        }
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && all_equal(a.iter().zip(b.iter()), fuel)?
        }
        (Value::Map(a), Value::Map(b)) => {
            let pairs = a
                .iter()
                .map_while(|(key, value)| Some((value, b.get(key)?)));
            a.len() == b.len() && pairs.clone().count() == a.len() && all_equal(pairs, fuel)?
        }
        (Value::Tag(a), Value::Tag(b)) => {
            text::no_secret(left)?;
            text::no_secret(right)?;
            a.name == b.name && equal(&a.value, &b.value, fuel)?
        }
        (Value::Tag(_), _) | (_, Value::Tag(_)) => {
            text::no_secret(left)?;
            text::no_secret(right)?;
            false
        }
        _ => false,
    })
}

fn all_equal<'v>(
    pairs: impl Iterator<Item = (&'v Value, &'v Value)>,
    fuel: &mut Fuel,
) -> Result<bool, EvalError> {
    for (left, right) in pairs {
        fuel.spend(1)?;
        if !equal(left, right, fuel)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub fn ordered(order: Relation, left: &Value, right: &Value) -> Result<bool, EvalError> {
    let ordering = match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            return Ok(numbers(left, right).is_some_and(|ordering| order.holds(ordering)));
        }
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Tag(a), Value::Tag(b)) if a.name == b.name && text::is_time(&a.name) => {
            a.value.as_int().cmp(&b.value.as_int())
        }
        _ => {
            let message = format!(
                "{} does not apply to {} and {}",
                order.sign(),
                left.kind(),
                right.kind()
            );
            return Err(EvalError::typed(message));
        }
    };
    Ok(order.holds(ordering))
}

/// `in`: an item of a list, a key of a map, a part of a text.
pub fn contained(item: &Value, whole: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    match (item, whole) {
        (_, Value::List(items)) => {
            for other in items.iter() {
                fuel.spend(1)?;
                if equal(item, other, fuel)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::Str(key), Value::Map(map)) => Ok(map.contains_key(key)),
        (_, Value::Map(_)) => text::no_secret(item).map(|()| false),
        (Value::Str(part), Value::Str(text)) => {
            fuel.spend(text.len() as u64 / 16)?;
            Ok(text.contains(&**part))
        }
        _ => Err(EvalError::typed(format!(
            "in does not apply to {} and {}",
            item.kind(),
            whole.kind()
        ))),
    }
}

/// The exact order of two numbers; none if one is NaN or they are no numbers.
pub fn numbers(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Float(b)) => int_with_float(*a, *b),
        (Value::Float(a), Value::Int(b)) => int_with_float(*b, *a).map(Ordering::reverse),
        _ => None,
    }
}

/// A float that is large has no part after the point, so comparing whole parts first loses nothing.
fn int_with_float(int: i64, float: f64) -> Option<Ordering> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() {
        return None;
    }
    if float >= LIMIT {
        return Some(Ordering::Less);
    }
    if float < -LIMIT {
        return Some(Ordering::Greater);
    }
    let whole = float.trunc();
    Some(
        int.cmp(&(whole as i64))
            .then_with(|| whole.partial_cmp(&float).unwrap_or(Ordering::Equal)),
    )
}
