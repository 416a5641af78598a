//! `str.format`: fields in braces, numbered by hand or in order, with attributes, items,
//! conversions and nested specs.

use lope_model::Value;

use super::format;
use crate::error::{ErrorKind, EvalError};
use crate::fuel::Fuel;
use crate::py;

/// Specs may hold fields, whose specs may not.
const NESTING_MAX: usize = 2;

/// The text with every field replaced by its argument.
pub fn braces(
    text: &str,
    values: &[Value],
    named: &Value,
    fuel: &mut Fuel,
) -> Result<String, EvalError> {
    Fields {
        values,
        named,
        next: 0,
        by_hand: None,
    }
    .fill(text, NESTING_MAX, fuel)
}

struct Fields<'v> {
    values: &'v [Value],
    named: &'v Value,
    next: usize,
    by_hand: Option<bool>,
}

impl Fields<'_> {
    fn fill(&mut self, text: &str, levels: usize, fuel: &mut Fuel) -> Result<String, EvalError> {
        if levels == 0 {
            return Err(EvalError::value("Max string recursion exceeded"));
        }
        fuel.grow(text.len() as u64)?;
        let mut filled = String::new();
        let mut rest = text;
        while let Some(index) = rest.find(['{', '}']) {
            filled.push_str(&rest[..index]);
            let sign = &rest[index..=index];
            rest = &rest[index + 1..];
            if rest.starts_with(sign) {
                filled.push_str(sign);
                rest = &rest[1..];
            } else if sign == "}" {
                return Err(EvalError::value("Single '}' encountered in format string"));
            } else {
                let (field, behind) = split_field(rest)?;
                filled.push_str(&self.field(field, levels, fuel)?);
                rest = behind;
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn field(&mut self, field: &str, levels: usize, fuel: &mut Fuel) -> Result<String, EvalError> {
        let (head, spec) = split_spec(field);
        let (name, conversion) = match head.split_once('!') {
            Some((name, conversion)) => (name, Some(conversion)),
            None => (head, None),
        };
        let value = self.value(name, fuel)?;
        let spec = if spec.is_empty() {
            String::new()
        } else {
            self.fill(spec, levels - 1, fuel)?
        };
        let converted = match conversion {
            None => return format(&value, &spec, fuel),
            Some("s") => py::str_of(&value, fuel)?,
            Some("r" | "a") => py::repr(&value, fuel)?,
            Some(other) => {
                return Err(EvalError::value(format!(
                    "Unknown conversion specifier {other}"
                )));
            }
        };
        format(&Value::from(converted), &spec, fuel)
    }

    fn value(&mut self, name: &str, fuel: &mut Fuel) -> Result<Value, EvalError> {
        let first = name.find(['.', '[']).unwrap_or(name.len());
        let mut value = self.argument(&name[..first])?;
        let mut rest = &name[first..];
        while !rest.is_empty() {
            let (part, behind) = split_part(rest)?;
            value = match part {
                FieldPart::Attribute(name) => {
                    py::attribute(std::borrow::Cow::Owned(value), &Value::str(name))?.into_owned()
                }
                FieldPart::Item(index) => {
                    let index = index.parse().map_or_else(|_| Value::str(index), Value::Int);
                    py::index(std::borrow::Cow::Owned(value), &index, fuel)?.into_owned()
                }
            };
            rest = behind;
        }
        Ok(value)
    }

    fn argument(&mut self, name: &str) -> Result<Value, EvalError> {
        let number = if name.is_empty() {
            None
        } else {
            name.parse::<usize>().ok()
        };
        if !name.is_empty() && number.is_none() {
            let found = self.named.get(name).cloned();
            return found.ok_or_else(|| EvalError::new(ErrorKind::Key, format!("'{name}'")));
        }
        if *self.by_hand.get_or_insert(number.is_some()) != number.is_some() {
            let (from, to) = if number.is_some() {
                ("automatic field numbering", "manual field specification")
            } else {
                ("manual field specification", "automatic field numbering")
            };
            return Err(EvalError::value(format!(
                "cannot switch from {from} to {to}"
            )));
        }
        let index = number.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let missing = || {
            let message =
                format!("Replacement index {index} out of range for positional args tuple");
            EvalError::new(ErrorKind::Index, message)
        };
        self.values.get(index).cloned().ok_or_else(missing)
    }
}

/// A field up to its closing brace, and what follows; braces inside come in pairs.
fn split_field(text: &str) -> Result<(&str, &str), EvalError> {
    let mut open = 0;
    for (index, c) in text.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open == 0 => return Ok((&text[..index], &text[index + 1..])),
            '}' => open -= 1,
            _ => {}
        }
    }
    let message = if text.is_empty() {
        "Single '{' encountered in format string"
    } else {
        "expected '}' before end of string"
    };
    Err(EvalError::value(message))
}

/// Name and conversion before the colon, spec behind it; a colon in brackets belongs to the name.
fn split_spec(field: &str) -> (&str, &str) {
    let mut bracket = false;
    for (index, c) in field.char_indices() {
        match c {
            '[' => bracket = true,
            ']' => bracket = false,
            ':' if !bracket => return (&field[..index], &field[index + 1..]),
            _ => {}
        }
    }
    (field, "")
}

enum FieldPart<'t> {
    Attribute(&'t str),
    Item(&'t str),
}

fn split_part(text: &str) -> Result<(FieldPart<'_>, &str), EvalError> {
    if let Some(name) = text.strip_prefix('.') {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        return match end {
            0 => Err(EvalError::value("Empty attribute in format string")),
            _ => Ok((FieldPart::Attribute(&name[..end]), &name[end..])),
        };
    }
    let Some(inside) = text.strip_prefix('[') else {
        return Err(EvalError::value(
            "Only '.' or '[' may follow ']' in format field specifier",
        ));
    };
    match inside.find(']') {
        Some(0) => Err(EvalError::value("Empty attribute in format string")),
        Some(end) => Ok((FieldPart::Item(&inside[..end]), &inside[end + 1..])),
        None => Err(EvalError::value("Missing ']' in format string")),
    }
}
