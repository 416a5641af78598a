//! Times and spans for text expressions: made from text or milliseconds, taken apart in UTC. Their
//! arithmetic is in `arithmetic`, their text form in `text`.

use lope_model::{Span, Timestamp, Value};
use lope_values::text::{SPAN, TIME, no_secret};
use lope_values::{EvalError, Fuel};

use super::{FunctionEntry, FunctionKind::Function, FunctionKind::Method, FunctionResult, line};

pub(super) const TABLE: &[FunctionEntry] = &[
    line("timestamp", "value", Function, timestamp),
    line("duration", "value", Function, duration),
    line("millis", "value", Method, |args, _| {
        moment(&args[0]).map(|(_, millis)| Value::Int(millis))
    }),
    line("getFullYear", "time", Method, |args, _| {
        date(&args[0], |date| date.year)
    }),
    line("getMonth", "time", Method, |args, _| {
        date(&args[0], |date| date.month - 1)
    }),
    line("getDate", "time", Method, |args, _| {
        date(&args[0], |date| date.day)
    }),
    line("getDayOfMonth", "time", Method, |args, _| {
        date(&args[0], |date| date.day - 1)
    }),
    line("getDayOfWeek", "time", Method, |args, _| {
        date(&args[0], |date| (date.days + 4).rem_euclid(7))
    }),
    line("getDayOfYear", "time", Method, |args, _| {
        date(&args[0], |date| date.days - days_before(date.year, 1, 1))
    }),
    line("getHours", "value", Method, |args, _| {
        clock(&args[0], 3_600_000, 24)
    }),
    line("getMinutes", "value", Method, |args, _| {
        clock(&args[0], 60_000, 60)
    }),
    line("getSeconds", "value", Method, |args, _| {
        clock(&args[0], 1_000, 60)
    }),
    line("getMilliseconds", "value", Method, |args, _| {
        clock(&args[0], 1, 1_000)
    }),
];

fn timestamp(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    let millis = match &args[0] {
        Value::Str(text) => text
            .parse::<Timestamp>()
            .map_err(|error| EvalError::value(error.to_string()))?
            .millis(),
        Value::Int(millis) => *millis,
        other => moment(other).and_then(|(kind, millis)| wanted(kind, TIME).map(|()| millis))?,
    };
    Ok(Value::tag(TIME, Value::Int(millis)))
}

fn duration(args: &mut [Value], _: &mut Fuel) -> FunctionResult {
    let millis = match &args[0] {
        Value::Str(text) => {
            let (sign, size) = text
                .strip_prefix('-')
                .map_or((1, &**text), |size| (-1, size));
            let span: Span = size.parse().map_err(|_| {
                EvalError::value(format!(
                    "'{text}' is not a duration: write 90s, 5m or 1h30m"
                ))
            })?;
            sign * i64::try_from(span.millis())
                .map_err(|_| EvalError::value(format!("'{text}' is too long a duration")))?
        }
        Value::Int(millis) => *millis,
        other => moment(other).and_then(|(kind, millis)| wanted(kind, SPAN).map(|()| millis))?,
    };
    Ok(Value::tag(SPAN, Value::Int(millis)))
}

fn wanted(kind: &str, wanted: &str) -> Result<(), EvalError> {
    if kind == wanted {
        Ok(())
    } else {
        Err(EvalError::typed(format!(
            "a {wanted} expected, not a {kind}"
        )))
    }
}

/// Kind and milliseconds of a time or a span.
fn moment(value: &Value) -> Result<(&str, i64), EvalError> {
    no_secret(value)?;
    match value {
        Value::Tag(tag) if matches!(&*tag.name, TIME | SPAN) => {
            Ok((&tag.name, tag.value.as_int().unwrap_or(0)))
        }
        other => Err(EvalError::typed(format!(
            "a time or a duration expected, not {}",
            other.kind()
        ))),
    }
}

/// A part of a time of day, or the whole of a span in a unit.
fn clock(value: &Value, unit: i64, cycle: i64) -> FunctionResult {
    let (kind, millis) = moment(value)?;
    let units = millis.div_euclid(unit);
    Ok(Value::Int(if kind == TIME {
        units.rem_euclid(cycle)
    } else {
        millis / unit
    }))
}

/// A day of the Gregorian calendar.
struct Date {
    year: i64,
    month: i64,
    day: i64,
    /// Days since 1970.
    days: i64,
}

fn date(value: &Value, part: impl Fn(&Date) -> i64) -> FunctionResult {
    let (kind, millis) = moment(value)?;
    wanted(kind, TIME)?;
    Ok(Value::Int(part(&civil(millis.div_euclid(86_400_000)))))
}

/// The date of a day, counted in years that start in March, so that the leap day is the last.
fn civil(days: i64) -> Date {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    Date {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month,
        day,
        days,
    }
}

/// Days from 1970 to a date.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}
