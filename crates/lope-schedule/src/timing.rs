//! When the ticks of a schedule are: by a cron expression in a time zone, or at an interval. Pure.
//!
//! Cron follows the wall clock of its zone. Where the clock jumps, an expression that names its
//! minutes and hours without `*` ticks once for each time it names: a time that the clock leaps
//! over is moved to the end of the leap, one that comes twice is taken the first time. An
//! expression with a `*` in either ticks by what the clock shows: not in the leap, and in both of
//! two equal hours.

mod words;

use std::fmt;
use std::sync::Arc;

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions};
use jiff::SignedDuration;
use jiff::tz::{AmbiguousOffset, TimeZone};
use lope_expr::nearest;
use lope_model::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Shortest interval.
pub const EVERY_MIN: Span = Span::from_secs(1);
/// Most changes of a zone's clock that are looked beyond for a tick: more than any zone has in the
/// four years that a cron expression is searched for.
const CHANGES_MAX: usize = 64;
/// Names that stand for an expression.
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];
/// How many fields an expression has.
const FIELDS: usize = 5;
/// Most named times that lie before a time although they are shown after it: two days of minutes,
/// more than any clock is set back.
const PASSED_MAX: usize = 2 * 24 * 60;
const MILLISECOND: SignedDuration = SignedDuration::from_millis(1);

/// When ticks are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    Cron(Cron),
    /// Every so often, counted from a time that is itself a tick.
    Every {
        every: Span,
        anchor: Timestamp,
    },
}

/// A cron expression in a time zone.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "CronText", into = "CronText")]
pub struct Cron {
    written: CronText,
    /// Over times without a zone.
    table: Arc<Crontab>,
    zone: TimeZone,
    is_fixed: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct CronText {
    expression: String,
    zone: String,
}

/// Why a text says no times.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadTiming {
    #[error(
        "'{expression}' is no cron expression: {message}\n  {expression}\n  {:column$}^",
        ""
    )]
    Expression {
        expression: String,
        column: usize,
        message: String,
    },
    #[error("there is no time zone '{zone}'")]
    Zone {
        zone: String,
        nearest: Option<String>,
    },
    #[error("an interval of {every} is too short: at least {EVERY_MIN}")]
    TooOften { every: Span },
}

impl BadTiming {
    pub fn hint(&self) -> String {
        match self {
            Self::Expression { .. } => {
                "write minute hour day-of-month month day-of-week, as in '30 6 * * MON-FRI', or @hourly, \
                 @daily, @weekly, @monthly, @yearly"
                    .to_owned()
            }
            Self::Zone { nearest: Some(name), .. } => format!("did you mean {name}?"),
            Self::Zone { nearest: None, .. } => "write a name of the IANA list, as in Europe/Berlin or UTC".to_owned(),
            Self::TooOften { .. } => "a workflow that runs all the time can loop over a sleep".to_owned(),
        }
    }
}

impl Timing {
    /// At an interval: the first tick is at `anchor`.
    pub fn every(every: Span, anchor: Timestamp) -> Result<Self, BadTiming> {
        if every < EVERY_MIN {
            return Err(BadTiming::TooOften { every });
        }
        Ok(Self::Every { every, anchor })
    }

    pub fn cron(expression: &str, zone: &str) -> Result<Self, BadTiming> {
        Cron::parse(expression, zone).map(Self::Cron)
    }

    /// The first tick behind a time.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron) => cron.next(after),
            Self::Every { every, anchor } if after < *anchor => {
                Some(*anchor).filter(|_| *every > Span::ZERO)
            }
            Self::Every { every, anchor } => {
                let rounds = after.since(*anchor).millis().checked_div(every.millis())?;
                Some(anchor.plus(every.times(rounds.saturating_add(1))))
            }
        }
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron(cron) => write!(f, "{} {}", cron.written.expression, cron.written.zone),
            Self::Every { every, .. } => write!(f, "every {every}"),
        }
    }
}

impl Cron {
    pub fn parse(expression: &str, zone: &str) -> Result<Self, BadTiming> {
        let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
        let fields = spelt_out(&expression);
        let clock = TimeZone::get(zone).map_err(|_| unknown_zone(zone))?;
        let table = table(&expression, fields)?;
        let is_fixed = !fields.split(' ').take(2).any(|field| field.contains('*'));
        let zone = clock.iana_name().unwrap_or(zone).to_owned();
        Ok(Self {
            written: CronText { expression, zone },
            table: Arc::new(table),
            zone: clock,
            is_fixed,
        })
    }

    pub fn expression(&self) -> &str {
        &self.written.expression
    }

    pub fn zone(&self) -> &str {
        &self.written.zone
    }

    /// A time as the zone's clock shows it.
    pub fn show(&self, at: Timestamp) -> String {
        match jiff::Timestamp::from_millisecond(at.millis()) {
            Ok(time) => time
                .to_zoned(self.zone.clone())
                .strftime("%Y-%m-%dT%H:%M:%S%.f%:z")
                .to_string(),
            Err(_) => at.to_string(),
        }
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_millisecond(after.millis()).ok()?;
        let next = if self.is_fixed {
            self.next_named(after)
        } else {
            self.next_shown(after)
        };
        next.map(|next| Timestamp::from_millis(next.as_millisecond()))
    }

    /// The next time that is named: each has one place on the clock, in the same order.
    fn next_named(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let mut shown = self.shown_at(after)?;
        for _ in 0..PASSED_MAX {
            shown = self.behind(shown)?;
            let instant = self.instant(shown)?;
            if instant > after {
                return Some(instant);
            }
        }
        None
    }

    /// Where a shown time lies: the first of two, and the end of a leap for one that is leapt over.
    fn instant(&self, shown: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let found = self
            .zone
            .to_ambiguous_timestamp(shown.to_zoned(TimeZone::UTC).datetime());
        match found.offset() {
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
                found.earlier().ok()
            }
            AmbiguousOffset::Gap { .. } => {
                let behind = found.later().ok()?;
                self.zone
                    .preceding(behind)
                    .next()
                    .map(|change| change.timestamp())
            }
        }
    }

    /// The next time that the clock shows what is asked for. Between two changes of the zone it
    /// runs evenly.
    fn next_shown(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let mut base = after;
        let mut passed = self.shown_at(after)?;
        for _ in 0..CHANGES_MAX {
            let ahead = self.behind(passed)?.duration_since(self.shown_at(base)?);
            let next = base.checked_add(ahead).ok()?;
            match self
                .zone
                .following(base)
                .next()
                .map(|change| change.timestamp())
            {
                Some(change) if next >= change => {
                    // The change itself may be a tick.
                    (base, passed) = (
                        change,
                        self.shown_at(change)?.checked_sub(MILLISECOND).ok()?,
                    );
                }
                Some(_) | None => return Some(next),
            }
        }
        None
    }

    /// What the zone's clock shows, as if it were a time in UTC.
    fn shown_at(&self, at: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let offset = self.zone.to_offset(at).seconds();
        at.checked_add(SignedDuration::from_secs(offset.into()))
            .ok()
    }

    /// The first shown time behind another that the expression matches.
    fn behind(&self, shown: jiff::Timestamp) -> Option<jiff::Timestamp> {
        self.table
            .find_next(shown)
            .ok()
            .map(|found| found.timestamp())
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

impl TryFrom<CronText> for Cron {
    type Error = BadTiming;

    fn try_from(written: CronText) -> Result<Self, BadTiming> {
        Self::parse(&written.expression, &written.zone)
    }
}

impl From<Cron> for CronText {
    fn from(cron: Cron) -> Self {
        cron.written
    }
}

fn spelt_out(expression: &str) -> &str {
    let known = NICKNAMES
        .iter()
        .find(|(nickname, _)| nickname.eq_ignore_ascii_case(expression));
    known.map_or(expression, |(_, fields)| fields)
}

fn table(expression: &str, fields: &str) -> Result<Crontab, BadTiming> {
    let bad = |column, message: &str| {
        let (expression, message) = (expression.to_owned(), message.to_owned());
        BadTiming::Expression {
            expression,
            column,
            message,
        }
    };
    if fields.starts_with('@') {
        return Err(bad(0, "it is none of the known names"));
    }
    match fields.split(' ').count() {
        _ if fields.is_empty() => return Err(bad(0, "it is empty")),
        count if count < FIELDS => {
            return Err(bad(
                fields.len(),
                &format!("it has {count} of {FIELDS} fields"),
            ));
        }
        count if count > FIELDS => {
            let sixth = fields
                .match_indices(' ')
                .nth(FIELDS - 1)
                .map_or(0, |(column, _)| column + 1);
            return Err(bad(
                sixth,
                &format!("it has {count} fields, {FIELDS} are known"),
            ));
        }
        _ => {}
    }
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    cronexpr::parse_crontab_with(fields, options).map_err(|error| {
        let (column, message) = told(&error.to_string());
        bad(column, &message)
    })
}

/// The place and the reason of what the parser says: a line with the expression, one with a mark
/// and words.
fn told(error: &str) -> (usize, String) {
    let marked = error
        .lines()
        .find(|line| line.trim_start().starts_with("^ "));
    match marked.and_then(|line| Some((line.find('^')?, line.split_once("^ ")?.1))) {
        Some((column, words)) => (column, words.to_owned()),
        None => (0, error.lines().last().unwrap_or(error).to_owned()),
    }
}

fn unknown_zone(zone: &str) -> BadTiming {
    let names: Vec<String> = jiff::tz::db()
        .available()
        .map(|name| name.as_str().to_owned())
        .collect();
    let is_end = |name: &&String| {
        name.rsplit('/')
            .next()
            .is_some_and(|end| end.eq_ignore_ascii_case(zone))
    };
    let found = names.iter().find(is_end).map(String::as_str);
    let nearest = found
        .or_else(|| nearest(zone, names.iter().map(String::as_str)))
        .map(str::to_owned);
    BadTiming::Zone {
        zone: zone.to_owned(),
        nearest,
    }
}

#[cfg(test)]
mod tests;
