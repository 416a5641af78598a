//! Numbers as they are written, in tens: 0.3 is three tenths, so that it is a multiple of 0.1.

use lope_model::Value;

/// So many times ten to the power of this. Signs do not matter to multiples.
#[derive(Clone, Copy)]
pub(super) struct Decimal {
    digits: u128,
    exponent: i32,
}

/// The number with the fewest digits that a value is read from; nothing if it is none.
pub(super) fn of(value: &Value) -> Option<Decimal> {
    match value {
        Value::Int(number) => Some(Decimal {
            digits: u128::from(number.unsigned_abs()),
            exponent: 0,
        }),
        Value::Float(number) => written(number.abs()),
        Value::Null
        | Value::Bool(_)
        | Value::Str(_)
        | Value::Bytes(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Tag(_) => None,
    }
}

fn written(number: f64) -> Option<Decimal> {
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    Some(Decimal {
        digits: format!("{whole}{fraction}").parse().ok()?,
        exponent: exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?,
    })
}

/// Every number is taken for a multiple of 0: such a step says nothing.
pub(super) fn is_multiple(value: Decimal, step: Decimal) -> bool {
    if value.digits == 0 || step.digits == 0 {
        return true;
    }
    let shift = value.exponent.abs_diff(step.exponent);
    if value.exponent >= step.exponent {
        // Both are below 2^64: no product overflows.
        let mut rest = value.digits % step.digits;
        for _ in 0..shift {
            rest = rest * 10 % step.digits;
        }
        return rest == 0;
    }
    // A step of more digits than a value has is larger than it.
    let step = 10_u128
        .checked_pow(shift)
        .and_then(|tens| step.digits.checked_mul(tens));
    step.is_some_and(|step| value.digits.is_multiple_of(step))
}
