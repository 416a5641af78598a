//! Python's displays, slices, unpacking and assignment to parts, as functions from values to
//! values.

use std::borrow::Cow;

use lope_model::Value;
use lope_values::py::{self, Distinct, Pairs, iterate, tuple};
use lope_values::{ErrorKind, EvalError, Fuel};

use super::py_builtin::int;
use super::py_convert::insert_all;
use super::{FunctionEntry, FunctionKind::PyFunction, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("py.iter", "iterable", PyFunction, iter),
    line("py.concat", "*iterables", PyFunction, |args, fuel| {
        concat(args, fuel).map(Value::list)
    }),
    line("py.tuple_of", "*items", PyFunction, tuple_of),
    line("py.set_of", "*items", PyFunction, |args, fuel| {
        Distinct::of(args, fuel).map(Distinct::into_set)
    }),
    line("py.dict_of", "*keys_and_values", PyFunction, dict_of),
    line("py.merge", "*dicts", PyFunction, merge),
    line(
        "py.slice",
        "value, start=None, stop=None, step=None",
        PyFunction,
        |args, fuel| py::slice(&args[0], &args[1..], fuel),
    ),
    line("py.unpack", "value, count, star=None", PyFunction, unpack),
    line("py.set_item", "value, index, item", PyFunction, set_item),
    line(
        "py.set_slice",
        "list, items, start=None, stop=None, step=None",
        PyFunction,
        set_slice,
    ),
    line(
        "py.set_attr",
        "value, name, attribute",
        PyFunction,
        set_attr,
    ),
    line("py.object", "tag, fields, form=None", PyFunction, object),
    line("py.exception", "failure", PyFunction, exception),
    line("py.getattr", "value, name, *default", PyFunction, getattr),
    line("py.hasattr", "value, name", PyFunction, hasattr),
];

/// What a loop runs over, as a list.
fn iter(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    if let Value::List(_) = args[0] {
        return Ok(std::mem::take(&mut args[0]));
    }
    if let Value::Tag(tag) = &args[0]
        && matches!(&*tag.name, py::TUPLE | py::SET | py::FROZENSET)
    {
        return Ok(tag.value.clone());
    }
    iterate(&args[0], fuel).map(|items| Value::list(items.into_owned()))
}

fn concat(args: &mut [Value], fuel: &mut Fuel) -> Result<Vec<Value>, EvalError> {
    let mut all = Vec::new();
    for part in args.iter() {
        let items = iterate(part, fuel)?;
        fuel.build(items.len())?;
        all.extend_from_slice(&items);
    }
    Ok(all)
}

fn tuple_of(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    fuel.build(args.len())?;
    Ok(tuple(args.to_vec()))
}

fn dict_of(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut pairs = Pairs::default();
    for pair in args.chunks(2) {
        let [key, value] = pair else {
            return Err(EvalError::typed("a key without a value"));
        };
        pairs.insert(key.clone(), value.clone(), fuel)?;
    }
    Ok(pairs.into_value())
}

fn merge(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut pairs = Pairs::default();
    for part in args.iter() {
        if py::Dict::of(part).is_none() {
            return Err(EvalError::typed(format!(
                "'{}' object is not a mapping",
                py::type_name(part)
            )));
        }
        insert_all(&mut pairs, part, fuel)?;
    }
    Ok(pairs.into_value())
}

/// The parts for `count` targets as a list; the one at place `star` gets a list of what the others
/// leave.
fn unpack(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let count = usize::try_from(int(&args[1])?)
        .map_err(|_| EvalError::value("a count of targets expected"))?;
    let star = match args.get(2) {
        None | Some(Value::Null) => None,
        Some(index) => Some(usize::try_from(int(index)?).unwrap_or(usize::MAX)),
    };
    if star.is_some_and(|star| star >= count) {
        return Err(EvalError::value(
            "the starred target is not among the targets",
        ));
    }
    py::unpack(&args[0], count, star, fuel).map(Value::list)
}

fn set_item(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let (index, item) = (std::mem::take(&mut args[1]), std::mem::take(&mut args[2]));
    py::set_item(&mut args[0], &index, item, fuel)?;
    Ok(std::mem::take(&mut args[0]))
}

fn set_slice(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let Value::List(whole) = &args[0] else {
        let message = format!(
            "'{}' object does not support item assignment",
            py::type_name(&args[0])
        );
        return Err(EvalError::typed(message));
    };
    let items =
        iterate(&args[1], fuel).map_err(|_| EvalError::typed("can only assign an iterable"))?;
    let (start, stop, step) = py::slice_bounds(whole.len(), &args[2..])?;
    fuel.build(whole.len() + items.len())?;
    let mut changed = whole.to_vec();
    if step == 1 {
        let start = start as usize;
        changed.splice(start..(stop as usize).max(start), items.iter().cloned());
        return Ok(Value::list(changed));
    }
    let mut indexes = Vec::new();
    let mut index = start;
    while (step > 0 && index < stop) || (step < 0 && index > stop) {
        indexes.push(index as usize);
        index = index.saturating_add(step);
    }
    if indexes.len() != items.len() {
        let (found, wanted) = (items.len(), indexes.len());
        let message = format!(
            "attempt to assign sequence of size {found} to extended slice of size {wanted}"
        );
        return Err(EvalError::value(message));
    }
    for (index, item) in indexes.into_iter().zip(items.iter()) {
        changed[index] = item.clone();
    }
    Ok(Value::list(changed))
}

fn set_attr(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let value = std::mem::take(&mut args[2]);
    py::set_attribute(&args[0], &args[1], value, fuel)
}

/// An object of a class by its tag and fields: a dataclass.
fn object(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    fuel.build(1)?;
    match (&args[0], &args[1]) {
        (Value::Str(tag), Value::Map(_)) if !py::is_reserved(tag) => Ok(object_of(tag, args)),
        (Value::Str(tag), Value::Map(_)) => {
            Err(EvalError::value(format!("the tag '{tag}' is reserved")))
        }
        _ => Err(EvalError::typed(
            "an object is made of a tag and its fields",
        )),
    }
}

fn object_of(tag: &str, args: &[Value]) -> Value {
    match args.get(2).and_then(Value::as_str) {
        Some(form) => Value::tag(tag, Value::tag(form, args[1].clone())),
        None => Value::tag(tag, args[1].clone()),
    }
}

/// A failure, as handlers and `gather` get it, as the exception that Python sees.
fn exception(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    fuel.build(1)?;
    match &args[0] {
        Value::Map(failure)
            if failure
                .get("type")
                .is_some_and(|kind| kind.as_str().is_some()) =>
        {
            Ok(Value::tag(py::EXCEPTION, args[0].clone()))
        }
        Value::Tag(tag) if &*tag.name == py::EXCEPTION => Ok(args[0].clone()),
        other => Err(EvalError::typed(format!(
            "a failure expected, not {}",
            py::type_name(other)
        ))),
    }
}

fn getattr(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match (
        py::attribute(Cow::Borrowed(&args[0]), &args[1]),
        args.get(2),
    ) {
        (Err(error), Some(default)) if error.kind == ErrorKind::Attribute => Ok(default.clone()),
        (found, _) => found.map(Cow::into_owned),
    }
}

fn hasattr(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match py::attribute(Cow::Borrowed(&args[0]), &args[1]) {
        Err(error) if error.kind != ErrorKind::Attribute => Err(error),
        found => Ok(Value::Bool(found.is_ok())),
    }
}
