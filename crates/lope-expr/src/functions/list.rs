//! Functions of lists for text expressions.

use std::collections::HashSet;
use std::sync::Arc;

use lope_model::Value;
use lope_values::{EvalError, Fuel, arithmetic, compare, sort, text};

use super::arguments::{count, given, int, list};
use super::{FunctionEntry, FunctionKind::Function, FunctionKind::Method, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("size", "value", Function, size),
    line("sort", "list", Method, sorted),
    line("reverse", "list", Method, reverse),
    line("distinct", "list", Method, distinct),
    line("flatten", "list, levels=1", Method, flatten),
    line("first", "list", Method, |args, _| {
        Ok(list(&args[0])?.first().cloned().unwrap_or_default())
    }),
    line("last", "list", Method, |args, _| {
        Ok(list(&args[0])?.last().cloned().unwrap_or_default())
    }),
    line("slice", "list, start, end=null", Method, slice),
    line("chunks", "list, size", Method, chunks),
    line("enumerate", "list, start=0", Method, enumerate),
    line("zip", "*lists", Function, zip),
    line("range", "start, stop=null, step=1", Function, range),
    line("sum", "list", Method, sum),
    line("min", "first, *rest", Function, |args, _| {
        extreme(args, compare::Relation::Lt)
    }),
    line("max", "first, *rest", Function, |args, _| {
        extreme(args, compare::Relation::Gt)
    }),
];

fn size(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let length = match &args[0] {
        Value::Str(text) => {
            fuel.spend(text.len() as u64 / 64)?;
            text.chars().count()
        }
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.len(),
        other => {
            text::no_secret(other)?;
            return Err(EvalError::typed(format!(
                "size() takes text, bytes, a list or a map, not {}",
                other.kind()
            )));
        }
    };
    Ok(Value::Int(length as i64))
}

fn sorted(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let items = list(&args[0])?.to_vec();
    fuel.build(items.len())?;
    sort::stable(items, &mut |a, b, _| sort::plain_less(a, b), fuel).map(Value::list)
}

fn reverse(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    if let Value::Str(text) = &args[0] {
        fuel.grow(text.len() as u64)?;
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let items = list(&args[0])?;
    fuel.build(items.len())?;
    Ok(Value::list(items.iter().rev().cloned().collect()))
}

/// A text or a number up to equality: `1` and `1.0` are one.
#[derive(PartialEq, Eq, Hash)]
enum HashKey {
    Int(i64),
    Float(u64),
    Text(Arc<str>),
}

impl HashKey {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Int(number) => Some(Self::Int(*number)),
            Value::Float(number) => Some(Self::float(*number)),
            Value::Str(text) => Some(Self::Text(Arc::clone(text))),
            Value::Null | Value::Bool(_) | Value::Bytes(_) => None,
            Value::List(_) | Value::Map(_) | Value::Tag(_) => None,
        }
    }

    fn float(number: f64) -> Self {
        // Comparing as floats would let 2^63 pass for the largest int.
        if number.fract() == 0.0
            && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number)
        {
            return Self::Int(number as i64);
        }
        Self::Float(number.to_bits())
    }
}

/// Items without later equals. Texts and numbers are found by hashing, the rest by comparing.
fn distinct(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut hashed = HashSet::new();
    let mut compared = Vec::new();
    let mut kept = Vec::new();
    for item in list(&args[0])?.iter() {
        let before = (hashed.len(), compared.len());
        if let Some(key) = HashKey::of(item) {
            fuel.spend(1)?;
            hashed.insert(key);
        } else if !is_among(item, &compared, fuel)? {
            compared.push(item.clone());
        }
        if before != (hashed.len(), compared.len()) {
            fuel.build(1)?;
            kept.push(item.clone());
        }
    }
    Ok(Value::list(kept))
}

fn is_among(item: &Value, known: &[Value], fuel: &mut Fuel) -> Result<bool, EvalError> {
    for other in known {
        fuel.spend(1)?;
        if compare::equal(item, other, fuel)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn flatten(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let levels = given(args, 1).map_or(Ok(1), count)?;
    let mut items = Arc::clone(list(&args[0])?);
    for _ in 0..levels {
        if !items.iter().any(|item| matches!(item, Value::List(_))) {
            break;
        }
        let mut flat = Vec::new();
        for item in items.iter() {
            let part = if let Value::List(part) = item {
                part.as_slice()
            } else {
                std::slice::from_ref(item)
            };
            fuel.build(part.len())?;
            flat.extend_from_slice(part);
        }
        items = Arc::new(flat);
    }
    Ok(Value::List(items))
}

/// Items from `start` up to `end`; what lies outside is left out.
fn slice(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let items = list(&args[0])?;
    let end = given(args, 2)
        .map_or(Ok(items.len()), count)?
        .min(items.len());
    let start = count(&args[1])?.min(end);
    fuel.build(end - start)?;
    Ok(Value::list(items[start..end].to_vec()))
}

fn chunks(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let items = list(&args[0])?;
    let size = count(&args[1])?;
    if size == 0 {
        return Err(EvalError::value("chunks of at least one item expected"));
    }
    fuel.build(items.len() + items.len() / size)?;
    Ok(Value::list(
        items
            .chunks(size)
            .map(|chunk| Value::list(chunk.to_vec()))
            .collect(),
    ))
}

fn enumerate(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let start = given(args, 1).map_or(Ok(0), int)?;
    let items = list(&args[0])?;
    fuel.build(items.len() * 3)?;
    let pair = |(index, item): (usize, &Value)| {
        Ok(Value::list(vec![
            arithmetic::int(start.checked_add(index as i64))?,
            item.clone(),
        ]))
    };
    items
        .iter()
        .enumerate()
        .map(pair)
        .collect::<Result<_, EvalError>>()
        .map(Value::list)
}

fn zip(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let lists: Vec<_> = args.iter().map(list).collect::<Result<_, _>>()?;
    let length = lists.iter().map(|items| items.len()).min().unwrap_or(0);
    fuel.build(length.saturating_mul(lists.len() + 1))?;
    let row = |index: usize| Value::list(lists.iter().map(|items| items[index].clone()).collect());
    Ok(Value::list((0..length).map(row).collect()))
}

fn range(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let (start, stop) = match given(args, 1) {
        Some(stop) => (int(&args[0])?, int(stop)?),
        None => (0, int(&args[0])?),
    };
    let step = given(args, 2).map_or(Ok(1), int)?;
    super::numbers_from(start, stop, step, fuel)
}

fn sum(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut total = Value::Int(0);
    for (index, item) in list(&args[0])?.iter().enumerate() {
        fuel.spend(1)?;
        let spans = index == 0 && matches!(item, Value::Tag(_));
        total = if spans {
            item.clone()
        } else {
            arithmetic::add(&total, item, fuel)?
        };
    }
    Ok(total)
}

/// The least or greatest of the arguments, or of the items of the only one.
fn extreme(args: &mut [Value], order: compare::Relation) -> FunctionResult {
    let items = match args {
        [Value::List(items)] => items.as_slice(),
        _ => &*args,
    };
    let [first, rest @ ..] = items else {
        return Err(EvalError::value("the least or greatest of nothing"));
    };
    let mut best = first;
    for item in rest {
        if compare::ordered(order, item, best)? {
            best = item;
        }
    }
    Ok(best.clone())
}
