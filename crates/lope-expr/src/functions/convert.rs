//! Values into other kinds for text expressions: numbers, text, bytes, JSON, base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lope_model::Value;
use lope_values::text::{SPAN, TIME, json, no_secret, plain};
use lope_values::{EvalError, Fuel, unicode};

use super::arguments::text;
use super::{FunctionEntry, FunctionKind::Function, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("int", "value", Function, int),
    line("double", "value", Function, float),
    line("float", "value", Function, float),
    line("string", "value", Function, |args, fuel| {
        plain(&args[0], fuel)
    }),
    line("bytes", "text", Function, bytes),
    line("bool", "value", Function, bool),
    line("type", "value", Function, kind),
    line("default", "value, other", Function, |args, _| {
        Ok(std::mem::take(&mut args[usize::from(args[0].is_null())]))
    }),
    line("toJson", "value", Function, |args, fuel| {
        json(&args[0], fuel).map(Value::from)
    }),
    line("fromJson", "text", Function, from_json),
    line("toBase64", "value", Function, to_base64),
    line("fromBase64", "text", Function, from_base64),
];

fn cannot(value: &Value, into: &str) -> EvalError {
    let secret = no_secret(value).err();
    secret.unwrap_or_else(|| EvalError::typed(format!("{} cannot be made {into}", value.kind())))
}

fn int(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match &args[0] {
        Value::Int(_) => Ok(args[0].clone()),
        Value::Bool(value) => Ok(Value::Int(i64::from(*value))),
        Value::Float(number) => lope_values::number::float_to_int(number.trunc()),
        Value::Str(text) => match unicode::trim(text).parse() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => Err(EvalError::value(format!("'{}' is not an int", shown(text)))),
        },
        Value::Tag(tag) if &*tag.name == TIME || &*tag.name == SPAN => Ok(Value::Int(
            tag.value.as_int().unwrap_or(0).div_euclid(1_000),
        )),
        other => Err(cannot(other, "an int")),
    }
}

fn float(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match &args[0] {
        Value::Int(number) => Ok(Value::Float(*number as f64)),
        Value::Float(_) => Ok(args[0].clone()),
        Value::Str(text) => match unicode::trim(text).parse() {
            Ok(number) => Ok(Value::Float(number)),
            Err(_) => Err(EvalError::value(format!(
                "'{}' is not a number",
                shown(text)
            ))),
        },
        other => Err(cannot(other, "a float")),
    }
}

/// The start of a text, for messages.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

fn bytes(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    match &args[0] {
        Value::Bytes(_) => Ok(args[0].clone()),
        Value::Str(text) => {
            fuel.grow(text.len() as u64)?;
            Ok(Value::bytes(text.as_bytes()))
        }
        other => Err(cannot(other, "bytes")),
    }
}

fn bool(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match &args[0] {
        Value::Bool(_) => Ok(args[0].clone()),
        Value::Str(text) => match &**text {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
            other => Err(EvalError::value(format!(
                "'{}' is neither true nor false",
                shown(other)
            ))),
        },
        other => Err(cannot(other, "a bool")),
    }
}

fn kind(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    no_secret(&args[0])?;
    Ok(Value::from(args[0].kind()))
}

fn from_json(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let text = text(&args[0])?;
    // Every byte may become a value of its own.
    fuel.grow(text.len() as u64 * 4)?;
    let parsed = serde_json::from_str(text)
        .map_err(|error| EvalError::value(format!("not JSON: {error}")))?;
    from_plain_json(parsed)
}

/// JSON means what it says here: the forms reserved for bytes and tags in stored values are
/// ordinary maps.
fn from_plain_json(parsed: serde_json::Value) -> FunctionResult {
    Ok(match parsed {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(value),
        serde_json::Value::String(text) => Value::from(text),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(float)) if number.is_f64() => Value::Float(float),
            _ => {
                return Err(EvalError::value(format!(
                    "the number {number} does not fit 64 bits"
                )));
            }
        },
        serde_json::Value::Array(items) => Value::list(
            items
                .into_iter()
                .map(from_plain_json)
                .collect::<Result<_, _>>()?,
        ),
        serde_json::Value::Object(map) => {
            let entries = map
                .into_iter()
                .map(|(key, value)| Ok((key, from_plain_json(value)?)));
            Value::map(entries.collect::<Result<Vec<_>, EvalError>>()?)
        }
    })
}

fn to_base64(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let bytes: &[u8] = match &args[0] {
        Value::Bytes(bytes) => bytes,
        Value::Str(text) => text.as_bytes(),
        other => return Err(cannot(other, "base64")),
    };
    fuel.grow(bytes.len() as u64 * 2)?;
    Ok(Value::from(BASE64.encode(bytes)))
}

fn from_base64(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let text = text(&args[0])?;
    fuel.grow(text.len() as u64)?;
    BASE64
        .decode(unicode::trim(text))
        .map(Value::bytes)
        .map_err(|error| EvalError::value(format!("not base64: {error}")))
}
