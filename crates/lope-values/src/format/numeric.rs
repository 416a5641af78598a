//! Numbers by format spec: bases, signs, groups, fixed, scientific and general notation, percent.

use lope_model::Value;

use super::{PRECISION_MAX, Spec, unknown_code};
use crate::error::{ErrorKind, EvalError};
use crate::fuel::Fuel;
use crate::{number, py};

pub(super) fn format_int(value: &Value, text: &str, fuel: &mut Fuel) -> Result<String, EvalError> {
    let spec = Spec::parse(text, value)?;
    let number = py::int(value).unwrap_or_default();
    let code = match spec.kind {
        Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => {
            return format_float(number as f64, value, text, fuel);
        }
        None => 'd',
        Some(code) => code,
    };
    if !"bcdnoxX".contains(code) {
        return Err(unknown_code(code, value));
    }
    if spec.precision.is_some() {
        return Err(EvalError::value(
            "Precision not allowed in integer format specifier",
        ));
    }
    if code == 'c' {
        return format_char(number, &spec, fuel);
    }
    let size = number.unsigned_abs();
    let (prefix, digits, group) = match code {
        'd' | 'n' => ("", size.to_string(), 3),
        'b' => ("0b", format!("{size:b}"), 4),
        'o' => ("0o", format!("{size:o}"), 4),
        'x' => ("0x", format!("{size:x}"), 4),
        _ => ("0X", format!("{size:X}"), 4),
    };
    let lead = format!(
        "{}{}",
        sign(&spec, number < 0),
        if spec.alternate { prefix } else { "" }
    );
    grouped(
        &spec,
        &lead,
        Digits {
            whole: &digits,
            rest: "",
            group,
        },
        fuel,
    )
}

fn format_char(code: i64, spec: &Spec, fuel: &mut Fuel) -> Result<String, EvalError> {
    if spec.sign.is_some() {
        return Err(EvalError::value(
            "Sign not allowed with integer format specifier 'c'",
        ));
    }
    if spec.alternate {
        return Err(EvalError::value(
            "Alternate form (#) not allowed with integer format specifier 'c'",
        ));
    }
    let found = u32::try_from(code).ok().and_then(char::from_u32);
    let c = found
        .ok_or_else(|| EvalError::new(ErrorKind::Overflow, "%c arg not in range(0x110000)"))?;
    spec.pad("", c.encode_utf8(&mut [0; 4]), '>', fuel)
}

fn sign(spec: &Spec, negative: bool) -> &'static str {
    match (negative, spec.sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    }
}

/// A number's digits before the point, what follows them, and how many stand in a group.
struct Digits<'t> {
    whole: &'t str,
    rest: &'t str,
    group: usize,
}

/// Whole digits in groups, padded to the width (zeros get separators too), with what follows them.
fn grouped(
    spec: &Spec,
    lead: &str,
    parts: Digits<'_>,
    fuel: &mut Fuel,
) -> Result<String, EvalError> {
    let Digits { whole, rest, group } = parts;
    let Some(separator) = spec.grouping else {
        return spec.pad(lead, &format!("{whole}{rest}"), '>', fuel);
    };
    let mut digits = whole.to_owned();
    if spec.align == Some('=') && spec.fill == Some('0') {
        let room = spec.width.saturating_sub(lead.len() + rest.len());
        fuel.grow(room as u64)?;
        while with_groups(digits.len(), group) < room {
            digits.insert(0, '0');
        }
    }
    let mut body = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(group) {
            body.push(separator);
        }
        body.push(digit);
    }
    spec.pad(lead, &(body + rest), '>', fuel)
}

const fn with_groups(digits: usize, group: usize) -> usize {
    digits + digits.saturating_sub(1) / group
}

pub(super) fn format_float(
    number: f64,
    value: &Value,
    text: &str,
    fuel: &mut Fuel,
) -> Result<String, EvalError> {
    let spec = Spec::parse(text, value)?;
    let precision = spec.precision.unwrap_or(6);
    if precision > PRECISION_MAX {
        return Err(EvalError::value("precision too big"));
    }
    let lead = sign(&spec, number.is_sign_negative() && !number.is_nan());
    let size = number.abs();
    let body = match spec.kind {
        Some(code) if !"eEfFgGn%".contains(code) => return Err(unknown_code(code, value)),
        kind if !number.is_finite() => not_finite(size, kind),
        None if spec.precision.is_none() => number::repr(size),
        None => general(size, precision.max(1), &spec, true),
        Some('e' | 'E') => exponent(size, precision, spec.alternate),
        Some('%') => with_point(format!("{:.precision$}", size * 100.0), spec.alternate) + "%",
        Some('f' | 'F') => with_point(format!("{size:.precision$}"), spec.alternate),
        Some(_) => general(size, precision.max(1), &spec, false),
    };
    let body = if matches!(spec.kind, Some('E' | 'F' | 'G')) {
        body.to_ascii_uppercase()
    } else {
        body
    };
    let whole = body
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(body.len());
    if whole == 0 {
        return Spec {
            grouping: None,
            ..spec
        }
        .pad(lead, &body, '>', fuel);
    }
    grouped(
        &spec,
        lead,
        Digits {
            whole: &body[..whole],
            rest: &body[whole..],
            group: 3,
        },
        fuel,
    )
}

fn not_finite(size: f64, kind: Option<char>) -> String {
    let word = if size.is_nan() { "nan" } else { "inf" };
    if kind == Some('%') {
        format!("{word}%")
    } else {
        word.into()
    }
}

fn with_point(text: String, alternate: bool) -> String {
    if alternate && !text.contains('.') {
        text + "."
    } else {
        text
    }
}

fn exponent(size: f64, precision: usize, alternate: bool) -> String {
    let (digits, exponent) = number::significant(size, precision + 1);
    let text = number::scientific(&digits, exponent, 'e');
    if alternate && precision == 0 {
        text.replace('e', ".e")
    } else {
        text
    }
}

/// `g`: fixed or scientific, whichever suits the exponent, without trailing zeros. Without a type
/// (`like_repr`) at least one digit stands behind the point.
fn general(size: f64, precision: usize, spec: &Spec, like_repr: bool) -> String {
    let (mut digits, exponent) = if size == 0.0 {
        ("0".repeat(precision), 0)
    } else {
        number::significant(size, precision)
    };
    if !spec.alternate {
        let kept = digits.trim_end_matches('0').len().max(1);
        digits.truncate(kept);
    }
    // Without a type, one digit fewer fits before the exponent is used.
    let most = precision as i32 - i32::from(like_repr);
    if exponent < -4 || exponent >= most {
        let text = number::scientific(&digits, exponent, 'e');
        return if spec.alternate && digits.len() == 1 {
            text.replace('e', ".e")
        } else {
            text
        };
    }
    let text = number::positional(&digits, exponent);
    if like_repr && !text.contains('.') {
        text + ".0"
    } else {
        with_point(text, spec.alternate)
    }
}
