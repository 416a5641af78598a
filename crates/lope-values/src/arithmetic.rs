//! Arithmetic as text expressions have it: 64-bit ints whose overflow is an error, floats, both
//! mixed; texts, bytes and lists are put together with `+`; times and spans are moved.

use std::sync::Arc;

use lope_model::Value;

use super::error::{ErrorKind, EvalError};
use super::fuel::Fuel;
use super::text::{SPAN, TIME};

/// Two numbers as floats, if both are numbers.
pub fn floats(left: &Value, right: &Value) -> Option<(f64, f64)> {
    Some((float(left)?, float(right)?))
}

pub fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

pub fn int(result: Option<i64>) -> Result<Value, EvalError> {
    result.map(Value::Int).ok_or_else(EvalError::overflow)
}

fn mismatch(sign: &str, left: &Value, right: &Value) -> EvalError {
    EvalError::typed(format!(
        "{sign} does not apply to {} and {}",
        left.kind(),
        right.kind()
    ))
}

pub fn negate(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Int(number) => int(number.checked_neg()),
        Value::Float(number) => Ok(Value::Float(-number)),
        Value::Tag(tag) if &*tag.name == SPAN => {
            moved(SPAN, tag.value.as_int().and_then(i64::checked_neg))
        }
        other => Err(EvalError::typed(format!(
            "- does not apply to {}",
            other.kind()
        ))),
    }
}

pub fn add(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<Value, EvalError> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_add(*b)),
        (Value::Str(a), Value::Str(b)) => join_texts(a, b, fuel),
        (Value::Bytes(a), Value::Bytes(b)) => join_bytes(a, b, fuel),
        (Value::List(a), Value::List(b)) => join_lists(a, b, fuel),
        _ => match (floats(left, right), millis(left), millis(right)) {
            (Some((a, b)), ..) => Ok(Value::Float(a + b)),
            (_, Some((TIME, a)), Some((SPAN, b))) | (_, Some((SPAN, a)), Some((TIME, b))) => {
                moved(TIME, a.checked_add(b))
            }
            (_, Some((SPAN, a)), Some((SPAN, b))) => moved(SPAN, a.checked_add(b)),
            _ => Err(mismatch("+", left, right)),
        },
    }
}

pub fn join_texts(left: &str, right: &str, fuel: &mut Fuel) -> Result<Value, EvalError> {
    fuel.grow((left.len() + right.len()) as u64)?;
    fuel.note_built();
    Ok(Value::from([left, right].concat()))
}

pub fn join_bytes(left: &[u8], right: &[u8], fuel: &mut Fuel) -> Result<Value, EvalError> {
    fuel.grow((left.len() + right.len()) as u64)?;
    fuel.note_built();
    Ok(Value::bytes([left, right].concat()))
}

pub fn join_lists(
    left: &Arc<Vec<Value>>,
    right: &Arc<Vec<Value>>,
    fuel: &mut Fuel,
) -> Result<Value, EvalError> {
    fuel.build(left.len() + right.len())?;
    Ok(Value::list([left.as_slice(), right.as_slice()].concat()))
}

pub fn subtract(left: &Value, right: &Value) -> Result<Value, EvalError> {
    if let (Value::Int(a), Value::Int(b)) = (left, right) {
        return int(a.checked_sub(*b));
    }
    match (floats(left, right), millis(left), millis(right)) {
        (Some((a, b)), ..) => Ok(Value::Float(a - b)),
        (_, Some((TIME, a)), Some((SPAN, b))) => moved(TIME, a.checked_sub(b)),
        (_, Some((TIME, a)), Some((TIME, b))) | (_, Some((SPAN, a)), Some((SPAN, b))) => {
            moved(SPAN, a.checked_sub(b))
        }
        _ => Err(mismatch("-", left, right)),
    }
}

pub fn multiply(left: &Value, right: &Value) -> Result<Value, EvalError> {
    if let (Value::Int(a), Value::Int(b)) = (left, right) {
        return int(a.checked_mul(*b));
    }
    match (floats(left, right), millis(left), millis(right)) {
        (Some((a, b)), ..) => Ok(Value::Float(a * b)),
        (_, Some((SPAN, a)), _) if right.as_int().is_some() => {
            moved(SPAN, a.checked_mul(right.as_int().unwrap_or(0)))
        }
        (_, _, Some((SPAN, b))) if left.as_int().is_some() => {
            moved(SPAN, b.checked_mul(left.as_int().unwrap_or(0)))
        }
        _ => Err(mismatch("*", left, right)),
    }
}

/// Ints divide towards zero. Floats follow IEEE, as CEL's do: division by zero is an infinity.
pub fn divide(left: &Value, right: &Value) -> Result<Value, EvalError> {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) => {
            Err(EvalError::new(ErrorKind::ZeroDivision, "division by zero"))
        }
        (Value::Int(a), Value::Int(b)) => int(a.checked_div(*b)),
        _ => {
            let (a, b) = floats(left, right).ok_or_else(|| mismatch("/", left, right))?;
            Ok(Value::Float(a / b))
        }
    }
}

pub fn remainder(left: &Value, right: &Value) -> Result<Value, EvalError> {
    match (left, right) {
        (Value::Int(_), Value::Int(0)) => {
            Err(EvalError::new(ErrorKind::ZeroDivision, "modulo by zero"))
        }
        // The one case in which the quotient alone overflows.
        (Value::Int(_), Value::Int(-1)) => Ok(Value::Int(0)),
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(a % b)),
        _ => {
            let (a, b) = floats(left, right).ok_or_else(|| mismatch("%", left, right))?;
            Ok(Value::Float(a % b))
        }
    }
}

/// The kind and milliseconds of a time or a span.
fn millis(value: &Value) -> Option<(&'static str, i64)> {
    let Value::Tag(tag) = value else { return None };
    let kind = [TIME, SPAN].into_iter().find(|kind| **kind == *tag.name)?;
    Some((kind, tag.value.as_int()?))
}

fn moved(kind: &str, millis: Option<i64>) -> Result<Value, EvalError> {
    millis
        .map(|millis| Value::tag(kind, Value::Int(millis)))
        .ok_or_else(EvalError::overflow)
}
