//! Functions of numbers for text expressions.

use lope_model::Value;
use lope_values::{EvalError, Fuel, arithmetic, number, text};

use super::arguments::{given, int};
use super::{FunctionEntry, FunctionKind::Function, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("abs", "number", Function, abs),
    line("round", "number, places=null", Function, round),
    line("floor", "number", Function, |args, _| {
        whole(&args[0], f64::floor)
    }),
    line("ceil", "number", Function, |args, _| {
        whole(&args[0], f64::ceil)
    }),
    line("trunc", "number", Function, |args, _| {
        whole(&args[0], f64::trunc)
    }),
    line("sqrt", "number", Function, sqrt),
];

fn not_a_number(value: &Value) -> EvalError {
    text::no_secret(value)
        .err()
        .unwrap_or_else(|| EvalError::typed(format!("a number expected, not {}", value.kind())))
}

fn abs(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match &args[0] {
        Value::Int(number) => arithmetic::int(number.checked_abs()),
        Value::Float(number) => Ok(Value::Float(number.abs())),
        other => Err(not_a_number(other)),
    }
}

/// Without places to an int, with places to a float; ties go to the even digit.
fn round(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match (&args[0], given(args, 1)) {
        (Value::Int(_), None) => Ok(args[0].clone()),
        (value, None) => whole(value, f64::round_ties_even),
        (value, Some(places)) => {
            let number = arithmetic::float(value).ok_or_else(|| not_a_number(value))?;
            Ok(Value::Float(number::round_to(number, int(places)?)))
        }
    }
}

fn whole(value: &Value, change: impl Fn(f64) -> f64) -> FunctionResult {
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Float(number) => lope_values::number::float_to_int(change(*number)),
        other => Err(not_a_number(other)),
    }
}

fn sqrt(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    let number = arithmetic::float(&args[0]).ok_or_else(|| not_a_number(&args[0]))?;
    if number < 0.0 {
        return Err(EvalError::value("the square root of a negative number"));
    }
    Ok(Value::Float(number.sqrt()))
}
