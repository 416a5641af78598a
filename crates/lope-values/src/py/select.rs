//! Parts of values as Python reaches them: attributes, indexes from either end, slices, unpacking;
//! and values with one part replaced, which is what assignment to a part means here.

use std::borrow::Cow;
use std::sync::Arc;

use lope_model::Value;

use super::object::{Form, exception_args, object, with_fields};
use super::{Dict, EXCEPTION, Pairs, int, iterate, repr, sequence, tuple, type_name};
use crate::error::{ErrorKind, EvalError};
use crate::fuel::Fuel;
use crate::select::part;
use crate::text;

pub fn attribute<'a>(whole: Cow<'a, Value>, name: &Value) -> Result<Cow<'a, Value>, EvalError> {
    let name = name
        .as_str()
        .ok_or_else(|| EvalError::typed("the name of an attribute is text"))?;
    if let Value::Tag(tag) = &*whole
        && &*tag.name == EXCEPTION
        && name == "args"
    {
        return Ok(Cow::Owned(tuple(exception_args(&tag.value))));
    }
    part(whole, |whole| {
        text::no_secret(whole)?;
        let found = match whole {
            Value::Tag(tag) if &*tag.name == EXCEPTION => tag
                .value
                .get("detail")
                .and_then(|detail| detail.get("attributes"))
                .and_then(|all| all.get(name)),
            _ => object(whole).and_then(|(_, fields)| fields.get(name)),
        };
        found.ok_or_else(|| {
            let message = format!("'{}' object has no attribute '{name}'", type_name(whole));
            EvalError::new(ErrorKind::Attribute, message)
        })
    })
}

/// Where an index points, counted from either end.
pub fn position(index: i64, len: usize) -> Option<usize> {
    let from_start = if index < 0 {
        index.checked_add(len as i64)?
    } else {
        index
    };
    usize::try_from(from_start)
        .ok()
        .filter(|index| *index < len)
}

pub fn index<'a>(
    whole: Cow<'a, Value>,
    index: &Value,
    fuel: &mut Fuel,
) -> Result<Cow<'a, Value>, EvalError> {
    match &*whole {
        Value::Str(text) => char_at(text, index, fuel).map(Cow::Owned),
        Value::Bytes(bytes) => {
            let index = position(needed(index, "byte")?, bytes.len())
                .ok_or_else(|| out_of_range("index"))?;
            Ok(Cow::Owned(Value::Int(bytes[index].into())))
        }
        _ => part(whole, |whole| item(whole, index, fuel)),
    }
}

fn item<'v>(whole: &'v Value, index: &Value, fuel: &mut Fuel) -> Result<&'v Value, EvalError> {
    if let Some(items) = sequence(whole) {
        let kind = type_name(whole);
        let index = position(needed(index, kind)?, items.len());
        return index
            .map(|index| &items[index])
            .ok_or_else(|| out_of_range(&format!("{kind} index")));
    }
    text::no_secret(whole)?;
    let Some(dict) = Dict::of(whole) else {
        return Err(EvalError::typed(format!(
            "'{}' object is not subscriptable",
            type_name(whole)
        )));
    };
    match dict.get(index, fuel)? {
        Some(value) => Ok(value),
        None => Err(EvalError::missing(index, repr(index, fuel)?)),
    }
}

fn needed(index: &Value, kind: &str) -> Result<i64, EvalError> {
    let wrong = || {
        EvalError::typed(format!(
            "{kind} indices must be integers or slices, not {}",
            type_name(index)
        ))
    };
    int(index).ok_or_else(wrong)
}

fn out_of_range(what: &str) -> EvalError {
    EvalError::new(ErrorKind::Index, format!("{what} out of range"))
}

fn char_at(text: &str, index: &Value, fuel: &mut Fuel) -> Result<Value, EvalError> {
    let wrong = || {
        EvalError::typed(format!(
            "string indices must be integers, not '{}'",
            type_name(index)
        ))
    };
    let index = int(index).ok_or_else(wrong)?;
    fuel.spend(text.len() as u64 / 16)?;
    let index =
        position(index, text.chars().count()).ok_or_else(|| out_of_range("string index"))?;
    let found = text
        .chars()
        .nth(index)
        .ok_or_else(|| out_of_range("string index"))?;
    Ok(Value::str(found.encode_utf8(&mut [0; 4])))
}

/// The places that a slice names, in its order.
pub fn slice_bounds(len: usize, parts: &[Value]) -> Result<(i64, i64, i64), EvalError> {
    let [start, stop, step] = [0, 1, 2].map(|index| parts.get(index).unwrap_or(&Value::Null));
    let step = slice_part(step)?.unwrap_or(1);
    if step == 0 {
        return Err(EvalError::value("slice step cannot be zero"));
    }
    let len = len as i64;
    let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clamp = |bound: i64| {
        if bound < 0 {
            bound.saturating_add(len)
        } else {
            bound
        }
        .clamp(lowest, highest)
    };
    let start = slice_part(start)?.map_or(if step > 0 { lowest } else { highest }, clamp);
    let stop = slice_part(stop)?.map_or(if step > 0 { highest } else { lowest }, clamp);
    Ok((start, stop, step))
}

fn slice_part(value: &Value) -> Result<Option<i64>, EvalError> {
    match value {
        Value::Null => Ok(None),
        _ => match int(value) {
            Some(number) => Ok(Some(number)),
            None => Err(EvalError::typed(
                "slice indices must be integers or None or have an __index__ method",
            )),
        },
    }
}

fn pick<T: Clone>(items: &[T], (start, stop, step): (i64, i64, i64)) -> Vec<T> {
    let mut picked = Vec::new();
    let mut index = start;
    while (step > 0 && index < stop) || (step < 0 && index > stop) {
        picked.extend(
            usize::try_from(index)
                .ok()
                .and_then(|index| items.get(index))
                .cloned(),
        );
        index = index.saturating_add(step);
    }
    picked
}

/// `whole[start:stop:step]`.
pub fn slice(whole: &Value, parts: &[Value], fuel: &mut Fuel) -> Result<Value, EvalError> {
    match whole {
        Value::Str(text) => {
            fuel.grow(text.len() as u64)?;
            let chars: Vec<char> = text.chars().collect();
            Ok(Value::from(
                pick(&chars, slice_bounds(chars.len(), parts)?)
                    .into_iter()
                    .collect::<String>(),
            ))
        }
        Value::Bytes(bytes) => {
            fuel.grow(bytes.len() as u64)?;
            Ok(Value::bytes(pick(bytes, slice_bounds(bytes.len(), parts)?)))
        }
        _ => {
            let Some(items) = sequence(whole) else {
                text::no_secret(whole)?;
                let hashed = Dict::of(whole).map(|_| "unhashable type: 'slice'".to_owned());
                let message = hashed.unwrap_or_else(|| {
                    format!("'{}' object is not subscriptable", type_name(whole))
                });
                return Err(EvalError::typed(message));
            };
            let picked = pick(items, slice_bounds(items.len(), parts)?);
            fuel.build(picked.len())?;
            Ok(if let Value::Tag(_) = whole {
                tuple(picked)
            } else {
                Value::list(picked)
            })
        }
    }
}

/// `whole[index] = value`, as the value that `whole` then has.
pub fn set_item(
    whole: &mut Value,
    index: &Value,
    value: Value,
    fuel: &mut Fuel,
) -> Result<(), EvalError> {
    match whole {
        Value::List(items) => {
            fuel.change(items.len())?;
            let index = position(needed(index, "list")?, items.len());
            let index = index.ok_or_else(|| out_of_range("list assignment index"))?;
            Arc::make_mut(items)[index] = value;
        }
        Value::Map(map) if matches!(index, Value::Str(_)) => {
            fuel.change(map.len())?;
            if let Value::Str(key) = index {
                Arc::make_mut(map).insert(Arc::clone(key), value);
            }
        }
        whole => {
            text::no_secret(whole)?;
            let Some(dict) = Dict::of(whole) else {
                let message = format!(
                    "'{}' object does not support item assignment",
                    type_name(whole)
                );
                return Err(EvalError::typed(message));
            };
            let mut pairs = Pairs::of(dict, fuel)?;
            pairs.insert(index.clone(), value, fuel)?;
            *whole = pairs.into_value();
        }
    }
    Ok(())
}

/// The parts of `value` for `count` targets, the one at `star` taking whatever the others leave.
pub fn unpack(
    value: &Value,
    count: usize,
    star: Option<usize>,
    fuel: &mut Fuel,
) -> Result<Vec<Value>, EvalError> {
    let items = iterate(value, fuel).map_err(|error| match error.kind {
        ErrorKind::Type => EvalError::typed(format!(
            "cannot unpack non-iterable {} object",
            type_name(value)
        )),
        _ => error,
    })?;
    fuel.build(items.len())?;
    let least = count - usize::from(star.is_some());
    if items.len() < least {
        let at_least = if star.is_some() { "at least " } else { "" };
        let message = format!(
            "not enough values to unpack (expected {at_least}{least}, got {})",
            items.len()
        );
        return Err(EvalError::value(message));
    }
    let Some(star) = star else {
        if items.len() > count {
            return Err(EvalError::value(format!(
                "too many values to unpack (expected {count})"
            )));
        }
        return Ok(items.into_owned());
    };
    let behind = items.len() - (count - star - 1);
    let mut parts = items[..star].to_vec();
    parts.push(Value::list(items[star..behind].to_vec()));
    parts.extend_from_slice(&items[behind..]);
    Ok(parts)
}

/// `whole.name = value`, as the value that `whole` then has.
pub fn set_attribute(
    whole: &Value,
    name: &Value,
    value: Value,
    fuel: &mut Fuel,
) -> Result<Value, EvalError> {
    text::no_secret(whole)?;
    let name = name.as_str().unwrap_or_default();
    match object(whole) {
        Some((Form::Plain, fields)) => {
            fuel.build(fields.len())?;
            let mut fields = fields.clone();
            fields.insert(name.into(), value);
            Ok(with_fields(whole, fields))
        }
        Some((Form::Model, fields)) if fields.contains_key(name) => {
            fuel.build(fields.len())?;
            let mut fields = fields.clone();
            fields.insert(name.into(), value);
            Ok(with_fields(whole, fields))
        }
        Some((Form::Model, _)) => Err(EvalError::value(format!(
            "\"{}\" object has no field \"{name}\"",
            type_name(whole)
        ))),
        Some((Form::Frozen, _)) => Err(EvalError::new(
            ErrorKind::FrozenInstance,
            format!("cannot assign to field '{name}'"),
        )),
        Some((Form::Enum | Form::Mixed, _)) => {
            let message = format!(
                "<enum '{}'> cannot set attribute '{name}'",
                type_name(whole)
            );
            Err(EvalError::new(ErrorKind::Attribute, message))
        }
        None => {
            let message = format!("'{}' object has no attribute '{name}'", type_name(whole));
            Err(EvalError::new(ErrorKind::Attribute, message))
        }
    }
}
