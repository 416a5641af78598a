//! Functions of maps for text expressions.

use std::sync::Arc;

use lope_model::{Map, Value};
use lope_values::Fuel;

use super::arguments::{given, map, text};
use super::{FunctionEntry, FunctionKind::Function, FunctionKind::Method, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("keys", "map", Method, keys),
    line("values", "map", Method, values),
    line("entries", "map", Method, entries),
    line("merge", "*maps", Function, merge),
    line("get", "map, key, default=null", Method, get),
];

fn keys(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let map = map(&args[0])?;
    fuel.build(map.len())?;
    Ok(Value::list(
        map.keys().map(|key| Value::Str(Arc::clone(key))).collect(),
    ))
}

fn values(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let map = map(&args[0])?;
    fuel.build(map.len())?;
    Ok(Value::list(map.values().cloned().collect()))
}

/// `[{key, value}…]`, to loop over.
fn entries(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let map = map(&args[0])?;
    fuel.build(map.len() * 3)?;
    let entry = |(key, value): (&Arc<str>, &Value)| {
        Value::map([
            ("key", Value::Str(Arc::clone(key))),
            ("value", value.clone()),
        ])
    };
    Ok(Value::list(map.iter().map(entry).collect()))
}

/// All entries; of equal keys the last one's value counts.
fn merge(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut merged = Map::new();
    for argument in args.iter() {
        let map = map(argument)?;
        fuel.build(map.len())?;
        merged.extend(
            map.iter()
                .map(|(key, value)| (Arc::clone(key), value.clone())),
        );
    }
    Ok(Value::Map(Arc::new(merged)))
}

fn get(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    let found = map(&args[0])?.get(text(&args[1])?);
    Ok(found.or(given(args, 2)).cloned().unwrap_or_default())
}
