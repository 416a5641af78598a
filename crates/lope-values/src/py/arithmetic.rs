//! Python's arithmetic: bools are ints, `/` is true division, `//` and `%` floor, sequences repeat
//! and join, sets and dicts combine. Ints have 64 bits; what does not fit is an `OverflowError`.

use std::sync::Arc;

use lope_model::Value;

use super::{Dict, Distinct, Pairs, SET, TUPLE, float, int, sequence, tagged, type_name};
use crate::arithmetic::{join_bytes, join_lists, join_texts};
use crate::compare::Relation;
use crate::error::{ErrorKind, EvalError};
use crate::fuel::Fuel;
use crate::operator::{Binary, Unary};
use crate::{format, number, text};

pub fn unary(operator: Unary, value: &Value) -> Result<Value, EvalError> {
    match (operator, int(value), value) {
        (Unary::PyNeg, Some(number), _) => checked(number.checked_neg()),
        (Unary::PyNeg, None, Value::Float(number)) => Ok(Value::Float(-number)),
        (Unary::PyPos, Some(number), _) => Ok(Value::Int(number)),
        (Unary::PyPos, None, Value::Float(number)) => Ok(Value::Float(*number)),
        (Unary::PyInvert, Some(number), _) => Ok(Value::Int(!number)),
        _ => {
            text::no_secret(value)?;
            let sign = match operator {
                Unary::PyNeg => "-",
                Unary::PyPos => "+",
                _ => "~",
            };
            Err(EvalError::typed(format!(
                "bad operand type for unary {sign}: '{}'",
                type_name(value)
            )))
        }
    }
}

pub fn binary(
    operator: Binary,
    left: &Value,
    right: &Value,
    fuel: &mut Fuel,
) -> Result<Value, EvalError> {
    match operator {
        Binary::PyAdd => add(left, right, fuel),
        Binary::PySub => subtract(left, right, fuel),
        Binary::PyMul => multiply(left, right, fuel),
        Binary::TrueDiv => true_divide(left, right),
        Binary::FloorDiv => floor_divide(left, right),
        Binary::PyMod => modulo(left, right, fuel),
        Binary::Pow => raise(left, right),
        Binary::PyEq => super::equal(left, right, fuel).map(Value::Bool),
        Binary::PyNe => super::equal(left, right, fuel).map(|equal| Value::Bool(!equal)),
        Binary::PyLt => super::ordered(Relation::Lt, left, right, fuel).map(Value::Bool),
        Binary::PyLe => super::ordered(Relation::Le, left, right, fuel).map(Value::Bool),
        Binary::PyGt => super::ordered(Relation::Gt, left, right, fuel).map(Value::Bool),
        Binary::PyGe => super::ordered(Relation::Ge, left, right, fuel).map(Value::Bool),
        Binary::PyIn => super::is_in(left, right, fuel).map(Value::Bool),
        Binary::PyNotIn => super::is_in(left, right, fuel).map(|found| Value::Bool(!found)),
        Binary::Is => super::same(left, right, fuel).map(Value::Bool),
        Binary::IsNot => super::same(left, right, fuel).map(|same| Value::Bool(!same)),
        Binary::BitAnd | Binary::BitOr | Binary::BitXor => bits(operator, left, right, fuel),
        Binary::Shl | Binary::Shr => shift(operator, left, right),
        _ => Err(EvalError::typed(format!(
            "{} is no operator of two values",
            operator.word()
        ))),
    }
}

fn unsupported(sign: &str, left: &Value, right: &Value) -> EvalError {
    let secret = text::no_secret(left).and_then(|()| text::no_secret(right));
    secret.err().unwrap_or_else(|| {
        let (left, right) = (type_name(left), type_name(right));
        EvalError::typed(format!(
            "unsupported operand type(s) for {sign}: '{left}' and '{right}'"
        ))
    })
}

fn checked(result: Option<i64>) -> Result<Value, EvalError> {
    result.map(Value::Int).ok_or_else(EvalError::overflow)
}

fn floats(left: &Value, right: &Value) -> Option<(f64, f64)> {
    Some((float(left)?, float(right)?))
}

fn ints(left: &Value, right: &Value) -> Option<(i64, i64)> {
    Some((int(left)?, int(right)?))
}

fn zero_division(message: &str) -> EvalError {
    EvalError::new(ErrorKind::ZeroDivision, message)
}

pub fn add(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<Value, EvalError> {
    if let Some((a, b)) = ints(left, right) {
        return checked(a.checked_add(b));
    }
    if let Some((a, b)) = floats(left, right) {
        return Ok(Value::Float(a + b));
    }
    match (left, right) {
        (Value::Str(a), Value::Str(b)) => join_texts(a, b, fuel),
        (Value::Bytes(a), Value::Bytes(b)) => join_bytes(a, b, fuel),
        (Value::List(a), Value::List(b)) => join_lists(a, b, fuel),
        _ => match (tagged(left, TUPLE), tagged(right, TUPLE)) {
            (Some(a), Some(b)) => join_lists(a, b, fuel).map(|joined| Value::tag(TUPLE, joined)),
            _ => Err(cannot_join(left, right)),
        },
    }
}

fn cannot_join(left: &Value, right: &Value) -> EvalError {
    let other = type_name(right);
    match left {
        Value::Str(_) => {
            EvalError::typed(format!("can only concatenate str (not \"{other}\") to str"))
        }
        Value::List(_) => EvalError::typed(format!(
            "can only concatenate list (not \"{other}\") to list"
        )),
        Value::Bytes(_) => EvalError::typed(format!("can't concat {other} to bytes")),
        _ if tagged(left, TUPLE).is_some() => EvalError::typed(format!(
            "can only concatenate tuple (not \"{other}\") to tuple"
        )),
        _ => unsupported("+", left, right),
    }
}

fn subtract(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<Value, EvalError> {
    if let Some((a, b)) = ints(left, right) {
        return checked(a.checked_sub(b));
    }
    if let Some((a, b)) = floats(left, right) {
        return Ok(Value::Float(a - b));
    }
    match (tagged(left, SET), tagged(right, SET)) {
        (Some(a), Some(b)) => keep(a, b, false, fuel).map(Distinct::into_set),
        _ => Err(unsupported("-", left, right)),
    }
}

pub(crate) fn multiply(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<Value, EvalError> {
    if let Some((a, b)) = ints(left, right) {
        return checked(a.checked_mul(b));
    }
    if let Some((a, b)) = floats(left, right) {
        return Ok(Value::Float(a * b));
    }
    let repeated = match (int(left), int(right)) {
        (Some(times), None) => repeat(right, times, fuel),
        (None, Some(times)) => repeat(left, times, fuel),
        _ => None,
    };
    repeated.unwrap_or_else(|| Err(cannot_repeat(left, right)))
}

fn cannot_repeat(left: &Value, right: &Value) -> EvalError {
    let repeats = |value: &Value| {
        matches!(value, Value::Str(_) | Value::Bytes(_)) || sequence(value).is_some()
    };
    let times = if repeats(left) { right } else { left };
    if (repeats(left) || repeats(right)) && text::no_secret(times).is_ok() {
        return EvalError::typed(format!(
            "can't multiply sequence by non-int of type '{}'",
            type_name(times)
        ));
    }
    unsupported("*", left, right)
}

fn repeat(value: &Value, times: i64, fuel: &mut Fuel) -> Option<Result<Value, EvalError>> {
    let times = times.max(0).cast_unsigned();
    let paid = |fuel: &mut Fuel, size: usize| {
        fuel.note_built();
        fuel.grow((size as u64).saturating_mul(times))
            .map(|()| times as usize)
    };
    Some(match value {
        Value::Str(text) => paid(fuel, text.len()).map(|times| Value::from(text.repeat(times))),
        Value::Bytes(bytes) => {
            paid(fuel, bytes.len()).map(|times| Value::bytes(bytes.repeat(times)))
        }
        _ => {
            let items = sequence(value)?;
            let repeated = paid(fuel, items.len().saturating_mul(16)).map(|times| {
                let times = if items.is_empty() { 0 } else { times };
                Value::list(
                    std::iter::repeat_n(items.as_slice(), times)
                        .flatten()
                        .cloned()
                        .collect(),
                )
            });
            repeated.map(|list| {
                if let Value::Tag(_) = value {
                    Value::tag(TUPLE, list)
                } else {
                    list
                }
            })
        }
    })
}

/// Ints too large for a float's digits divide as Python's do: the quotient is rounded once.
fn true_divide(left: &Value, right: &Value) -> Result<Value, EvalError> {
    const EXACT: u64 = 1 << 53;
    let (a, b) = floats(left, right).ok_or_else(|| unsupported("/", left, right))?;
    if b == 0.0 {
        let floating = matches!(left, Value::Float(_)) || matches!(right, Value::Float(_));
        return Err(zero_division(if floating {
            "float division by zero"
        } else {
            "division by zero"
        }));
    }
    match ints(left, right) {
        Some((a, b)) if a.unsigned_abs() > EXACT || b.unsigned_abs() > EXACT => {
            Ok(Value::Float(divide_exactly(a, b)))
        }
        _ => Ok(Value::Float(a / b)),
    }
}

/// The quotient with at least 64 bits, the rest folded into the last one, then rounded to a float.
fn divide_exactly(left: i64, right: i64) -> f64 {
    let size = u128::from(left.unsigned_abs());
    let shift = if size == 0 { 0 } else { size.leading_zeros() };
    let a = size << shift;
    let b = u128::from(right.unsigned_abs());
    let quotient = (a / b) | u128::from(a % b != 0);
    let magnitude = quotient as f64 * 0.5_f64.powi(shift as i32);
    if (left < 0) == (right < 0) {
        magnitude
    } else {
        -magnitude
    }
}

pub fn floor_divide(left: &Value, right: &Value) -> Result<Value, EvalError> {
    if let Some((a, b)) = ints(left, right) {
        return match b {
            0 => Err(zero_division("integer division or modulo by zero")),
            _ => checked(
                a.checked_div(b)
                    .map(|quotient| quotient - i64::from(a % b != 0 && (a < 0) != (b < 0))),
            ),
        };
    }
    let (a, b) = floats(left, right).ok_or_else(|| unsupported("//", left, right))?;
    if b == 0.0 {
        return Err(zero_division("float floor division by zero"));
    }
    Ok(Value::Float(float_divmod(a, b).0))
}

pub fn modulo(left: &Value, right: &Value, fuel: &mut Fuel) -> Result<Value, EvalError> {
    if let Value::Str(template) = left {
        return format::percent(template, right, fuel);
    }
    if let Some((a, b)) = ints(left, right) {
        return match b {
            0 => Err(zero_division("integer modulo by zero")),
            -1 => Ok(Value::Int(0)),
            _ => {
                let rest = a % b;
                Ok(Value::Int(if rest != 0 && (rest < 0) != (b < 0) {
                    rest + b
                } else {
                    rest
                }))
            }
        };
    }
    let (a, b) = floats(left, right).ok_or_else(|| unsupported("%", left, right))?;
    if b == 0.0 {
        return Err(zero_division("float modulo"));
    }
    Ok(Value::Float(float_divmod(a, b).1))
}

/// Quotient and remainder of floats; the remainder has the divisor's sign, also when it is zero.
fn float_divmod(a: f64, b: f64) -> (f64, f64) {
    let mut rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest == 0.0 {
        rest = 0.0_f64.copysign(b);
    } else if (b < 0.0) != (rest < 0.0) {
        rest += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(a / b), rest);
    }
    let floor = quotient.floor();
    (
        if quotient - floor > 0.5 {
            floor + 1.0
        } else {
            floor
        },
        rest,
    )
}

pub fn raise(left: &Value, right: &Value) -> Result<Value, EvalError> {
    if let Some((base, exponent)) = ints(left, right)
        && exponent >= 0
    {
        return raise_int(base, exponent);
    }
    let (base, exponent) =
        floats(left, right).ok_or_else(|| unsupported("** or pow()", left, right))?;
    if base == 0.0 && exponent < 0.0 {
        return Err(zero_division("0.0 cannot be raised to a negative power"));
    }
    if !base.is_finite() || !exponent.is_finite() {
        return Ok(Value::Float(base.powf(exponent)));
    }
    let answer = number::power(base, exponent);
    if answer.is_nan() {
        return Err(EvalError::value(
            "a negative number to a fractional power is complex, which is not supported",
        ));
    }
    if answer.is_infinite() {
        return Err(EvalError::new(
            ErrorKind::Overflow,
            "(34, 'Numerical result out of range')",
        ));
    }
    Ok(Value::Float(answer))
}

fn raise_int(base: i64, exponent: i64) -> Result<Value, EvalError> {
    match base {
        0 | 1 => Ok(Value::Int(if exponent == 0 { 1 } else { base })),
        -1 => Ok(Value::Int(if exponent % 2 == 0 { 1 } else { -1 })),
        _ => checked(
            u32::try_from(exponent)
                .ok()
                .and_then(|exponent| base.checked_pow(exponent)),
        ),
    }
}

fn bits(
    operator: Binary,
    left: &Value,
    right: &Value,
    fuel: &mut Fuel,
) -> Result<Value, EvalError> {
    if let Some((a, b)) = ints(left, right) {
        let number = match operator {
            Binary::BitAnd => a & b,
            Binary::BitOr => a | b,
            _ => a ^ b,
        };
        let bools = matches!((left, right), (Value::Bool(_), Value::Bool(_)));
        return Ok(if bools {
            Value::Bool(number != 0)
        } else {
            Value::Int(number)
        });
    }
    if let (Some(a), Some(b)) = (tagged(left, SET), tagged(right, SET)) {
        return combine(operator, a, b, fuel);
    }
    match (operator, Dict::of(left), Dict::of(right)) {
        (Binary::BitOr, Some(a), Some(b)) => {
            let mut pairs = Pairs::of(a, fuel)?;
            b.iter()
                .try_for_each(|(key, value)| pairs.insert(key.into_owned(), value.clone(), fuel))?;
            Ok(pairs.into_value())
        }
        (Binary::BitAnd, ..) => Err(unsupported("&", left, right)),
        (Binary::BitOr, ..) => Err(unsupported("|", left, right)),
        _ => Err(unsupported("^", left, right)),
    }
}

fn combine(
    operator: Binary,
    left: &Arc<Vec<Value>>,
    right: &Arc<Vec<Value>>,
    fuel: &mut Fuel,
) -> Result<Value, EvalError> {
    let found = match operator {
        Binary::BitAnd => keep(left, right, true, fuel)?,
        Binary::BitOr => {
            let mut all = Distinct::of(left, fuel)?;
            right.iter().try_for_each(|item| all.add(item, fuel))?;
            all
        }
        _ => {
            let mut one = keep(left, right, false, fuel)?;
            keep(right, left, false, fuel)?
                .items
                .iter()
                .try_for_each(|item| one.add(item, fuel))?;
            one
        }
    };
    Ok(found.into_set())
}

/// The items of `left` that are in `right`, or those that are not.
fn keep(
    left: &[Value],
    right: &[Value],
    wanted: bool,
    fuel: &mut Fuel,
) -> Result<Distinct, EvalError> {
    let whole = Distinct::of(right, fuel)?;
    let mut kept = Distinct::default();
    for item in left {
        if whole.has(item, fuel)? == wanted {
            kept.add(item, fuel)?;
        }
    }
    Ok(kept)
}

fn shift(operator: Binary, left: &Value, right: &Value) -> Result<Value, EvalError> {
    let sign = if operator == Binary::Shl { "<<" } else { ">>" };
    let (number, places) = ints(left, right).ok_or_else(|| unsupported(sign, left, right))?;
    if places < 0 {
        return Err(EvalError::value("negative shift count"));
    }
    if operator == Binary::Shr {
        return Ok(Value::Int(number >> places.min(63)));
    }
    let wide = if number == 0 {
        Some(0)
    } else {
        (places < 64).then(|| i128::from(number) << places)
    };
    checked(wide.and_then(|wide| i64::try_from(wide).ok()))
}
