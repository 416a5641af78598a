//! What an unquoted scalar is: null, a bool, a number or text, by the core schema of YAML 1.2.
//!
//! `yes`, `on` and `no` are text. Numbers are those of the workflow language: 64-bit integers and
//! floats.

use lope_model::Value;

/// What an unquoted scalar turned out to be.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Scalar {
    Plain(Value),
    Text,
    /// An integer that 64 bits do not hold.
    TooLarge,
}

pub(super) fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Plain(Value::Null),
        "true" | "True" | "TRUE" => Scalar::Plain(Value::Bool(true)),
        "false" | "False" | "FALSE" => Scalar::Plain(Value::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => Scalar::Plain(Value::Float(f64::NAN)),
        _ => number(text),
    }
}

fn number(text: &str) -> Scalar {
    if let Some(digits) = text
        .strip_prefix("0x")
        .filter(|digits| is_digits(digits, 16))
    {
        return int(i64::from_str_radix(digits, 16));
    }
    if let Some(digits) = text
        .strip_prefix("0o")
        .filter(|digits| is_digits(digits, 8))
    {
        return int(i64::from_str_radix(digits, 8));
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if is_digits(unsigned, 10) {
        return int(text.parse());
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
        return Scalar::Plain(Value::Float(sign * f64::INFINITY));
    }
    match text.parse::<f64>() {
        Ok(float) if is_float(unsigned) => Scalar::Plain(Value::Float(float)),
        _ => Scalar::Text,
    }
}

fn int(parsed: Result<i64, std::num::ParseIntError>) -> Scalar {
    parsed.map_or(Scalar::TooLarge, |int| Scalar::Plain(Value::Int(int)))
}

fn is_digits(text: &str, radix: u32) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_digit(radix))
}

/// Only digits, at most one point, and an exponent: not the `inf` and `nan` that Rust would take.
fn is_float(text: &str) -> bool {
    text.chars().any(|c| c.is_ascii_digit())
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || ".eE+-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_what_the_core_schema_says() {
        for (text, expected) in [
            ("~", Scalar::Plain(Value::Null)),
            ("true", Scalar::Plain(Value::Bool(true))),
            ("yes", Scalar::Text),
            ("12", Scalar::Plain(Value::Int(12))),
            ("-7", Scalar::Plain(Value::Int(-7))),
            ("+7", Scalar::Plain(Value::Int(7))),
            ("0x1F", Scalar::Plain(Value::Int(31))),
            ("0o17", Scalar::Plain(Value::Int(15))),
            ("9223372036854775807", Scalar::Plain(Value::Int(i64::MAX))),
            ("-9223372036854775808", Scalar::Plain(Value::Int(i64::MIN))),
            ("9223372036854775808", Scalar::TooLarge),
            ("1.5", Scalar::Plain(Value::Float(1.5))),
            (".5", Scalar::Plain(Value::Float(0.5))),
            ("1e3", Scalar::Plain(Value::Float(1000.0))),
            ("-.inf", Scalar::Plain(Value::Float(f64::NEG_INFINITY))),
            (".nan", Scalar::Plain(Value::Float(f64::NAN))),
            ("inf", Scalar::Text),
            ("nan", Scalar::Text),
            ("5m", Scalar::Text),
            ("1_000", Scalar::Text),
            ("-", Scalar::Text),
            ("e5", Scalar::Text),
            ("1.2.3", Scalar::Text),
        ] {
            assert_eq!(resolve(text), expected, "{text}");
        }
    }
}
