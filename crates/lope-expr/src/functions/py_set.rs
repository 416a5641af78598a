//! Methods of Python's sets. A set keeps its items in the order they came, so that iterating is the
//! same everywhere.

use lope_model::Value;
use lope_values::py::{self, Distinct, HashKey, iterate, repr};
use lope_values::{ErrorKind, EvalError, Fuel};

use super::arguments::no_method;
use super::{FunctionEntry, FunctionKind::PyChange, FunctionKind::PyMethod, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("py.m.add", "set, item", PyChange, add),
    line("py.m.discard", "set, item", PyChange, discard),
    line("py.m.union", "set, *others", PyMethod, |args, fuel| {
        joined(args, fuel, "union")
    }),
    line(
        "py.m.intersection",
        "set, *others",
        PyMethod,
        |args, fuel| kept(args, fuel, "intersection", true),
    ),
    line("py.m.difference", "set, *others", PyMethod, |args, fuel| {
        kept(args, fuel, "difference", false)
    }),
    line(
        "py.m.symmetric_difference",
        "set, other",
        PyMethod,
        symmetric_difference,
    ),
    line(
        "py.m.intersection_update",
        "set, *others",
        PyChange,
        |args, fuel| kept(args, fuel, "intersection_update", true),
    ),
    line(
        "py.m.difference_update",
        "set, *others",
        PyChange,
        |args, fuel| kept(args, fuel, "difference_update", false),
    ),
    line("py.m.issubset", "set, other", PyMethod, issubset),
    line("py.m.issuperset", "set, other", PyMethod, issuperset),
    line("py.m.isdisjoint", "set, other", PyMethod, isdisjoint),
];

fn items<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], EvalError> {
    py::tagged(value, py::SET)
        .map(|items| items.as_slice())
        .ok_or_else(|| no_method(value, name))
}

fn distinct(value: &Value, fuel: &mut Fuel) -> Result<Distinct, EvalError> {
    let items = iterate(value, fuel)?;
    Distinct::of(&items, fuel)
}

fn add(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut set = Distinct::of(items(&args[0], "add")?, fuel)?;
    set.add(&args[1], fuel)?;
    Ok(set.into_set())
}

/// The set without an item, and whether it was there.
fn without(set: &[Value], item: &Value, fuel: &mut Fuel) -> Result<(Value, bool), EvalError> {
    let wanted = HashKey::of(item, fuel)?;
    let mut left = Vec::new();
    for item in set {
        if HashKey::of(item, fuel)? != wanted {
            left.push(item.clone());
        }
    }
    fuel.build(left.len())?;
    let found = left.len() < set.len();
    Ok((Value::tag(py::SET, Value::list(left)), found))
}

fn discard(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    without(items(&args[0], "discard")?, &args[1], fuel).map(|(set, _)| set)
}

pub(super) fn remove(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    match without(items(&args[0], "remove")?, &args[1], fuel)? {
        (set, true) => Ok(set),
        (_, false) => Err(EvalError::missing(&args[1], repr(&args[1], fuel)?)),
    }
}

/// Python takes any item; here it is the first.
pub(super) fn pop(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let set = items(&args[0], "pop")?;
    let Some((first, rest)) = set.split_first() else {
        return Err(EvalError::new(ErrorKind::Key, "'pop from an empty set'"));
    };
    fuel.build(rest.len())?;
    Ok(Value::list(vec![
        Value::tag(py::SET, Value::list(rest.to_vec())),
        first.clone(),
    ]))
}

pub(super) fn update(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    joined(args, fuel, "update")
}

fn joined(args: &mut [Value], fuel: &mut Fuel, name: &str) -> FunctionResult {
    let mut all = Distinct::of(items(&args[0], name)?, fuel)?;
    for other in &args[1..] {
        let more = iterate(other, fuel)?;
        more.iter().try_for_each(|item| all.add(item, fuel))?;
    }
    Ok(all.into_set())
}

/// The items that are in all others, or in none of them.
fn kept(args: &mut [Value], fuel: &mut Fuel, name: &str, wanted: bool) -> FunctionResult {
    let set = items(&args[0], name)?;
    let others: Vec<Distinct> = args[1..]
        .iter()
        .map(|other| distinct(other, fuel))
        .collect::<Result<_, _>>()?;
    let mut kept = Distinct::default();
    for item in set {
        let mut keep = true;
        for other in &others {
            keep &= other.has(item, fuel)? == wanted;
        }
        if keep {
            kept.add(item, fuel)?;
        }
    }
    Ok(kept.into_set())
}

fn symmetric_difference(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let set = Distinct::of(items(&args[0], "symmetric_difference")?, fuel)?;
    let other = distinct(&args[1], fuel)?;
    let mut one = Distinct::default();
    for (items, against) in [(&set.items, &other), (&other.items, &set)] {
        for item in items {
            if !against.has(item, fuel)? {
                one.add(item, fuel)?;
            }
        }
    }
    Ok(one.into_set())
}

fn all_in(part: &[Value], whole: &Distinct, fuel: &mut Fuel) -> FunctionResult {
    for item in part {
        if !whole.has(item, fuel)? {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn issubset(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let part = items(&args[0], "issubset")?;
    let whole = distinct(&args[1], fuel)?;
    all_in(part, &whole, fuel)
}

fn issuperset(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let whole = Distinct::of(items(&args[0], "issuperset")?, fuel)?;
    let part = distinct(&args[1], fuel)?;
    all_in(&part.items, &whole, fuel)
}

fn isdisjoint(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let set = Distinct::of(items(&args[0], "isdisjoint")?, fuel)?;
    for item in iterate(&args[1], fuel)?.iter() {
        if set.has(item, fuel)? {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}
