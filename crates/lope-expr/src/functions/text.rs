//! Functions of texts for text expressions. Positions count characters.

use lope_model::Value;
use lope_values::pattern::Pattern;
use lope_values::text::plain;
use lope_values::{ErrorKind, EvalError, Fuel, compare, unicode};

use super::arguments::{count, given, int, list, text};
use super::{FunctionEntry, FunctionKind::Method, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("contains", "whole, part", Method, contains),
    line("startsWith", "text, prefix", Method, starts_with),
    line("endsWith", "text, suffix", Method, ends_with),
    line("matches", "text, pattern", Method, matches),
    line("split", "text, separator, limit=-1", Method, split),
    line("join", "list, separator=''", Method, join),
    line(
        "replace",
        "text, old, replacement, limit=-1",
        Method,
        replace,
    ),
    line("lower", "text", Method, |args, fuel| {
        mapped(args, fuel, unicode::to_lowercase)
    }),
    line("upper", "text", Method, |args, fuel| {
        mapped(args, fuel, unicode::to_uppercase)
    }),
    line("lowerAscii", "text", Method, |args, fuel| {
        mapped(args, fuel, str::to_ascii_lowercase)
    }),
    line("upperAscii", "text", Method, |args, fuel| {
        mapped(args, fuel, str::to_ascii_uppercase)
    }),
    line("trim", "text", Method, |args, fuel| {
        mapped(args, fuel, |text| unicode::trim(text).to_owned())
    }),
    line("substring", "text, start, end=null", Method, substring),
    line("charAt", "text, index", Method, char_at),
    line("indexOf", "text, part, from=0", Method, index_of),
    line("lastIndexOf", "text, part", Method, last_index_of),
];

/// Pays for reading and for writing a text once.
fn pay(text: &str, fuel: &mut Fuel) -> Result<(), EvalError> {
    fuel.grow(text.len() as u64)
}

fn mapped(args: &mut [Value], fuel: &mut Fuel, change: impl Fn(&str) -> String) -> FunctionResult {
    let text = text(&args[0])?;
    pay(text, fuel)?;
    Ok(Value::from(change(text)))
}

fn contains(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    compare::contained(&args[1], &args[0], fuel).map(Value::Bool)
}

fn starts_with(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    Ok(Value::Bool(text(&args[0])?.starts_with(text(&args[1])?)))
}

fn ends_with(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    Ok(Value::Bool(text(&args[0])?.ends_with(text(&args[1])?)))
}

fn matches(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let pattern = Pattern::read(text(&args[1])?, fuel)?;
    pattern.is_found_in(text(&args[0])?, fuel).map(Value::Bool)
}

/// How many pieces a limit allows; a negative one sets none.
fn pieces(args: &[Value], index: usize) -> Result<usize, EvalError> {
    let limit = given(args, index).map_or(Ok(-1), int)?;
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

fn split(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let (whole, separator) = (text(&args[0])?, text(&args[1])?);
    let limit = pieces(args, 2)?;
    pay(whole, fuel)?;
    let parts: Vec<Value> = if separator.is_empty() {
        split_chars(whole, limit)
            .into_iter()
            .map(Value::from)
            .collect()
    } else {
        whole.splitn(limit, separator).map(Value::from).collect()
    };
    fuel.build(parts.len())?;
    Ok(Value::list(parts))
}

/// One character a piece; the last piece takes what is left.
fn split_chars(whole: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = whole;
    while let Some(c) = rest.chars().next().filter(|_| parts.len() < limit) {
        let cut = if parts.len() + 1 == limit {
            rest.len()
        } else {
            c.len_utf8()
        };
        parts.push(&rest[..cut]);
        rest = &rest[cut..];
    }
    parts
}

fn join(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let separator = given(args, 1).map_or(Ok(""), text)?;
    let mut joined = String::new();
    for (index, item) in list(&args[0])?.iter().enumerate() {
        joined.push_str(if index > 0 { separator } else { "" });
        let part = plain(item, fuel)?;
        fuel.grow((separator.len() + part.as_str().map_or(0, str::len)) as u64)?;
        joined.push_str(part.as_str().unwrap_or_default());
    }
    Ok(Value::from(joined))
}

fn replace(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let (whole, old, new) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    let limit = pieces(args, 3)?;
    pay(whole, fuel)?;
    let found = if old.is_empty() {
        whole.chars().count() + 1
    } else {
        whole.matches(old).count()
    };
    fuel.grow(whole.len() as u64 + (found.min(limit) as u64).saturating_mul(new.len() as u64))?;
    Ok(Value::from(whole.replacen(old, new, limit)))
}

fn out_of_range(index: usize, length: usize) -> EvalError {
    EvalError::new(
        ErrorKind::Index,
        format!("index {index} is outside the text, which has {length} characters"),
    )
}

/// The byte at which character `index` starts; the one behind the last counts too.
fn byte_at(text: &str, index: usize) -> Result<usize, EvalError> {
    let places = text
        .char_indices()
        .map(|(index, _)| index)
        .chain([text.len()]);
    places
        .clone()
        .nth(index)
        .ok_or_else(|| out_of_range(index, places.count() - 1))
}

fn substring(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let whole = text(&args[0])?;
    pay(whole, fuel)?;
    let start = byte_at(whole, count(&args[1])?)?;
    let end = given(args, 2).map_or(Ok(whole.len()), |end| byte_at(whole, count(end)?))?;
    let part = whole
        .get(start..end)
        .ok_or_else(|| EvalError::value("the end of a substring is before its start"))?;
    Ok(Value::from(part))
}

fn char_at(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let whole = text(&args[0])?;
    pay(whole, fuel)?;
    let start = byte_at(whole, count(&args[1])?)?;
    let length = whole[start..].chars().next().map_or(0, char::len_utf8);
    Ok(Value::from(&whole[start..start + length]))
}

fn char_index(whole: &str, byte: Option<usize>) -> Value {
    Value::Int(byte.map_or(-1, |byte| whole[..byte].chars().count() as i64))
}

fn index_of(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let (whole, part) = (text(&args[0])?, text(&args[1])?);
    pay(whole, fuel)?;
    let from = byte_at(whole, given(args, 2).map_or(Ok(0), count)?)?;
    Ok(char_index(
        whole,
        whole[from..].find(part).map(|found| from + found),
    ))
}

fn last_index_of(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let (whole, part) = (text(&args[0])?, text(&args[1])?);
    pay(whole, fuel)?;
    Ok(char_index(whole, whole.rfind(part)))
}
