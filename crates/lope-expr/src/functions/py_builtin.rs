//! Python's built-in functions over numbers and iterables. Where Python answers an iterator the
//! answer is a list; keys of `sorted`, `min` and `max` come in as a list of their own, made by a
//! comprehension.

use std::borrow::Cow;

use lope_model::Value;
use lope_values::py::{self, iterate, truth, tuple, type_name};
use lope_values::{ErrorKind, EvalError, Fuel, number, sort, text};

use super::arguments::given;
use super::{FunctionEntry, FunctionKind::PyFunction, FunctionResult, line, numbers_from};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("py.len", "value", PyFunction, |args, _| {
        py::length(&args[0]).map(|length| Value::Int(length as i64))
    }),
    line("py.range", "start, stop=None, step=1", PyFunction, range),
    line("py.enumerate", "iterable, start=0", PyFunction, enumerate),
    line("py.zip", "*iterables", PyFunction, |args, fuel| {
        zip(args, fuel, false)
    }),
    line("py.zip_strict", "*iterables", PyFunction, |args, fuel| {
        zip(args, fuel, true)
    }),
    line("py.min", "first, *rest", PyFunction, |args, fuel| {
        extreme("min", args, fuel)
    }),
    line("py.max", "first, *rest", PyFunction, |args, fuel| {
        extreme("max", args, fuel)
    }),
    line(
        "py.min_or",
        "iterable, default",
        PyFunction,
        |args, fuel| extreme_or("min", args, fuel),
    ),
    line(
        "py.max_or",
        "iterable, default",
        PyFunction,
        |args, fuel| extreme_or("max", args, fuel),
    ),
    line(
        "py.min_by",
        "items, keys, *default",
        PyFunction,
        |args, fuel| extreme_by("min", args, fuel),
    ),
    line(
        "py.max_by",
        "items, keys, *default",
        PyFunction,
        |args, fuel| extreme_by("max", args, fuel),
    ),
    line("py.sum", "iterable, start=0", PyFunction, sum),
    line("py.sorted", "iterable, reverse=False", PyFunction, sorted),
    line(
        "py.sort_by",
        "items, keys, reverse=False",
        PyFunction,
        sort_by,
    ),
    line("py.reversed", "sequence", PyFunction, reversed),
    line("py.any", "iterable", PyFunction, |args, fuel| {
        stops_at(args, fuel, true)
    }),
    line("py.all", "iterable", PyFunction, |args, fuel| {
        stops_at(args, fuel, false)
    }),
    line("py.abs", "number", PyFunction, abs),
    line("py.round", "number, ndigits=None", PyFunction, round),
    line("py.divmod", "a, b", PyFunction, divmod),
    line("py.pow", "base, exp, mod=None", PyFunction, pow),
];

/// An int argument, with Python's complaint about anything else.
pub(super) fn int(value: &Value) -> Result<i64, EvalError> {
    let wrong = || {
        let secret = text::no_secret(value).err();
        secret.unwrap_or_else(|| {
            EvalError::typed(format!(
                "'{}' object cannot be interpreted as an integer",
                type_name(value)
            ))
        })
    };
    py::int(value).ok_or_else(wrong)
}

fn range(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let step = given(args, 2).map_or(Ok(1), int)?;
    match given(args, 1) {
        Some(stop) => numbers_from(int(&args[0])?, int(stop)?, step, fuel),
        None => numbers_from(0, int(&args[0])?, step, fuel),
    }
}

fn enumerate(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let start = given(args, 1).map_or(Ok(0), int)?;
    let items = iterate(&args[0], fuel)?;
    fuel.build(items.len() * 3)?;
    let pair = |(index, item): (usize, &Value)| {
        let number = start
            .checked_add(index as i64)
            .ok_or_else(EvalError::overflow)?;
        Ok(tuple(vec![Value::Int(number), item.clone()]))
    };
    items
        .iter()
        .enumerate()
        .map(pair)
        .collect::<Result<_, EvalError>>()
        .map(Value::list)
}

fn zip(args: &mut [Value], fuel: &mut Fuel, strict: bool) -> FunctionResult {
    let rows: Vec<_> = args
        .iter()
        .map(|iterable| iterate(iterable, fuel))
        .collect::<Result<_, _>>()?;
    let length = rows.iter().map(|items| items.len()).min().unwrap_or(0);
    if strict && let Some(index) = rows.iter().position(|items| items.len() != rows[0].len()) {
        let longer = if rows[index].len() > rows[0].len() {
            "longer"
        } else {
            "shorter"
        };
        let others = if index == 1 {
            "argument 1".to_owned()
        } else {
            format!("arguments 1-{index}")
        };
        return Err(EvalError::value(format!(
            "zip() argument {} is {longer} than {others}",
            index + 1
        )));
    }
    fuel.build(length.saturating_mul(rows.len() + 1))?;
    let row = |index: usize| tuple(rows.iter().map(|items| items[index].clone()).collect());
    Ok(Value::list((0..length).map(row).collect()))
}

/// The place of the least or greatest key; the first of equals.
fn best(name: &str, keys: &[Value], fuel: &mut Fuel) -> Result<Option<usize>, EvalError> {
    let mut best = None;
    for (index, key) in keys.iter().enumerate() {
        fuel.spend(1)?;
        best = match best {
            None => Some(index),
            Some(held) => {
                let (left, right) = if name == "min" {
                    (key, &keys[held])
                } else {
                    (&keys[held], key)
                };
                Some(if better(name, left, right, fuel)? {
                    index
                } else {
                    held
                })
            }
        };
    }
    Ok(best)
}

fn better(name: &str, left: &Value, right: &Value, fuel: &mut Fuel) -> Result<bool, EvalError> {
    // `max` asks `key > held`, whose error names the operands in that order.
    if name == "min" {
        py::less(left, right, fuel)
    } else {
        py::ordered(lope_values::compare::Relation::Gt, right, left, fuel)
    }
}

fn extreme(name: &str, args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let items = if let [only] = args {
        iterate(only, fuel)?
    } else {
        Cow::Borrowed(&*args)
    };
    match best(name, &items, fuel)? {
        Some(index) => Ok(items[index].clone()),
        None => Err(EvalError::value(format!(
            "{name}() arg is an empty sequence"
        ))),
    }
}

fn extreme_or(name: &str, args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let items = iterate(&args[0], fuel)?;
    Ok(best(name, &items, fuel)?.map_or_else(|| args[1].clone(), |index| items[index].clone()))
}

fn extreme_by(name: &str, args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let items = iterate(&args[0], fuel)?;
    let keys = iterate(&args[1], fuel)?;
    same_length(&items, &keys)?;
    match (best(name, &keys, fuel)?, args.get(2)) {
        (Some(index), _) => Ok(items[index].clone()),
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => Err(EvalError::value(format!(
            "{name}() arg is an empty sequence"
        ))),
    }
}

fn same_length(items: &[Value], keys: &[Value]) -> Result<(), EvalError> {
    if items.len() == keys.len() {
        Ok(())
    } else {
        Err(EvalError::value("one key for each item expected"))
    }
}

fn sum(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut total = args.get(1).cloned().unwrap_or(Value::Int(0));
    if matches!(total, Value::Str(_)) {
        return Err(EvalError::typed(
            "sum() can't sum strings [use ''.join(seq) instead]",
        ));
    }
    for item in iterate(&args[0], fuel)?.iter() {
        fuel.spend(1)?;
        total = py::add(&total, item, fuel)?;
    }
    Ok(total)
}

fn sorted(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let reverse = args.get(1).map_or(Ok(false), truth)?;
    let items = iterate(&args[0], fuel)?.into_owned();
    let keyed = items.into_iter().map(|item| (item.clone(), item)).collect();
    by_key(keyed, reverse, fuel)
}

fn sort_by(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let reverse = args.get(2).map_or(Ok(false), truth)?;
    let items = iterate(&args[0], fuel)?;
    let keys = iterate(&args[1], fuel)?;
    same_length(&items, &keys)?;
    by_key(
        keys.iter().cloned().zip(items.iter().cloned()).collect(),
        reverse,
        fuel,
    )
}

/// Stable in both directions: reversed, equal items still keep their order.
fn by_key(mut keyed: Vec<(Value, Value)>, reverse: bool, fuel: &mut Fuel) -> FunctionResult {
    fuel.build(keyed.len())?;
    if reverse {
        keyed.reverse();
    }
    let mut sorted = sort::stable(keyed, &mut |a, b, fuel| py::less(&a.0, &b.0, fuel), fuel)?;
    if reverse {
        sorted.reverse();
    }
    Ok(Value::list(
        sorted.into_iter().map(|(_, item)| item).collect(),
    ))
}

fn reversed(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    if py::tagged(&args[0], py::SET).is_some() {
        return Err(EvalError::typed("'set' object is not reversible"));
    }
    let items = iterate(&args[0], fuel).map_err(|error| match error.kind {
        ErrorKind::Type => EvalError::typed(format!(
            "'{}' object is not reversible",
            type_name(&args[0])
        )),
        _ => error,
    })?;
    fuel.build(items.len())?;
    Ok(Value::list(items.iter().rev().cloned().collect()))
}

fn stops_at(args: &mut [Value], fuel: &mut Fuel, wanted: bool) -> FunctionResult {
    for item in iterate(&args[0], fuel)?.iter() {
        fuel.spend(1)?;
        if truth(item)? == wanted {
            return Ok(Value::Bool(wanted));
        }
    }
    Ok(Value::Bool(!wanted))
}

fn abs(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match (py::int(&args[0]), &args[0]) {
        (Some(number), _) => number
            .checked_abs()
            .map(Value::Int)
            .ok_or_else(EvalError::overflow),
        (None, Value::Float(number)) => Ok(Value::Float(number.abs())),
        (None, other) => {
            text::no_secret(other)?;
            Err(EvalError::typed(format!(
                "bad operand type for abs(): '{}'",
                type_name(other)
            )))
        }
    }
}

fn round(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    if py::float(&args[0]).is_none() {
        text::no_secret(&args[0])?;
        return Err(EvalError::typed(format!(
            "type {} doesn't define __round__ method",
            type_name(&args[0])
        )));
    }
    let places = given(args, 1).map(int).transpose()?;
    match (py::int(&args[0]), &args[0], places) {
        (Some(number), _, None | Some(0..)) => Ok(Value::Int(number)),
        (Some(number), _, Some(places)) => round_int(number, places.unsigned_abs()),
        (None, Value::Float(number), None) => {
            lope_values::number::float_to_int(number.round_ties_even())
        }
        (None, Value::Float(number), Some(places)) => {
            let rounded = number::round_to(*number, places);
            if rounded.is_infinite() && number.is_finite() {
                return Err(EvalError::new(
                    ErrorKind::Overflow,
                    "rounded value too large to represent",
                ));
            }
            Ok(Value::Float(rounded))
        }
        (None, other, _) => Err(EvalError::typed(format!(
            "'{}' is no number",
            type_name(other)
        ))),
    }
}

/// To a multiple of a power of ten, ties to the even one.
fn round_int(number: i64, power: u64) -> FunctionResult {
    let Some(unit) = u32::try_from(power)
        .ok()
        .and_then(|power| 10_i128.checked_pow(power))
    else {
        return Ok(Value::Int(0));
    };
    let number = i128::from(number);
    let floor = number.div_euclid(unit);
    let rest = number.rem_euclid(unit);
    let up = rest * 2 > unit || (rest * 2 == unit && floor % 2 != 0);
    i64::try_from((floor + i128::from(up)) * unit)
        .map(Value::Int)
        .map_err(|_| EvalError::overflow())
}

fn divmod(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let (Some(_), Some(b)) = (py::float(&args[0]), py::float(&args[1])) else {
        args.iter().try_for_each(text::no_secret)?;
        let (left, right) = (type_name(&args[0]), type_name(&args[1]));
        return Err(EvalError::typed(format!(
            "unsupported operand type(s) for divmod(): '{left}' and '{right}'"
        )));
    };
    let floats = args.iter().any(|number| matches!(number, Value::Float(_)));
    if floats && b == 0.0 {
        return Err(EvalError::new(ErrorKind::ZeroDivision, "float divmod()"));
    }
    let quotient = py::floor_divide(&args[0], &args[1])?;
    Ok(tuple(vec![quotient, py::modulo(&args[0], &args[1], fuel)?]))
}

fn pow(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    let Some(modulus) = given(args, 2) else {
        return py::raise(&args[0], &args[1]);
    };
    let (base, exponent, modulus) = (int(&args[0])?, int(&args[1])?, int(modulus)?);
    if modulus == 0 {
        return Err(EvalError::value("pow() 3rd argument cannot be 0"));
    }
    if exponent < 0 {
        return Err(EvalError::value(
            "pow() with a modulus takes no negative exponent here",
        ));
    }
    let size = i128::from(modulus).abs();
    let mut answer = 1 % size;
    let mut power = i128::from(base).rem_euclid(size);
    let mut left = exponent;
    while left > 0 {
        if left % 2 == 1 {
            answer = answer * power % size;
        }
        power = power * power % size;
        left /= 2;
    }
    let signed = if modulus < 0 && answer != 0 {
        answer - size
    } else {
        answer
    };
    i64::try_from(signed)
        .map(Value::Int)
        .map_err(|_| EvalError::overflow())
}
