//! Python's two text forms of a value: `str` and `repr`.

use lope_model::{Map, Value};

use super::object::{Form, exception_args, object};
use super::{DICT, Dict, EXCEPTION, FROZENSET, SET, TUPLE, type_name};
use crate::error::EvalError;
use crate::fuel::Fuel;
use crate::unicode;
use crate::{number, text};

pub fn str_of(value: &Value, fuel: &mut Fuel) -> Result<String, EvalError> {
    match value {
        Value::Str(text) => {
            fuel.grow(text.len() as u64)?;
            Ok(text.to_string())
        }
        Value::Tag(tag) if &*tag.name == EXCEPTION => Ok(tag
            .value
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()),
        _ => match object(value) {
            Some((form @ (Form::Model | Form::Enum | Form::Mixed), fields)) => {
                object_text(value, form, fields, fuel)
            }
            Some((Form::Plain | Form::Frozen, _)) | None => repr(value, fuel),
        },
    }
}

/// The text of an object whose text is not its `repr`.
fn object_text(
    value: &Value,
    form: Form,
    fields: &Map,
    fuel: &mut Fuel,
) -> Result<String, EvalError> {
    let mut text = String::new();
    match form {
        Form::Enum => text = format!("{}.{}", type_name(value), member(fields)),
        Form::Mixed => return Err(mixed(value)),
        Form::Model | Form::Plain | Form::Frozen => push_fields(fields, " ", &mut text, fuel)?,
    }
    fuel.grow(text.len() as u64)?;
    Ok(text)
}

fn member(fields: &Map) -> &str {
    fields
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// What such a member is as text differs from class to class and from one Python to the next.
fn mixed(value: &Value) -> EvalError {
    EvalError::typed(format!(
        "the text of a {} depends on the version of Python: write .value or .name",
        type_name(value)
    ))
}

pub fn repr(value: &Value, fuel: &mut Fuel) -> Result<String, EvalError> {
    let mut text = String::new();
    push(value, &mut text, fuel)?;
    fuel.grow(text.len() as u64)?;
    Ok(text)
}

fn push(value: &Value, text: &mut String, fuel: &mut Fuel) -> Result<(), EvalError> {
    fuel.spend(1 + text.len() as u64 / 1024)?;
    match value {
        Value::Null => text.push_str("None"),
        Value::Bool(value) => text.push_str(if *value { "True" } else { "False" }),
        Value::Int(number) => text.push_str(&number.to_string()),
        Value::Float(number) => text.push_str(&number::repr(*number)),
        Value::Str(part) => {
            fuel.grow(part.len() as u64)?;
            quote(part, text);
        }
        Value::Bytes(bytes) => {
            fuel.grow(bytes.len() as u64 * 4)?;
            quote_bytes(bytes, text);
        }
        Value::List(items) => push_items(items, ["[", "]"], text, fuel)?,
        Value::Map(_) => push_dict(value, text, fuel)?,
        Value::Tag(tag) => {
            text::no_secret(value)?;
            let items = tag.value.as_list().unwrap_or_default();
            match &*tag.name {
                TUPLE => push_items(
                    items,
                    ["(", if items.len() == 1 { ",)" } else { ")" }],
                    text,
                    fuel,
                )?,
                SET if items.is_empty() => text.push_str("set()"),
                SET => push_items(items, ["{", "}"], text, fuel)?,
                FROZENSET if items.is_empty() => text.push_str("frozenset()"),
                FROZENSET => push_items(items, ["frozenset({", "})"], text, fuel)?,
                DICT => push_dict(value, text, fuel)?,
                EXCEPTION => push_exception(value, &tag.value, text, fuel)?,
                _ => push_object(value, text, fuel)?,
            }
        }
    }
    Ok(())
}

fn push_items(
    items: &[Value],
    [open, close]: [&str; 2],
    text: &mut String,
    fuel: &mut Fuel,
) -> Result<(), EvalError> {
    text.push_str(open);
    for (index, item) in items.iter().enumerate() {
        text.push_str(if index > 0 { ", " } else { "" });
        push(item, text, fuel)?;
    }
    text.push_str(close);
    Ok(())
}

fn push_dict(value: &Value, text: &mut String, fuel: &mut Fuel) -> Result<(), EvalError> {
    text.push('{');
    for (index, (key, item)) in Dict::of(value)
        .iter()
        .flat_map(|dict| dict.iter())
        .enumerate()
    {
        text.push_str(if index > 0 { ", " } else { "" });
        push(&key, text, fuel)?;
        text.push_str(": ");
        push(item, text, fuel)?;
    }
    text.push('}');
    Ok(())
}

fn push_exception(
    value: &Value,
    failure: &Value,
    text: &mut String,
    fuel: &mut Fuel,
) -> Result<(), EvalError> {
    text.push_str(type_name(value));
    let args = exception_args(failure);
    push_items(args.iter().as_slice(), ["(", ")"], text, fuel)
}

/// As a dataclass, a model or a member of an enum writes itself.
fn push_object(value: &Value, text: &mut String, fuel: &mut Fuel) -> Result<(), EvalError> {
    match object(value) {
        Some((Form::Enum, fields)) => {
            text.push_str(&format!("<{}.{}: ", type_name(value), member(fields)));
            push(fields.get("value").unwrap_or(&Value::Null), text, fuel)?;
            text.push('>');
        }
        Some((Form::Mixed, _)) => return Err(mixed(value)),
        Some((Form::Plain | Form::Frozen | Form::Model, fields)) => {
            text.push_str(type_name(value));
            text.push('(');
            push_fields(fields, ", ", text, fuel)?;
            text.push(')');
        }
        None => {
            return Err(EvalError::typed(format!(
                "a {} has no text form here",
                value.kind()
            )));
        }
    }
    Ok(())
}

fn push_fields(
    fields: &Map,
    between: &str,
    text: &mut String,
    fuel: &mut Fuel,
) -> Result<(), EvalError> {
    for (index, (name, item)) in fields.iter().enumerate() {
        text.push_str(if index > 0 { between } else { "" });
        text.push_str(name);
        text.push('=');
        push(item, text, fuel)?;
    }
    Ok(())
}

/// Single quotes, unless the text has some and no double ones.
fn quote(part: &str, text: &mut String) {
    let quote = if part.contains('\'') && !part.contains('"') {
        '"'
    } else {
        '\''
    };
    text.push(quote);
    for c in part.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c == quote => text.extend(['\\', c]),
            c if is_printable(c) => text.push(c),
            c => text.push_str(&escape(c as u32)),
        }
    }
    text.push(quote);
}

/// A character as an escape.
pub fn escape(code: u32) -> String {
    match code {
        0..=0xff => format!("\\x{code:02x}"),
        0x100..=0xffff => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    }
}

/// Close to Python's: no control, format, surrogate, private, unassigned characters, no separators
/// but the space.
pub fn is_printable(c: char) -> bool {
    match c {
        ' ' => true,
        '\u{ad}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{fffe}'
        | '\u{ffff}'
        | '\u{e0000}'..='\u{e0fff}'
        | '\u{f0000}'..='\u{10ffff}' => false,
        c => !c.is_control() && !unicode::is_whitespace(c),
    }
}

fn quote_bytes(bytes: &[u8], text: &mut String) {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') {
        b'"'
    } else {
        b'\''
    };
    text.push('b');
    text.push(quote as char);
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            byte if *byte == quote => text.extend(['\\', *byte as char]),
            b' '..=b'~' => text.push(*byte as char),
            byte => text.push_str(&escape((*byte).into())),
        }
    }
    text.push(quote as char);
}
