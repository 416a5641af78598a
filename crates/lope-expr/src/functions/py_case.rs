//! Methods of Python's str about case, padding and kinds of characters, and the few methods of
//! numbers.

use lope_model::Value;
use lope_values::py::{self, is_space, type_name};
use lope_values::{EvalError, Fuel, unicode};

use super::arguments::no_method;
use super::py_builtin::int;
use super::py_text::receiver;
use super::{FunctionEntry, FunctionKind::PyMethod, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("py.m.lower", "text", PyMethod, |args, fuel| {
        mapped(args, fuel, "lower", unicode::to_lowercase)
    }),
    line("py.m.upper", "text", PyMethod, |args, fuel| {
        mapped(args, fuel, "upper", unicode::to_uppercase)
    }),
    line("py.m.casefold", "text", PyMethod, |args, fuel| {
        mapped(args, fuel, "casefold", casefold)
    }),
    line("py.m.capitalize", "text", PyMethod, |args, fuel| {
        mapped(args, fuel, "capitalize", capitalize)
    }),
    line("py.m.title", "text", PyMethod, |args, fuel| {
        mapped(args, fuel, "title", title)
    }),
    line("py.m.swapcase", "text", PyMethod, |args, fuel| {
        mapped(args, fuel, "swapcase", swapcase)
    }),
    line(
        "py.m.ljust",
        "text, width, fillchar=' '",
        PyMethod,
        |args, fuel| padded(args, fuel, "ljust"),
    ),
    line(
        "py.m.rjust",
        "text, width, fillchar=' '",
        PyMethod,
        |args, fuel| padded(args, fuel, "rjust"),
    ),
    line(
        "py.m.center",
        "text, width, fillchar=' '",
        PyMethod,
        |args, fuel| padded(args, fuel, "center"),
    ),
    line("py.m.zfill", "text, width", PyMethod, zfill),
    line("py.m.expandtabs", "text, tabsize=8", PyMethod, expandtabs),
    line("py.m.isalpha", "text", PyMethod, |args, fuel| {
        every(args, fuel, "isalpha", is_letter)
    }),
    line("py.m.isalnum", "text", PyMethod, |args, fuel| {
        every(args, fuel, "isalnum", unicode::is_alphanumeric)
    }),
    line("py.m.isdigit", "text", PyMethod, |args, fuel| {
        every(args, fuel, "isdigit", py::is_digit)
    }),
    line("py.m.isdecimal", "text", PyMethod, |args, fuel| {
        every(args, fuel, "isdecimal", |c| py::decimal(c).is_some())
    }),
    line("py.m.isnumeric", "text", PyMethod, |args, fuel| {
        every(args, fuel, "isnumeric", unicode::is_numeric)
    }),
    line("py.m.isspace", "text", PyMethod, |args, fuel| {
        every(args, fuel, "isspace", is_space)
    }),
    line("py.m.isascii", "text", PyMethod, |args, fuel| {
        asked(args, fuel, "isascii", str::is_ascii)
    }),
    line("py.m.isprintable", "text", PyMethod, |args, fuel| {
        asked(args, fuel, "isprintable", printable)
    }),
    line("py.m.isidentifier", "text", PyMethod, |args, fuel| {
        asked(args, fuel, "isidentifier", identifier)
    }),
    line("py.m.islower", "text", PyMethod, |args, fuel| {
        asked(args, fuel, "islower", |text| {
            all_cased(text, unicode::is_lowercase)
        })
    }),
    line("py.m.isupper", "text", PyMethod, |args, fuel| {
        asked(args, fuel, "isupper", |text| {
            all_cased(text, unicode::is_uppercase)
        })
    }),
    line("py.m.istitle", "text", PyMethod, |args, fuel| {
        asked(args, fuel, "istitle", is_title)
    }),
    line("py.m.is_integer", "number", PyMethod, is_integer),
    line("py.m.bit_length", "number", PyMethod, bit_length),
];

fn mapped(
    args: &mut [Value],
    fuel: &mut Fuel,
    name: &str,
    change: impl Fn(&str) -> String,
) -> FunctionResult {
    receiver(args, name, fuel).map(|text| Value::from(change(text)))
}

fn asked(
    args: &mut [Value],
    fuel: &mut Fuel,
    name: &str,
    question: impl Fn(&str) -> bool,
) -> FunctionResult {
    receiver(args, name, fuel).map(|text| Value::Bool(question(text)))
}

fn every(
    args: &mut [Value],
    fuel: &mut Fuel,
    name: &str,
    fits: impl Fn(char) -> bool,
) -> FunctionResult {
    asked(args, fuel, name, |text| {
        !text.is_empty() && text.chars().all(&fits)
    })
}

/// Lower case, and the letters whose folding differs from it in common scripts.
fn casefold(text: &str) -> String {
    unicode::to_lowercase(text)
        .replace('ß', "ss")
        .replace('ς', "σ")
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => titled(first) + &unicode::to_lowercase(chars.as_str()),
        None => String::new(),
    }
}

/// A character as the first of a word: of a letter that becomes several, only the first with case
/// is upper case.
fn titled(c: char) -> String {
    let mut titled = String::new();
    let mut done = false;
    for upper in unicode::upper(c) {
        if done {
            titled.extend(unicode::lower(upper));
        } else {
            titled.push(upper);
        }
        done |= is_cased(upper);
    }
    titled
}

fn is_cased(c: char) -> bool {
    unicode::is_lowercase(c) || unicode::is_uppercase(c)
}

fn title(text: &str) -> String {
    let mut titled_text = String::new();
    let mut inside = false;
    for c in text.chars() {
        if inside {
            titled_text.extend(unicode::lower(c));
        } else {
            titled_text.push_str(&titled(c));
        }
        inside = is_cased(c);
    }
    titled_text
}

fn swapcase(text: &str) -> String {
    let swap = |c: char| {
        if unicode::is_uppercase(c) {
            unicode::lower(c).collect::<String>()
        } else {
            unicode::upper(c).collect()
        }
    };
    text.chars().map(swap).collect()
}

fn padded(args: &mut [Value], fuel: &mut Fuel, name: &str) -> FunctionResult {
    let text = receiver(args, name, fuel)?;
    let width = int(&args[1])?.max(0);
    let fill = match args.get(2) {
        None => " ",
        Some(Value::Str(fill)) if fill.chars().count() == 1 => fill,
        Some(Value::Str(_)) => {
            return Err(EvalError::typed(
                "The fill character must be exactly one character long",
            ));
        }
        Some(other) => {
            let message = format!(
                "The fill character must be a unicode character, not {}",
                type_name(other)
            );
            return Err(EvalError::typed(message));
        }
    };
    let missing = (width - text.chars().count() as i64).max(0);
    fuel.grow(missing.unsigned_abs().saturating_mul(fill.len() as u64))?;
    let left = match name {
        "ljust" => 0,
        "rjust" => missing,
        // Of an odd number Python puts the larger half left or right depending on the width.
        _ => missing / 2 + (missing & width & 1),
    };
    let fills = |count: i64| fill.repeat(count as usize);
    Ok(Value::from(format!(
        "{}{text}{}",
        fills(left),
        fills(missing - left)
    )))
}

fn zfill(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let text = receiver(args, "zfill", fuel)?;
    let missing = (int(&args[1])?.max(0) - text.chars().count() as i64).max(0);
    fuel.grow(missing.unsigned_abs())?;
    let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
    Ok(Value::from(format!(
        "{sign}{}{digits}",
        "0".repeat(missing as usize)
    )))
}

fn expandtabs(args: &mut [Value], fuel: &mut Fuel) -> FunctionResult {
    let size = args.get(1).map_or(Ok(8), int)?.max(0);
    let text = receiver(args, "expandtabs", fuel)?;
    let mut expanded = String::new();
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' if size == 0 => {}
            '\t' => {
                let blanks = size - column % size;
                fuel.grow(blanks.unsigned_abs())?;
                expanded.push_str(&" ".repeat(blanks as usize));
                column += blanks;
            }
            c => {
                expanded.push(c);
                column = if matches!(c, '\n' | '\r') {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    Ok(Value::from(expanded))
}

/// Numerals such as Ⅳ count as alphabetic, but are no letters to Python.
fn is_letter(c: char) -> bool {
    unicode::is_alphabetic(c) && !unicode::is_numeric(c)
}

fn printable(text: &str) -> bool {
    text.chars().all(py::is_printable)
}

fn identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|c| unicode::is_alphabetic(c) || c == '_')
        && chars.all(|c| unicode::is_alphabetic(c) || py::decimal(c).is_some() || c == '_')
}

fn all_cased(text: &str, wanted: impl Fn(char) -> bool) -> bool {
    let mut cased = text.chars().filter(|c| is_cased(*c)).peekable();
    cased.peek().is_some() && cased.all(wanted)
}

fn is_title(text: &str) -> bool {
    let (mut inside, mut seen) = (false, false);
    for c in text.chars() {
        if (unicode::is_uppercase(c) && inside) || (unicode::is_lowercase(c) && !inside) {
            return false;
        }
        inside = is_cased(c);
        seen |= inside;
    }
    seen
}

fn is_integer(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match &args[0] {
        Value::Float(number) => Ok(Value::Bool(number.is_finite() && number.fract() == 0.0)),
        other => Err(no_method(other, "is_integer")),
    }
}

fn bit_length(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    match py::int(&args[0]) {
        Some(number) => Ok(Value::Int(i64::from(
            64 - number.unsigned_abs().leading_zeros(),
        ))),
        None => Err(no_method(&args[0], "bit_length")),
    }
}
