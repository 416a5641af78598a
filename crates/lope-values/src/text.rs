//! Values as plain text: what a template puts into a text and what `string()` answers. Scalars as
//! they are written in JSON, texts as they are, lists and maps as compact JSON, times and spans as
//! users type them.
//!
//! A secret has no text. Put into a text it makes the whole a `secret-text`, a list of parts that
//! the dispatcher resolves.

use std::fmt::Write as _;

use lope_model::{Span, Timestamp, Value};

use super::error::EvalError;
use super::fuel::Fuel;
use super::number;

/// Tag of a reference to a secret; inside is its name.
pub const SECRET: &str = "secret";
/// Tag of a text with secrets in it; inside is the list of its parts: texts and secrets.
pub const SECRET_TEXT: &str = "secret-text";
/// Tag of a time; inside are its milliseconds since 1970.
pub const TIME: &str = "timestamp";
/// Tag of a span; inside are its milliseconds.
pub const SPAN: &str = "duration";

pub fn is_time(tag: &str) -> bool {
    tag == TIME || tag == SPAN
}

/// Refuses a secret, and whatever is built from one.
pub fn no_secret(value: &Value) -> Result<(), EvalError> {
    match value {
        Value::Tag(tag) if matches!(&*tag.name, SECRET | SECRET_TEXT) => Err(EvalError::typed(
            "a secret can only be passed on to an action; no operator or function applies to it",
        )),
        _ => Ok(()),
    }
}

/// The parts put together.
pub fn join(parts: &[Value], fuel: &mut Fuel) -> Result<Value, EvalError> {
    let secret = |part: &Value| no_secret(part).is_err();
    if !parts.iter().any(secret) {
        let mut joined = String::new();
        parts
            .iter()
            .try_for_each(|part| push(part, &mut joined, fuel))?;
        return Ok(Value::from(joined));
    }
    let mut found = Vec::new();
    for part in parts {
        match part {
            Value::Tag(tag) if &*tag.name == SECRET_TEXT => {
                found.extend(tag.value.as_list().unwrap_or_default().iter().cloned());
            }
            part if secret(part) => found.push(part.clone()),
            part => found.push(plain(part, fuel)?),
        }
    }
    fuel.build(found.len())?;
    Ok(Value::tag(SECRET_TEXT, Value::list(found)))
}

/// A value as plain text.
pub fn plain(value: &Value, fuel: &mut Fuel) -> Result<Value, EvalError> {
    if let Value::Str(_) = value {
        return Ok(value.clone());
    }
    let mut text = String::new();
    push(value, &mut text, fuel)?;
    Ok(Value::from(text))
}

fn push(value: &Value, text: &mut String, fuel: &mut Fuel) -> Result<(), EvalError> {
    let before = text.len();
    match value {
        Value::Str(part) => text.push_str(part),
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Int(number) => text.push_str(&number.to_string()),
        Value::Float(number) => text.push_str(&number::repr(*number)),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(part) => text.push_str(part),
            Err(_) => return Err(EvalError::value("these bytes are not UTF-8 text")),
        },
        Value::List(_) | Value::Map(_) => text.push_str(&json(value, fuel)?),
        Value::Tag(_) => text.push_str(&tagged(value)?),
    }
    fuel.note_built();
    fuel.grow((text.len() - before) as u64)
}

fn tagged(value: &Value) -> Result<String, EvalError> {
    no_secret(value)?;
    if let Value::Tag(tag) = value
        && let Some(millis) = tag.value.as_int().filter(|_| is_time(&tag.name))
    {
        return Ok(if &*tag.name == TIME {
            Timestamp::from_millis(millis).to_string()
        } else {
            span(millis)
        });
    }
    Err(EvalError::typed(format!(
        "a {} has no text form",
        value.kind()
    )))
}

fn span(millis: i64) -> String {
    let sign = if millis < 0 { "-" } else { "" };
    format!("{sign}{}", Span::from_millis(millis.unsigned_abs()))
}

/// Compact JSON; what JSON lacks is an error.
pub fn json(value: &Value, fuel: &mut Fuel) -> Result<String, EvalError> {
    let mut text = String::new();
    push_json(value, &mut text, fuel)?;
    fuel.grow(text.len() as u64)?;
    Ok(text)
}

fn push_json(value: &Value, text: &mut String, fuel: &mut Fuel) -> Result<(), EvalError> {
    fuel.spend(1)?;
    match value {
        Value::List(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                push_json(item, text, fuel)?;
            }
            text.push(']');
        }
        Value::Map(map) => {
            text.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                quote(key, text);
                text.push(':');
                push_json(item, text, fuel)?;
            }
            text.push('}');
        }
        Value::Str(part) => {
            fuel.spend(part.len() as u64 / 64)?;
            quote(part, text);
        }
        Value::Float(number) if !number.is_finite() => {
            return Err(EvalError::value(format!(
                "JSON has no {}",
                number::repr(*number)
            )));
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => push(value, text, fuel)?,
        Value::Bytes(_) | Value::Tag(_) => {
            no_secret(value)?;
            return Err(EvalError::typed(format!("JSON has no {}", value.kind())));
        }
    }
    Ok(())
}

/// A text in JSON's quotes.
pub fn quote(part: &str, text: &mut String) {
    text.push('"');
    for c in part.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c < ' ' => {
                write!(text, "\\u{:04x}", c as u32).expect("writing to a string does not fail");
            }
            c => text.push(c),
        }
    }
    text.push('"');
}
