//! Functions of maps for text expressions.

use std::sync::Arc;

use lope_model::{Map, Value};

use super::arguments::{given, map, text};
use super::{Entry, Kind::Function, Kind::Method, line};
use crate::expr::error::EvalError;
use crate::expr::fuel::Fuel;

pub(super) const TABLE: &[Entry] = &[
    line("keys", "map", Method, keys),
    line("values", "map", Method, values),
    line("entries", "map", Method, entries),
    line("merge", "*maps", Function, merge),
    line("get", "map, key, default=null", Method, get),
];

type Answer = Result<Value, EvalError>;

fn keys(args: &mut [Value], fuel: &mut Fuel) -> Answer {
    let map = map(&args[0])?;
    fuel.build(map.len())?;
    Ok(Value::list(map.keys().map(|key| Value::Str(Arc::clone(key))).collect()))
}

fn values(args: &mut [Value], fuel: &mut Fuel) -> Answer {
    let map = map(&args[0])?;
    fuel.build(map.len())?;
    Ok(Value::list(map.values().cloned().collect()))
}

/// `[{key, value}…]`, to loop over.
fn entries(args: &mut [Value], fuel: &mut Fuel) -> Answer {
    let map = map(&args[0])?;
    fuel.build(map.len() * 3)?;
    let entry = |(key, value): (&Arc<str>, &Value)| {
        Value::map([("key", Value::Str(Arc::clone(key))), ("value", value.clone())])
    };
    Ok(Value::list(map.iter().map(entry).collect()))
}

/// All entries; of equal keys the last one's value counts.
fn merge(args: &mut [Value], fuel: &mut Fuel) -> Answer {
    let mut merged = Map::new();
    for argument in args.iter() {
        let map = map(argument)?;
        fuel.build(map.len())?;
        merged.extend(map.iter().map(|(key, value)| (Arc::clone(key), value.clone())));
    }
    Ok(Value::Map(Arc::new(merged)))
}

fn get(args: &mut [Value], _: &mut Fuel) -> Answer {
    let found = map(&args[0])?.get(text(&args[1])?);
    Ok(found.or(given(args, 2)).cloned().unwrap_or_default())
}
