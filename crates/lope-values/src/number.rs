//! Floats as text and rounded: the same digits on every machine.
//!
//! Digits come from exact decimal conversion.

use lope_model::Value;

use crate::error::{ErrorKind, EvalError};

/// The shortest digits that read back as the same float, without sign or point, and the exponent of
/// the first one. Of two that are equally near, the even one.
fn shortest(number: f64) -> (String, i32) {
    let found = split_exponent(&format!("{:e}", number.abs()));
    // Fewer digits leave no room for two candidates.
    if found.0.len() < 16 {
        return found;
    }
    let rounded = significant(number, found.0.len());
    let reads_back = scientific(&rounded.0, rounded.1, 'e').parse() == Ok(number.abs());
    if reads_back { rounded } else { found }
}

/// The float with `count` digits (at least one), rounded exactly, ties to even.
pub fn significant(number: f64, count: usize) -> (String, i32) {
    split_exponent(&format!("{:.*e}", count.max(1) - 1, number.abs()))
}

fn split_exponent(text: &str) -> (String, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (digits.replace('.', ""), exponent.parse().unwrap_or(0))
}

/// Python's `repr` of a float.
pub fn repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    let (digits, exponent) = shortest(number);
    let body = if (-4..16).contains(&exponent) {
        let text = positional(&digits, exponent);
        if text.contains('.') {
            text
        } else {
            text + ".0"
        }
    } else {
        scientific(&digits, exponent, 'e')
    };
    format!("{sign}{body}")
}

/// Digits with a point where the exponent puts it.
pub fn positional(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{}.{}", &digits[..whole], &digits[whole..])
}

/// Digits with an exponent of at least two digits and a sign.
pub fn scientific(digits: &str, exponent: i32, letter: char) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}{letter}{sign}{:02}", exponent.abs())
}

/// A float rounded to `places` behind the point (before it, if negative), ties of the exact value
/// to even.
pub fn round_to(number: f64, places: i64) -> f64 {
    // No float has more than 1,074 digits behind the point, none more than 309 before it.
    if !number.is_finite() || places > 1_100 {
        return number;
    }
    if places < -310 {
        return 0.0_f64.copysign(number);
    }
    if places >= 0 {
        return format!("{number:.*}", places as usize)
            .parse()
            .unwrap_or(number);
    }
    round_tens(number, -places)
}

/// Rounds to a multiple of ten to the `power`, on the decimal digits of the whole part.
fn round_tens(number: f64, power: i64) -> f64 {
    let (digits, exponent) = significant(number, 800);
    let kept = i64::from(exponent) + 1 - power;
    if kept < 0 {
        return 0.0_f64.copysign(number);
    }
    let kept = kept as usize;
    let (head, tail) = digits.split_at(kept.min(digits.len()));
    let last_odd = head
        .bytes()
        .last()
        .is_some_and(|digit| (digit - b'0') % 2 == 1);
    let half = format!("5{}", "0".repeat(tail.len().saturating_sub(1)));
    let up = tail > &*half || (tail == half && last_odd);
    let mut head = head.as_bytes().to_vec();
    if up {
        increment(&mut head);
    }
    let digits = String::from_utf8(head).unwrap_or_default();
    let text = format!("{}e{power}", if digits.is_empty() { "0" } else { &digits });
    text.parse::<f64>().unwrap_or(number).copysign(number)
}

/// Adds one to a number in decimal digits.
fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

/// A whole float as an int.
pub fn float_to_int(number: f64) -> Result<Value, EvalError> {
    if number.is_nan() {
        return Err(EvalError::value("cannot convert float NaN to integer"));
    }
    if number.is_infinite() {
        return Err(EvalError::new(
            ErrorKind::Overflow,
            "cannot convert float infinity to integer",
        ));
    }
    if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
        return Err(EvalError::overflow());
    }
    Ok(Value::Int(number as i64))
}
