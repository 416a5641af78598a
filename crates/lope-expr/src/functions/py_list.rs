//! Methods of Python's lists and tuples. Those that change a list answer the changed one; `pop`
//! answers both.
//!
//! Names that several types share (`pop`, `copy`, `count`, …) look at what they are called on.

use std::sync::Arc;

use lope_model::Value;
use lope_values::py::{self, Dict, iterate, position, repr};
use lope_values::{ErrorKind, EvalError, Fuel};

use super::arguments::no_method;
use super::py_builtin::int;
use super::{
    FunctionEntry, FunctionKind::PyChange, FunctionKind::PyMethod, FunctionKind::PyTake,
    FunctionResult, line, py_dict, py_set, py_text,
};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("py.m.append", "list, item", PyChange, append),
    line("py.m.extend", "list, items", PyChange, extend),
    line("py.m.insert", "list, index, item", PyChange, insert),
    line("py.m.reverse", "list", PyChange, reverse),
    line("py.m.sort", "list, reverse=False", PyChange, sort),
    line("py.m.remove", "value, item", PyChange, remove),
    line("py.m.clear", "value", PyChange, clear),
    line("py.m.pop", "value, *arguments", PyTake, pop),
    line("py.m.copy", "value", PyMethod, copy),
    line(
        "py.m.count",
        "value, item, start=None, end=None",
        PyMethod,
        count,
    ),
    line(
        "py.m.index",
        "value, item, start=None, end=None",
        PyMethod,
        index,
    ),
];

/// The items of a list to change, as a copy unless nobody else holds them. If that fails, the list
/// stays where it is.
fn taken(args: &mut [Value], name: &str, fuel: &mut Fuel) -> Result<Vec<Value>, EvalError> {
    match &args[0] {
        Value::List(items) => fuel.change(items.len())?,
        other => return Err(no_method(other, name)),
    }
    match std::mem::take(&mut args[0]) {
        Value::List(items) => Ok(Arc::try_unwrap(items).unwrap_or_else(|shared| shared.to_vec())),
        other => Err(no_method(&other, name)),
    }
}

fn append(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut items = taken(args, "append", fuel)?;
    items.push(std::mem::take(&mut args[1]));
    Ok(Value::list(items))
}

fn extend(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    if !matches!(args[0], Value::List(_)) {
        return Err(no_method(&args[0], "extend"));
    }
    let more = iterate(&args[1], fuel)?.into_owned();
    fuel.build(more.len())?;
    let mut items = taken(args, "extend", fuel)?;
    items.extend(more);
    Ok(Value::list(items))
}

fn insert(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let index = int(&args[1])?;
    let mut items = taken(args, "insert", fuel)?;
    let length = items.len() as i64;
    let index = if index < 0 {
        index.saturating_add(length)
    } else {
        index
    }
    .clamp(0, length);
    items.insert(index as usize, std::mem::take(&mut args[2]));
    Ok(Value::list(items))
}

fn reverse(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut items = taken(args, "reverse", fuel)?;
    items.reverse();
    Ok(Value::list(items))
}

fn sort(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    match &args[0] {
        Value::List(_) => super::call("py.sorted", args, fuel),
        other => Err(no_method(other, "sort")),
    }
}

fn remove(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    if py::tagged(&args[0], py::SET).is_some() {
        return py_set::remove(args, fuel);
    }
    let mut items = taken(args, "remove", fuel)?;
    let index = find(&items, &args[1], fuel)?;
    items.remove(index.ok_or_else(|| EvalError::value("list.remove(x): x not in list"))?);
    Ok(Value::list(items))
}

fn find(items: &[Value], wanted: &Value, fuel: &mut Fuel) -> Result<Option<usize>, EvalError> {
    for (index, item) in items.iter().enumerate() {
        fuel.spend(1)?;
        if py::equal(item, wanted, fuel)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn clear(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match &args[0] {
        Value::List(_) => Ok(Value::list(Vec::new())),
        value if py::tagged(value, py::SET).is_some() => {
            Ok(Value::tag(py::SET, Value::list(Vec::new())))
        }
        value if Dict::of(value).is_some() => Ok(Value::map::<&str>([])),
        other => Err(no_method(other, "clear")),
    }
}

fn copy(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    let value = &args[0];
    let copies = matches!(value, Value::List(_))
        || py::tagged(value, py::SET).is_some()
        || Dict::of(value).is_some();
    if copies {
        Ok(value.clone())
    } else {
        Err(no_method(value, "copy"))
    }
}

fn pop(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    if py::tagged(&args[0], py::SET).is_some() {
        return py_set::pop(args, fuel);
    }
    if Dict::of(&args[0]).is_some() {
        return py_dict::pop(args, fuel);
    }
    let index = args.get(1).map_or(Ok(-1), int)?;
    let mut items = taken(args, "pop", fuel)?;
    if items.is_empty() {
        return Err(EvalError::new(ErrorKind::Index, "pop from empty list"));
    }
    let index = position(index, items.len());
    let item = items
        .remove(index.ok_or_else(|| EvalError::new(ErrorKind::Index, "pop index out of range"))?);
    Ok(Value::list(vec![Value::list(items), item]))
}

fn count(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let Some(items) = py::sequence(&args[0]) else {
        return if let Value::Str(_) = args[0] {
            py_text::count(args, fuel)
        } else {
            Err(no_method(&args[0], "count"))
        };
    };
    let mut found = 0;
    for item in items.iter() {
        fuel.spend(1)?;
        found += i64::from(py::equal(item, &args[1], fuel)?);
    }
    Ok(Value::Int(found))
}

fn index(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let Some(items) = py::sequence(&args[0]) else {
        return if let Value::Str(_) = args[0] {
            py_text::index(args, fuel)
        } else {
            Err(no_method(&args[0], "index"))
        };
    };
    let (start, stop, _) = py::slice_bounds(items.len(), &args[2..])?;
    let part = items.get(start as usize..stop as usize).unwrap_or_default();
    match find(part, &args[1], fuel)? {
        Some(index) => Ok(Value::Int(start + index as i64)),
        None if py::tagged(&args[0], py::TUPLE).is_some() => {
            Err(EvalError::value("tuple.index(x): x not in tuple"))
        }
        None => Err(EvalError::value(format!(
            "{} is not in list",
            repr(&args[1], fuel)?
        ))),
    }
}
