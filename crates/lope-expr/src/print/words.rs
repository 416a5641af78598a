//! The smallest pieces of printed trees: literals and names.

use std::fmt::Write as _;

use lope_model::Value;
use lope_values::{number, unicode};

use super::quoted;

pub(super) fn literal(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Int(number) => text.push_str(&number.to_string()),
        Value::Float(number) if number.is_finite() => text.push_str(&number::repr(*number)),
        Value::Float(number) => text.extend(["double(\"", &number::repr(*number), "\")"]),
        Value::Str(part) => quoted(part, text),
        Value::Bytes(bytes) => quoted_bytes(bytes, text),
        Value::List(items) => sequence(items, text),
        Value::Map(map) => {
            text.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                quoted(key, text);
                text.push_str(": ");
                literal(item, text);
            }
            text.push('}');
        }
        Value::Tag(tag) => {
            text.push_str(&tag.name);
            text.push('(');
            literal(&tag.value, text);
            text.push(')');
        }
    }
}

fn sequence(items: &[Value], text: &mut String) {
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        text.push_str(if index > 0 { ", " } else { "" });
        literal(item, text);
    }
    text.push(']');
}

fn quoted_bytes(bytes: &[u8], text: &mut String) {
    text.push_str("b\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', *byte as char]),
            b' '..=b'~' => text.push(*byte as char),
            byte => write!(text, "\\x{byte:02x}").expect("writing to a string does not fail"),
        }
    }
    text.push('"');
}

/// A name, in backticks if it would not be read as one.
pub(super) fn name(name: &str, text: &mut String) {
    let mut chars = name.chars();
    let plain = chars
        .next()
        .is_some_and(|c| unicode::is_alphabetic(c) || c == '_')
        && chars.all(|c| unicode::is_alphanumeric(c) || c == '_');
    if plain && !matches!(name, "true" | "false" | "null" | "in") {
        text.push_str(name);
    } else {
        text.extend(["`", name, "`"]);
    }
}

/// The name of a variable: `secrets` means something else.
pub(super) fn reserved_name(found: &str, text: &mut String) {
    if found == "secrets" {
        text.push_str("`secrets`");
    } else {
        name(found, text);
    }
}
