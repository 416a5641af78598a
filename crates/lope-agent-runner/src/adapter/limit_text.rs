//! Usage limits in words: what tools print when they have no event for them, with the time at which
//! work may go on.

use jiff::ToSpan;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use lope_model::{Span, Timestamp};

use super::{SaidAt, UsageLimit};

/// How the tools' own messages about a limit begin, in small letters. A text that only speaks of
/// limits is none: an agent may be at work on one.
const BEGINNINGS: [&str; 8] = [
    "you've hit your limit",
    "you've hit your usage limit",
    "claude ai usage limit reached|",
    "usage limit reached|",
    "you have exhausted your daily quota",
    "you have exhausted your capacity",
    "you exceeded your current quota",
    "quota exceeded for quota metric",
];
/// What tools write before them.
const PREFIXES: [&str; 4] = ["error:", "api error:", "[api error:", "failed:"];
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// Does a text say that a usage limit is reached?
pub fn usage_limit(text: &str, at: &SaidAt) -> Option<UsageLimit> {
    let lower = text.to_lowercase().replace('’', "'");
    let said = without_prefix(&lower);
    BEGINNINGS.iter().find(|form| said.starts_with(**form))?;
    let reset = seconds_after_bar(&lower)
        .or_else(|| retry_in(&lower, at))
        .or_else(|| {
            let after = |words: &str| lower.split_once(words).map(|(_, rest)| rest.to_owned());
            let rest = after("resets ").or_else(|| after("try again at "))?;
            clock_time(&rest, text, at)
        });
    Some(UsageLimit { reset })
}

fn without_prefix(text: &str) -> &str {
    let text = text.trim_start();
    let mut known = PREFIXES.iter();
    let rest = known.find_map(|prefix| text.strip_prefix(prefix));
    rest.unwrap_or(text).trim_start()
}

/// `…limit reached|1762952400`
fn seconds_after_bar(text: &str) -> Option<Timestamp> {
    let (_, rest) = text.split_once('|')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let seconds: i64 = digits.parse().ok()?;
    Some(Timestamp::from_millis(seconds.checked_mul(1_000)?))
}

/// `retry in 12s`
fn retry_in(text: &str, at: &SaidAt) -> Option<Timestamp> {
    let (_, rest) = text.split_once("retry in ")?;
    let word = rest.split_whitespace().next()?.trim_end_matches('.');
    Some(at.now.plus(word.parse::<Span>().ok()?))
}

/// `4pm (Asia/Kuala_Lumpur)`, `apr 23 at 4:30pm (zone)`, `3:05 pm.`, `apr 23rd, 2026 3:05 pm`
fn clock_time(rest: &str, text: &str, at: &SaidAt) -> Option<Timestamp> {
    let zone = named_zone(text).unwrap_or_else(|| at.zone.clone());
    let now = jiff::Timestamp::from_millisecond(at.now.millis()).ok()?;
    let today = now.to_zoned(zone.clone()).date();
    let (date, time) = read_words(rest, today)?;
    let moment = |date: Date| {
        let zoned = date.to_datetime(time).to_zoned(zone.clone()).ok()?;
        Some(zoned.timestamp())
    };
    let mut found = moment(date.unwrap_or(today))?;
    // A time without a day is the next one of its kind; a day without a year likewise.
    if found <= now {
        found = moment(match date {
            None => today.checked_add(1.day()).ok()?,
            Some(date) if date.year() == today.year() => date.checked_add(1.year()).ok()?,
            Some(date) => date,
        })?;
    }
    Some(Timestamp::from_millis(found.as_millisecond()))
}

/// The zone in parentheses.
fn named_zone(text: &str) -> Option<TimeZone> {
    let (_, rest) = text.split_once('(')?;
    let (name, _) = rest.split_once(')')?;
    TimeZone::get(name).ok()
}

fn read_words(rest: &str, today: Date) -> Option<(Option<Date>, Time)> {
    let mut words = rest.split_whitespace().peekable();
    let mut date = None;
    let month = words.peek().and_then(|word| month(word));
    if let Some(month) = month {
        words.next();
        let day = words.next()?;
        let day: String = day.chars().take_while(char::is_ascii_digit).collect();
        let year = words.peek().filter(|word| word.len() == 4);
        let year = year.and_then(|word| word.parse::<i16>().ok());
        if year.is_some() {
            words.next();
        }
        let year = year.unwrap_or_else(|| today.year());
        date = Some(Date::new(year, month, day.parse().ok()?).ok()?);
        words.next_if_eq(&"at");
    }
    let word = words.next()?;
    let half = words.next().unwrap_or_default();
    Some((date, time(word, half)?))
}

fn month(word: &str) -> Option<i8> {
    let known = MONTHS.iter().position(|name| word.get(..3) == Some(name));
    known.and_then(|place| i8::try_from(place + 1).ok())
}

/// `4pm`, `4:30pm`, or `3:05` with `pm` behind it.
fn time(word: &str, half: &str) -> Option<Time> {
    let word = word.trim_end_matches(['.', ',']);
    let half = half.trim_end_matches(['.', ',']);
    let (digits, half) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(digits), _) => (digits, "am"),
        (_, Some(digits)) => (digits, "pm"),
        (None, None) => (word, half),
    };
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, "0"));
    let (hour, minute): (i8, i8) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match (half, hour) {
        ("am", 12) => 0,
        ("pm", 1..=11) => hour + 12,
        _ => hour,
    };
    Time::new(hour, minute, 0, 0).ok()
}
