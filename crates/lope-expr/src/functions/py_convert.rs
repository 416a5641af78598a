//! Python's conversions and type questions.

use lope_model::Value;
use lope_values::py::{
    self, Dict, Distinct, Pairs, iterate, repr, str_of, truth, tuple, type_name,
};
use lope_values::{ErrorKind, EvalError, Fuel, format, text};

use super::arguments::given;
use super::py_builtin::int as index;
use super::{FunctionEntry, FunctionKind::PyFunction, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("py.int", "value=0, base=None", PyFunction, int),
    line("py.float", "value=0.0", PyFunction, float),
    line("py.str", "value=''", PyFunction, str),
    line("py.repr", "value", PyFunction, |args, fuel| {
        repr(&args[0], fuel).map(Value::from)
    }),
    line("py.bool", "value=False", PyFunction, |args, _| {
        args.first().map_or(Ok(false), truth).map(Value::Bool)
    }),
    line("py.list", "iterable=()", PyFunction, |args, fuel| {
        items(args, fuel).map(Value::list)
    }),
    line("py.tuple", "iterable=()", PyFunction, |args, fuel| {
        items(args, fuel).map(tuple)
    }),
    line("py.set", "iterable=()", PyFunction, set),
    line("py.dict", "value=()", PyFunction, dict),
    line("py.fromkeys", "iterable, value=None", PyFunction, fromkeys),
    line("py.format", "value, spec=''", PyFunction, formatted),
    line("py.isinstance", "value, types", PyFunction, isinstance),
    line("py.type_name", "value", PyFunction, name_of_type),
    line("py.ord", "text", PyFunction, ord),
    line("py.chr", "code", PyFunction, chr),
    line("py.hex", "number", PyFunction, |args, fuel| {
        based(args, fuel, "#x")
    }),
    line("py.oct", "number", PyFunction, |args, fuel| {
        based(args, fuel, "#o")
    }),
    line("py.bin", "number", PyFunction, |args, fuel| {
        based(args, fuel, "#b")
    }),
];

fn int(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let base = given(args, 1).map(index).transpose()?;
    match (args.first(), base) {
        (None, _) => Ok(Value::Int(0)),
        (Some(value @ (Value::Str(_) | Value::Bytes(_))), base) => {
            int_of_text(value, base.unwrap_or(10), fuel)
        }
        (Some(_), Some(_)) => Err(EvalError::typed(
            "int() can't convert non-string with explicit base",
        )),
        (Some(Value::Float(number)), None) => lope_values::number::float_to_int(number.trunc()),
        (Some(value), None) => py::int(value).map(Value::Int).ok_or_else(|| {
            not_convertible(
                "int() argument must be a string, a bytes-like object or a real number",
                value,
            )
        }),
    }
}

fn int_of_text(value: &Value, base: i64, fuel: &mut Fuel) -> FunctionResult {
    if base != 0 && !(2..=36).contains(&base) {
        return Err(EvalError::value("int() base must be >= 2 and <= 36, or 0"));
    }
    let text = py::ascii_number(written(value));
    let (sign, digits) = split_sign(&text);
    let (base, digits) = strip_prefix(digits, base);
    let plain = plain_digits(digits).filter(|plain| plain.chars().all(|c| c.is_digit(base)));
    match plain.map(|plain| i128::from_str_radix(&plain, base)) {
        Some(Ok(number)) => {
            let signed = if sign == "-" { -number } else { number };
            i64::try_from(signed)
                .map(Value::Int)
                .map_err(|_| EvalError::overflow())
        }
        // All digits, but more of them than 128 bits hold.
        Some(Err(_)) => Err(EvalError::overflow()),
        None => {
            let shown = repr(value, fuel)?;
            Err(EvalError::value(format!(
                "invalid literal for int() with base {base}: {shown}"
            )))
        }
    }
}

/// The text that a number is written as; bytes that are no text hold no number either.
fn written(value: &Value) -> &str {
    match value {
        Value::Str(text) => text,
        Value::Bytes(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        _ => "",
    }
}

fn split_sign(text: &str) -> (&str, &str) {
    text.split_at(usize::from(text.starts_with(['+', '-'])))
}

/// The base that a prefix such as `0x` names, and the digits behind it.
fn strip_prefix(digits: &str, base: i64) -> (u32, &str) {
    for (letters, named) in [(["0x", "0X"], 16), (["0o", "0O"], 8), (["0b", "0B"], 2)] {
        if let Some(rest) = letters
            .iter()
            .find_map(|prefix| digits.strip_prefix(prefix))
            && (base == 0 || base == i64::from(named))
        {
            return (named, rest.strip_prefix('_').unwrap_or(rest));
        }
    }
    (if base == 0 { 10 } else { base as u32 }, digits)
}

/// Digits without the underscores that may stand one by one between them.
fn plain_digits(digits: &str) -> Option<String> {
    let well_formed = !digits.is_empty() && digits.split('_').all(|group| !group.is_empty());
    well_formed.then(|| digits.replace('_', ""))
}

fn float(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let Some(value) = args.first() else {
        return Ok(Value::Float(0.0));
    };
    if let Value::Str(_) | Value::Bytes(_) = value {
        let found = float_of_text(&py::ascii_number(written(value)));
        return found
            .map(Value::Float)
            .ok_or_else(|| match repr(value, fuel) {
                Ok(shown) => {
                    EvalError::value(format!("could not convert string to float: {shown}"))
                }
                Err(error) => error,
            });
    }
    let number = py::float(value).map(Value::Float);
    number
        .ok_or_else(|| not_convertible("float() argument must be a string or a real number", value))
}

fn not_convertible(wanted: &str, value: &Value) -> EvalError {
    let secret = text::no_secret(value).err();
    secret.unwrap_or_else(|| EvalError::typed(format!("{wanted}, not '{}'", type_name(value))))
}

/// Rust and Python read the same floats but for underscores, and the point needs a digit on one
/// side in both.
fn float_of_text(text: &str) -> Option<f64> {
    let between_digits = |index: usize| {
        let left = text[..index].chars().next_back();
        let right = text[index + 1..].chars().next();
        left.is_some_and(|c| c.is_ascii_digit()) && right.is_some_and(|c| c.is_ascii_digit())
    };
    if !text
        .match_indices('_')
        .all(|(index, _)| between_digits(index))
    {
        return None;
    }
    text.replace('_', "").parse().ok()
}

fn str(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    match args.first() {
        None => Ok(Value::str("")),
        Some(text @ Value::Str(_)) => Ok(text.clone()),
        Some(value) => str_of(value, fuel).map(Value::from),
    }
}

fn items(args: &mut [Value], fuel: &mut Fuel) -> Result<Vec<Value>, EvalError> {
    let Some(value) = args.first() else {
        return Ok(Vec::new());
    };
    let items = iterate(value, fuel)?;
    fuel.build(items.len())?;
    Ok(items.into_owned())
}

fn set(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let items = items(args, fuel)?;
    Distinct::of(&items, fuel).map(Distinct::into_set)
}

fn dict(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let mut pairs = Pairs::default();
    if let Some(value) = args.first() {
        insert_all(&mut pairs, value, fuel)?;
    }
    Ok(pairs.into_value())
}

/// Inserts the pairs of a dict, or of an iterable of pairs.
pub(super) fn insert_all(
    pairs: &mut Pairs,
    value: &Value,
    fuel: &mut Fuel,
) -> Result<(), EvalError> {
    if let Some(dict) = Dict::of(value) {
        for (key, value) in dict.iter() {
            pairs.insert(key.into_owned(), value.clone(), fuel)?;
        }
        return Ok(());
    }
    for (index, pair) in iterate(value, fuel)?.iter().enumerate() {
        let not_a_pair = |_| {
            let message =
                format!("cannot convert dictionary update sequence element #{index} to a sequence");
            EvalError::typed(message)
        };
        let parts = iterate(pair, fuel).map_err(not_a_pair)?;
        let [key, value] = &*parts else {
            let length = parts.len();
            let message = format!(
                "dictionary update sequence element #{index} has length {length}; 2 is required"
            );
            return Err(EvalError::value(message));
        };
        pairs.insert(key.clone(), value.clone(), fuel)?;
    }
    Ok(())
}

fn fromkeys(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let value = args.get(1).cloned().unwrap_or_default();
    let mut pairs = Pairs::default();
    for key in iterate(&args[0], fuel)?.iter() {
        pairs.insert(key.clone(), value.clone(), fuel)?;
    }
    Ok(pairs.into_value())
}

fn formatted(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let spec = args.get(1).map_or(Some(""), Value::as_str);
    let spec = spec.ok_or_else(|| {
        EvalError::typed(format!(
            "format() argument 2 must be str, not {}",
            type_name(&args[1])
        ))
    })?;
    format::format(&args[0], spec, fuel).map(Value::from)
}

/// `types` is a name or several: Python's own names, the names of exceptions and their bases, or
/// tags.
fn isinstance(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    text::no_secret(&args[0])?;
    let single = [args[1].clone()];
    let names = py::sequence(&args[1]).map_or(&single[..], |names| names);
    let mut found = false;
    for name in names {
        let name = name
            .as_str()
            .ok_or_else(|| EvalError::typed("the names of types are text"))?;
        found |= is_instance(&args[0], name);
    }
    Ok(Value::Bool(found))
}

fn is_instance(value: &Value, name: &str) -> bool {
    match (name, value) {
        ("object", _) | ("int", Value::Bool(_)) | ("NoneType" | "None", Value::Null) => true,
        (_, Value::Tag(tag)) if &*tag.name == py::EXCEPTION => py::is_exception(&tag.value, name),
        (_, Value::Tag(tag)) => &*tag.name == name,
        (name, value) => type_name(value) == name,
    }
}

fn name_of_type(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    text::no_secret(&args[0])?;
    Ok(Value::from(type_name(&args[0])))
}

fn ord(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    let value = &args[0];
    if let Value::Bytes(bytes) = value {
        let wrong = || {
            EvalError::typed(format!(
                "ord() expected a character, but string of length {} found",
                bytes.len()
            ))
        };
        let [byte] = **bytes else { return Err(wrong()) };
        return Ok(Value::Int(byte.into()));
    }
    let Value::Str(text) = value else {
        text::no_secret(value)?;
        let message = format!(
            "ord() expected string of length 1, but {} found",
            type_name(value)
        );
        return Err(EvalError::typed(message));
    };
    let mut chars = text.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return Ok(Value::Int(i64::from(c as u32)));
    }
    let length = text.chars().count();
    Err(EvalError::typed(format!(
        "ord() expected a character, but string of length {length} found"
    )))
}

fn chr(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    let code = index(&args[0])?;
    if i32::try_from(code).is_err() {
        return Err(EvalError::new(
            ErrorKind::Overflow,
            "Python int too large to convert to C int",
        ));
    }
    let found = u32::try_from(code).ok().and_then(char::from_u32);
    let c = found.ok_or_else(|| EvalError::value("chr() arg not in range(0x110000)"))?;
    Ok(Value::str(c.encode_utf8(&mut [0; 4])))
}

fn based(args: &mut [Value], fuel: &mut Fuel, spec: &str) -> FunctionResult {
    let number = index(&args[0])?;
    format::format(&Value::Int(number), spec, fuel).map(Value::from)
}
