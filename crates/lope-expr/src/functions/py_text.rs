//! Methods of Python's str that search, cut and join, and those of bytes that turn them into text.
//! Positions count characters. Case, padding and questions about characters are in `py_case`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use lope_model::Value;
use lope_values::py::{self, is_space, iterate, truth, tuple, type_name};
use lope_values::{ErrorKind, EvalError, Fuel, format};

use super::arguments::given;
use super::arguments::no_method;
use super::py_builtin::int;
use super::{FunctionEntry, FunctionKind::PyMethod, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line(
        "py.m.split",
        "text, sep=None, maxsplit=-1",
        PyMethod,
        |args, fuel| split(args, fuel, Side::Left),
    ),
    line(
        "py.m.rsplit",
        "text, sep=None, maxsplit=-1",
        PyMethod,
        |args, fuel| split(args, fuel, Side::Right),
    ),
    line(
        "py.m.splitlines",
        "text, keepends=False",
        PyMethod,
        splitlines,
    ),
    line("py.m.partition", "text, sep", PyMethod, |args, fuel| {
        partition(args, fuel, Side::Left)
    }),
    line("py.m.rpartition", "text, sep", PyMethod, |args, fuel| {
        partition(args, fuel, Side::Right)
    }),
    line("py.m.join", "text, iterable", PyMethod, join),
    line(
        "py.m.replace",
        "text, old, new, count=-1",
        PyMethod,
        replace,
    ),
    line("py.m.strip", "text, chars=None", PyMethod, |args, fuel| {
        strip(args, fuel, "strip")
    }),
    line("py.m.lstrip", "text, chars=None", PyMethod, |args, fuel| {
        strip(args, fuel, "lstrip")
    }),
    line("py.m.rstrip", "text, chars=None", PyMethod, |args, fuel| {
        strip(args, fuel, "rstrip")
    }),
    line(
        "py.m.removeprefix",
        "text, prefix",
        PyMethod,
        |args, fuel| {
            removed(args, fuel, "removeprefix", |text, affix| {
                text.strip_prefix(affix)
            })
        },
    ),
    line(
        "py.m.removesuffix",
        "text, suffix",
        PyMethod,
        |args, fuel| {
            removed(args, fuel, "removesuffix", |text, affix| {
                text.strip_suffix(affix)
            })
        },
    ),
    line(
        "py.m.find",
        "text, sub, start=None, end=None",
        PyMethod,
        |args, fuel| find(args, fuel, "find"),
    ),
    line(
        "py.m.rfind",
        "text, sub, start=None, end=None",
        PyMethod,
        |args, fuel| find(args, fuel, "rfind"),
    ),
    line(
        "py.m.rindex",
        "text, sub, start=None, end=None",
        PyMethod,
        |args, fuel| found(args, fuel, "rindex"),
    ),
    line(
        "py.m.startswith",
        "text, prefix, start=None, end=None",
        PyMethod,
        |args, fuel| edge(args, fuel, "startswith"),
    ),
    line(
        "py.m.endswith",
        "text, suffix, start=None, end=None",
        PyMethod,
        |args, fuel| edge(args, fuel, "endswith"),
    ),
    line(
        "py.m.format",
        "text, arguments=(), keywords={}",
        PyMethod,
        formatted,
    ),
    line("py.m.encode", "text, encoding='utf-8'", PyMethod, encode),
    line("py.m.decode", "bytes, encoding='utf-8'", PyMethod, decode),
    line("py.m.hex", "bytes", PyMethod, hex),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The text that a method is called on, paid for once.
pub(super) fn receiver<'v>(
    args: &'v [Value],
    name: &str,
    fuel: &mut Fuel,
) -> Result<&'v Arc<str>, EvalError> {
    match &args[0] {
        Value::Str(text) => {
            fuel.grow(text.len() as u64)?;
            Ok(text)
        }
        other => Err(no_method(other, name)),
    }
}

fn needed<'v>(value: &'v Value, what: &str) -> Result<&'v str, EvalError> {
    value
        .as_str()
        .ok_or_else(|| EvalError::typed(format!("{what} must be str, not {}", type_name(value))))
}

/// A limit on pieces or replacements; a negative one sets none.
fn limit(args: &[Value], index: usize) -> Result<usize, EvalError> {
    let limit = given(args, index).map_or(Ok(-1), int)?;
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

fn texts<'t>(parts: impl IntoIterator<Item = &'t str>, fuel: &mut Fuel) -> FunctionResult {
    let parts: Vec<Value> = parts.into_iter().map(Value::from).collect();
    fuel.build(parts.len())?;
    Ok(Value::list(parts))
}

fn split(args: &mut [Value], fuel: &mut Fuel, side: Side) -> FunctionResult {
    let text = receiver(
        args,
        if side == Side::Left {
            "split"
        } else {
            "rsplit"
        },
        fuel,
    )?;
    let most = limit(args, 2)?;
    let Some(separator) = given(args, 1) else {
        return texts(split_blanks(text, most, side), fuel);
    };
    let separator = needed(separator, "sep")?;
    if separator.is_empty() {
        return Err(EvalError::value("empty separator"));
    }
    match side {
        Side::Left => texts(text.splitn(most.saturating_add(1), separator), fuel),
        Side::Right => {
            let mut parts: Vec<&str> = text.rsplitn(most.saturating_add(1), separator).collect();
            parts.reverse();
            texts(parts, fuel)
        }
    }
}

/// Words between runs of blanks; once `most` cuts are made, the rest stays whole but for blanks at
/// its outer end.
fn split_blanks(text: &str, most: usize, side: Side) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_matches(is_space);
    while !rest.is_empty() && parts.len() < most {
        let cut = match side {
            Side::Left => rest.find(is_space),
            Side::Right => rest
                .rfind(is_space)
                .map(|index| index + rest[index..].chars().next().map_or(0, char::len_utf8)),
        };
        let Some(cut) = cut else { break };
        let (left, right) = rest.split_at(cut);
        let (word, others) = if side == Side::Left {
            (left, right)
        } else {
            (right, left)
        };
        parts.push(word);
        rest = if side == Side::Left {
            others.trim_start_matches(is_space)
        } else {
            others.trim_end_matches(is_space)
        };
    }
    // What is left keeps the blanks on the side that was not cut.
    if !rest.is_empty() {
        let kept = match side {
            Side::Left if parts.len() == most => &text[offset(text, rest)..],
            Side::Right if parts.len() == most => &text[..offset(text, rest) + rest.len()],
            _ => rest,
        };
        parts.push(kept);
    }
    if side == Side::Right {
        parts.reverse();
    }
    parts
}

/// Where a part of a text starts in it.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

fn is_line_end(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

fn splitlines(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let text = receiver(args, "splitlines", fuel)?;
    let keep = args.get(1).map_or(Ok(false), truth)?;
    let mut lines = Vec::new();
    let mut rest = &**text;
    while !rest.is_empty() {
        let end = rest.find(is_line_end).unwrap_or(rest.len());
        let mark = if rest[end..].starts_with("\r\n") {
            2
        } else {
            rest[end..].chars().next().map_or(0, char::len_utf8)
        };
        lines.push(&rest[..if keep { end + mark } else { end }]);
        rest = &rest[end + mark..];
    }
    texts(lines, fuel)
}

fn partition(args: &mut [Value], fuel: &mut Fuel, side: Side) -> FunctionResult {
    let text = receiver(
        args,
        if side == Side::Left {
            "partition"
        } else {
            "rpartition"
        },
        fuel,
    )?;
    let separator = needed(&args[1], "sep")?;
    if separator.is_empty() {
        return Err(EvalError::value("empty separator"));
    }
    let cut = if side == Side::Left {
        text.split_once(separator)
    } else {
        text.rsplit_once(separator)
    };
    let parts = match (cut, side) {
        (Some((left, right)), _) => [left, separator, right],
        (None, Side::Left) => [&**text, "", ""],
        (None, Side::Right) => ["", "", &**text],
    };
    Ok(tuple(parts.map(Value::from).to_vec()))
}

fn join(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let separator = receiver(args, "join", fuel)?;
    let items = iterate(&args[1], fuel).map_err(|error| match error.kind {
        ErrorKind::Type => EvalError::typed("can only join an iterable"),
        _ => error,
    })?;
    let mut joined = String::new();
    for (index, item) in items.iter().enumerate() {
        let Value::Str(part) = item else {
            let message = format!(
                "sequence item {index}: expected str instance, {} found",
                type_name(item)
            );
            return Err(EvalError::typed(message));
        };
        fuel.grow((separator.len() + part.len()) as u64)?;
        joined.push_str(if index > 0 { separator } else { "" });
        joined.push_str(part);
    }
    Ok(Value::from(joined))
}

fn replace(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let text = receiver(args, "replace", fuel)?;
    let (old, new) = (
        needed(&args[1], "replace() argument 1")?,
        needed(&args[2], "replace() argument 2")?,
    );
    let most = limit(args, 3)?;
    let found = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    fuel.grow((found.min(most) as u64).saturating_mul(new.len() as u64))?;
    Ok(Value::from(text.replacen(old, new, most)))
}

fn strip(args: &mut [Value], fuel: &mut Fuel, name: &str) -> FunctionResult {
    let text = receiver(args, name, fuel)?;
    let given = given(args, 1);
    let chars = match given {
        Some(chars) => chars
            .as_str()
            .ok_or_else(|| EvalError::typed(format!("{name} arg must be None or str")))?,
        None => "",
    };
    fuel.spend((text.len() as u64).saturating_mul(chars.len() as u64) / 64)?;
    let belongs = |c: char| {
        if given.is_some() {
            chars.contains(c)
        } else {
            is_space(c)
        }
    };
    Ok(Value::from(match name {
        "lstrip" => text.trim_start_matches(belongs),
        "rstrip" => text.trim_end_matches(belongs),
        _ => text.trim_matches(belongs),
    }))
}

type Cut = for<'t, 'a> fn(&'t str, &'a str) -> Option<&'t str>;

fn removed(args: &mut [Value], fuel: &mut Fuel, name: &str, cut: Cut) -> FunctionResult {
    let text = receiver(args, name, fuel)?;
    let affix = needed(&args[1], &format!("{name}() argument"))?;
    Ok(Value::from(cut(text, affix).unwrap_or(text)))
}

/// The part of a text between two positions of `args`, and the position of its first character.
/// None if they cross.
fn part<'t>(
    text: &'t str,
    args: &[Value],
    first: usize,
) -> Result<Option<(&'t str, i64)>, EvalError> {
    let bounds =
        [args.get(first), args.get(first + 1)].map(|bound| bound.cloned().unwrap_or_default());
    if bounds.iter().all(Value::is_null) {
        return Ok(Some((text, 0)));
    }
    let length = text.chars().count();
    let (start, stop, _) = py::slice_bounds(length, &bounds)?;
    // A start behind the end finds nothing, not even the empty text.
    if start > stop || py::int(&bounds[0]).is_some_and(|given| given > length as i64) {
        return Ok(None);
    }
    let byte = |index: i64| {
        text.char_indices()
            .nth(index as usize)
            .map_or(text.len(), |(byte, _)| byte)
    };
    Ok(Some((&text[byte(start)..byte(stop)], start)))
}

fn find(args: &mut [Value], fuel: &mut Fuel, name: &str) -> FunctionResult {
    let text = receiver(args, name, fuel)?;
    let wanted = needed(&args[1], "argument")?;
    let Some((part, start)) = part(text, args, 2)? else {
        return Ok(Value::Int(-1));
    };
    let byte = if name.starts_with('r') {
        part.rfind(wanted)
    } else {
        part.find(wanted)
    };
    Ok(Value::Int(byte.map_or(-1, |byte| {
        start + part[..byte].chars().count() as i64
    })))
}

fn found(args: &mut [Value], fuel: &mut Fuel, name: &str) -> FunctionResult {
    match find(args, fuel, name)? {
        Value::Int(-1) => Err(EvalError::value("substring not found")),
        index => Ok(index),
    }
}

pub(super) fn index(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    found(args, fuel, "index")
}

pub(super) fn count(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let text = receiver(args, "count", fuel)?;
    let wanted = needed(&args[1], "argument")?;
    let Some((part, _)) = part(text, args, 2)? else {
        return Ok(Value::Int(0));
    };
    let count = if wanted.is_empty() {
        part.chars().count() + 1
    } else {
        part.matches(wanted).count()
    };
    Ok(Value::Int(count as i64))
}

fn edge(args: &mut [Value], fuel: &mut Fuel, name: &str) -> FunctionResult {
    let text = receiver(args, name, fuel)?;
    let single = [args[1].clone()];
    let affixes = py::tagged(&args[1], py::TUPLE).map_or(&single[..], |affixes| affixes);
    let part = part(text, args, 2)?;
    for affix in affixes {
        let affix = affix.as_str().ok_or_else(|| {
            EvalError::typed(format!(
                "{name} first arg must be str or a tuple of str, not {}",
                type_name(affix)
            ))
        })?;
        let fits = |part: &str| {
            if name == "startswith" {
                part.starts_with(affix)
            } else {
                part.ends_with(affix)
            }
        };
        if part.is_some_and(|(part, _)| fits(part)) {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn formatted(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let text = receiver(args, "format", fuel)?;
    let values = args
        .get(1)
        .map_or(Ok(Cow::default()), |values| iterate(values, fuel))?;
    let named = args.get(2).cloned().unwrap_or_default();
    format::braces(text, &values, &named, fuel).map(Value::from)
}

fn encoding(args: &[Value]) -> Result<String, EvalError> {
    let name = args
        .get(1)
        .map_or(Ok("utf-8"), |name| needed(name, "encoding"))?;
    Ok(name.to_ascii_lowercase().replace('_', "-"))
}

fn unknown_encoding(name: &str) -> EvalError {
    EvalError::value(format!(
        "the encoding '{name}' is not known here: use utf-8, ascii or latin-1"
    ))
}

fn encode(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let text = receiver(args, "encode", fuel)?;
    let name = encoding(args)?;
    let most = match &*name {
        "utf-8" | "utf8" => return Ok(Value::bytes(text.as_bytes())),
        "ascii" | "us-ascii" => 0x7f,
        "latin-1" | "latin1" | "iso-8859-1" => 0xff,
        other => return Err(unknown_encoding(other)),
    };
    if let Some(index) = text.chars().position(|c| c as u32 > most) {
        let wrong: Vec<char> = text
            .chars()
            .skip(index)
            .take_while(|c| *c as u32 > most)
            .collect();
        return Err(cannot_encode(&wrong, index, most));
    }
    Ok(Value::bytes(
        text.chars().map(|c| c as u8).collect::<Vec<u8>>(),
    ))
}

fn cannot_encode(wrong: &[char], index: usize, most: u32) -> EvalError {
    let (codec, top) = if most == 0x7f {
        ("ascii", 128)
    } else {
        ("latin-1", 256)
    };
    let where_it_is = match wrong {
        [c] => format!("character '{}' in position {index}", py::escape(*c as u32)),
        _ => format!("characters in position {index}-{}", index + wrong.len() - 1),
    };
    let message =
        format!("'{codec}' codec can't encode {where_it_is}: ordinal not in range({top})");
    EvalError::new(ErrorKind::UnicodeEncode, message)
}

fn decode(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let Value::Bytes(bytes) = &args[0] else {
        return Err(no_method(&args[0], "decode"));
    };
    fuel.grow(bytes.len() as u64 * 2)?;
    let name = encoding(args)?;
    match &*name {
        "utf-8" | "utf8" => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::from(text)),
            Err(error) => Err(cannot_decode("utf-8", bytes, error.valid_up_to())),
        },
        "ascii" | "us-ascii" => match bytes.iter().position(|byte| !byte.is_ascii()) {
            Some(index) => Err(cannot_decode("ascii", bytes, index)),
            None => Ok(Value::from(
                bytes.iter().map(|byte| *byte as char).collect::<String>(),
            )),
        },
        "latin-1" | "latin1" | "iso-8859-1" => Ok(Value::from(
            bytes.iter().map(|byte| *byte as char).collect::<String>(),
        )),
        other => Err(unknown_encoding(other)),
    }
}

fn cannot_decode(codec: &str, bytes: &[u8], index: usize) -> EvalError {
    let byte = bytes.get(index).copied().unwrap_or_default();
    let message = format!("'{codec}' codec can't decode byte {byte:#04x} in position {index}");
    EvalError::new(ErrorKind::UnicodeDecode, message)
}

fn hex(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let Value::Bytes(bytes) = &args[0] else {
        return Err(no_method(&args[0], "hex"));
    };
    fuel.grow(bytes.len() as u64 * 2)?;
    let mut text = String::with_capacity(bytes.len() * 2);
    bytes
        .iter()
        .try_for_each(|byte| write!(text, "{byte:02x}"))
        .expect("writing to a string does not fail");
    Ok(Value::from(text))
}
