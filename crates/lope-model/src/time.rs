//! Time as data: UTC milliseconds, spans with the suffixes users type, and the two readings of a
//! store's clock.
//!
//! Nobody in this crate reads a clock; one is handed in as a `Clock`.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A time as people mean it: UTC, in milliseconds since 1970.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// A reading of the clock that judges leases: milliseconds that no change of the wall clock moves.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub i64);

/// A length of time in milliseconds, never negative; typed as `250ms`, `30s`, `5m`, `2h`, `7d`, or
/// `1h30m`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(u64);

/// A text that is not a span.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a duration: write 250ms, 30s, 5m, 2h, 7d or a sum such as 1h30m")]
pub struct BadSpan(String);

/// A text that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a time: write RFC 3339, as in 2026-01-31T09:30:00Z")]
pub struct BadTimestamp(String);

/// The clock of a store: what time it is, and the moment that judges leases.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;
    fn moment(&self) -> Moment;
}

impl Timestamp {
    /// Later than anything: due never by itself.
    pub const NEVER: Self = Self(i64::MAX);
    pub const EPOCH: Self = Self(0);

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add_unsigned(span.0))
    }

    #[must_use]
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub_unsigned(span.0))
    }

    /// How long from `earlier` to this time; nothing if it is not earlier.
    pub const fn since(self, earlier: Self) -> Span {
        let millis = self.0.saturating_sub(earlier.0);
        Span(if millis > 0 {
            millis.cast_unsigned()
        } else {
            0
        })
    }
}

impl Moment {
    /// How long from `earlier` to this moment; nothing if it is not earlier.
    pub const fn since(self, earlier: Self) -> Span {
        Timestamp(self.0).since(Timestamp(earlier.0))
    }

    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add_unsigned(span.0))
    }
}

impl Span {
    pub const ZERO: Self = Self(0);
    const UNITS: [(&'static str, u64); 5] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    pub const fn millis(self) -> u64 {
        self.0
    }

    pub const fn to_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    fn unit(name: &str) -> Option<u64> {
        Self::UNITS
            .iter()
            .find(|(unit, _)| *unit == name)
            .map(|(_, millis)| *millis)
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        parse_span(text).ok_or_else(|| BadSpan(text.to_owned()))
    }
}

/// Digits (with a decimal part if wanted) and a unit, one or more times, each unit smaller than the
/// one before.
fn parse_span(text: &str) -> Option<Span> {
    let mut rest = text.trim_ascii();
    let mut total = 0_u64;
    let mut larger = u64::MAX;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (name, next) = tail.split_at(letters);
        let unit = Span::unit(name).filter(|unit| *unit < larger)?;
        total = total.checked_add(scale(number, unit)?)?;
        larger = unit;
        rest = next;
    }
    Some(Span(total))
}

fn scale(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let mut millis = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if number.contains('.') {
        let digits = u32::try_from(part.len())
            .ok()
            .filter(|len| (1..=9).contains(len))?;
        millis = millis
            .checked_add(part.parse::<u64>().ok()?.checked_mul(unit)? / 10_u64.pow(digits))?;
    }
    Some(millis)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (name, millis) in Self::UNITS {
            if rest >= millis {
                write!(f, "{}{name}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        let time: jiff::Timestamp = text
            .trim_ascii()
            .parse()
            .map_err(|_| BadTimestamp(text.to_owned()))?;
        Ok(Self(time.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => f.write_str("never"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_users_type_them() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            ("0s", 0),
        ] {
            assert_eq!(text.parse::<Span>(), Ok(Span(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "5x",
            "-5s",
            "1s1h",
            "5 s",
            "1..5s",
            "999999999999d",
            "1.s",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn spans_and_times_are_written_as_they_are_read() {
        assert_eq!(Span(5_400_250).to_string(), "1h30m250ms");
        let time: Timestamp = "2026-01-31T09:30:00.250Z".parse().unwrap();
        assert_eq!(time.to_string(), "2026-01-31T09:30:00.250Z");
        assert_eq!(
            "2026-01-31T10:30:00.25+01:00".parse::<Timestamp>(),
            Ok(time)
        );
        assert!("yesterday".parse::<Timestamp>().is_err());
        assert_eq!(Timestamp::NEVER.to_string(), "never");
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::NEVER.plus(Span::from_secs(1)), Timestamp::NEVER);
        assert_eq!(
            Timestamp::from_millis(5).since(Timestamp::from_millis(9)),
            Span::ZERO
        );
        assert_eq!(Span::from_secs(u64::MAX), Span(u64::MAX));
    }
}
