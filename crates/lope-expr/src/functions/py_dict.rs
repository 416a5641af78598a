//! Methods of Python's dicts. Those that change a dict answer the changed one, those that also give
//! something both.

use lope_model::Value;
use lope_values::py::{self, Dict, Pairs, repr, tuple};
use lope_values::{ErrorKind, EvalError, Fuel};

use super::arguments::no_method;
use super::py_convert::insert_all;
use super::{
    FunctionEntry, FunctionKind::PyChange, FunctionKind::PyMethod, FunctionKind::PyTake,
    FunctionResult, line, py_set,
};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("py.m.get", "dict, key, default=None", PyMethod, get),
    line("py.m.keys", "dict", PyMethod, |args, fuel| {
        listed(args, fuel, "keys", |key, _| key)
    }),
    line("py.m.values", "dict", PyMethod, |args, fuel| {
        listed(args, fuel, "values", |_, value| value)
    }),
    line("py.m.items", "dict", PyMethod, |args, fuel| {
        listed(args, fuel, "items", |key, value| tuple(vec![key, value]))
    }),
    line("py.m.popitem", "dict", PyTake, popitem),
    line(
        "py.m.setdefault",
        "dict, key, default=None",
        PyTake,
        setdefault,
    ),
    line("py.m.update", "value, *others", PyChange, update),
];

fn dict<'v>(value: &'v Value, name: &str) -> Result<Dict<'v>, EvalError> {
    Dict::of(value).ok_or_else(|| no_method(value, name))
}

fn get(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let found = dict(&args[0], "get")?.get(&args[1], fuel)?;
    Ok(found.or(args.get(2)).cloned().unwrap_or_default())
}

fn listed(
    args: &mut [Value],
    fuel: &mut Fuel,
    name: &str,
    pick: impl Fn(Value, Value) -> Value,
) -> FunctionResult {
    let dict = dict(&args[0], name)?;
    fuel.build(dict.len() * 3)?;
    Ok(Value::list(
        dict.iter()
            .map(|(key, value)| pick(key.into_owned(), value.clone()))
            .collect(),
    ))
}

/// The changed dict and what was asked for.
fn both(pairs: Pairs, answer: Value) -> Value {
    Value::list(vec![pairs.into_value(), answer])
}

pub(super) fn pop(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let key = args
        .get(1)
        .ok_or_else(|| EvalError::typed("pop expected at least 1 argument, got 0"))?;
    let mut pairs = Pairs::of(dict(&args[0], "pop")?, fuel)?;
    match (pairs.remove(key, fuel)?, args.get(2)) {
        (Some(value), _) => Ok(both(pairs, value)),
        (None, Some(default)) => Ok(both(pairs, default.clone())),
        (None, None) => Err(EvalError::missing(key, repr(key, fuel)?)),
    }
}

fn popitem(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut pairs = Pairs::of(dict(&args[0], "popitem")?, fuel)?;
    match pairs.remove_last(fuel)? {
        Some((key, value)) => Ok(both(pairs, tuple(vec![key, value]))),
        None => Err(EvalError::new(
            ErrorKind::Key,
            "'popitem(): dictionary is empty'",
        )),
    }
}

fn setdefault(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let whole = dict(&args[0], "setdefault")?;
    if let Some(value) = whole.get(&args[1], fuel)? {
        return Ok(Value::list(vec![args[0].clone(), value.clone()]));
    }
    let default = args.get(2).cloned().unwrap_or_default();
    let mut pairs = Pairs::of(whole, fuel)?;
    pairs.insert(args[1].clone(), default.clone(), fuel)?;
    Ok(both(pairs, default))
}

fn update(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    if py::tagged(&args[0], py::SET).is_some() {
        return py_set::update(args, fuel);
    }
    let mut pairs = Pairs::of(dict(&args[0], "update")?, fuel)?;
    for other in &args[1..] {
        insert_all(&mut pairs, other, fuel)?;
    }
    Ok(pairs.into_value())
}
