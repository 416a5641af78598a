//! Numbers as JSON has them: one kind, whether written `1`, `1.0` or `1e0`.
//!
//! Whole numbers of up to 64 bits are kept exactly; all others are finite floats. Each number has
//! one representation, so that equality and digests need no rounding.

use std::fmt;

/// A finite number.
#[derive(Clone, Copy, PartialEq)]
pub struct Number(Repr);

#[derive(Clone, Copy, PartialEq)]
enum Repr {
    Int(i64),
    Float(f64),
}

/// Floats up to here hold every whole number exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// The number of a float; none for infinities and what is not a number.
    pub fn from_f64(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let whole = is_whole(value) && value.abs() <= EXACT;
        Some(Self(if whole {
            Repr::Int(value as i64)
        } else {
            Repr::Float(value)
        }))
    }

    /// The number as a whole number, if it is one of 64 bits.
    pub const fn as_int(self) -> Option<i64> {
        match self.0 {
            Repr::Int(value) => Some(value),
            Repr::Float(_) => None,
        }
    }

    /// The number as a float; whole numbers beyond 2^53 are rounded.
    pub const fn as_f64(self) -> f64 {
        match self.0 {
            Repr::Int(value) => value as f64,
            Repr::Float(value) => value,
        }
    }

    /// Whether JSON Schema calls it an integer.
    pub fn is_integer(self) -> bool {
        self.as_int().is_some() || is_whole(self.as_f64())
    }

    /// The sum, exact while both are whole and it fits; none if it is no longer finite.
    pub fn plus(self, other: Self) -> Option<Self> {
        match (self.0, other.0) {
            (Repr::Int(a), Repr::Int(b)) if a.checked_add(b).is_some() => Some((a + b).into()),
            _ => Self::from_f64(self.as_f64() + other.as_f64()),
        }
    }
}

fn is_whole(value: f64) -> bool {
    value.fract().abs() < f64::MIN_POSITIVE
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(Repr::Int(value))
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Repr::Int(value) => write!(f, "{value}"),
            Repr::Float(value) => write!(f, "{value}"),
        }
    }
}
