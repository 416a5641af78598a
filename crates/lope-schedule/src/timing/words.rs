//! When ticks are, in words for people: what a tired person reads instead of five fields.
//!
//! Only what can be said truly is said: an expression with marks of its own (`L`, `W`, `#`), or with
//! days of the month and of the week at once, has no words.

use super::{Cron, Timing, spelt_out};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
/// Most times of a day that are told one by one.
const TIMES_MAX: usize = 6;

impl Timing {
    /// In words. Nothing: it is better read as it was written.
    pub fn in_words(&self) -> Option<String> {
        match self {
            Self::Cron(cron) => cron.in_words(),
            Self::Every { every, .. } => Some(format!("every {every}")),
        }
    }
}

impl Cron {
    fn in_words(&self) -> Option<String> {
        let fields: Vec<&str> = spelt_out(self.expression()).split(' ').collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return None;
        };
        let minute = CronField::read(minute, 0, 59, &[])?;
        let hour = CronField::read(hour, 0, 23, &[])?;
        let day = CronField::read(day, 1, 31, &[])?;
        let month = CronField::read(month, 1, 12, &MONTHS)?;
        let weekday = CronField::read(weekday, 0, 7, &DAYS)?;
        let time = time(&minute, &hour)?;
        let days = days(&day, &weekday)?;
        let months = match &month {
            CronField::Any => String::new(),
            CronField::Step(_) => return None,
            CronField::Values(values) => {
                let named = |value: &u32| Some(*MONTHS.get(*value as usize - 1)?);
                format!(" in {}", listed(values, named)?)
            }
        };
        // Every day is said only beside a time of day.
        let is_daily = day == CronField::Any && weekday == CronField::Any;
        let text = match (time.starts_with("at "), is_daily) {
            (true, _) => format!("{days} {time}{months}"),
            (false, true) => format!("{time}{months}"),
            (false, false) => format!("{time}, {days}{months}"),
        };
        Some(format!("{text} {}", self.zone()))
    }
}

/// A field that has words.
#[derive(PartialEq, Eq, Debug)]
enum CronField {
    Any,
    Step(u32),
    Values(Vec<u32>),
}

impl CronField {
    fn read(text: &str, least: u32, most: u32, names: &[&str]) -> Option<Self> {
        if text == "*" || text == "?" {
            return Some(Self::Any);
        }
        if let Some(step) = text.strip_prefix("*/") {
            let step: u32 = step.parse().ok()?;
            // What does not go into an hour, or a day, begins anew with each.
            return match (most + 1 - least).checked_rem(step)? {
                0 if step == 1 => Some(Self::Any),
                0 => Some(Self::Step(step)),
                _ => None,
            };
        }
        let mut values = Vec::new();
        for part in text.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let from = number(from, names, least)?;
            let to = number(to, names, least)?;
            if from < least || to > most || from > to {
                return None;
            }
            values.extend(from..=to);
        }
        if names.len() == DAYS.len() {
            // Sunday has two numbers.
            values.iter_mut().for_each(|value| *value %= 7);
        }
        values.sort_unstable();
        values.dedup();
        Some(Self::Values(values))
    }
}

/// A number, or the beginning of a name that stands for one.
fn number(text: &str, names: &[&str], least: u32) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let is_meant = |name: &&str| {
        let short = name.get(..3);
        short.is_some_and(|short| short.eq_ignore_ascii_case(text))
    };
    let at = names.iter().position(is_meant)?;
    u32::try_from(at).ok().map(|at| at + least)
}

fn time(minute: &CronField, hour: &CronField) -> Option<String> {
    use CronField::{Any, Step, Values};
    Some(match (minute, hour) {
        (Any, Any) => "every minute".to_owned(),
        (Step(step), Any) => format!("every {step} minutes"),
        (Values(minutes), Any) if minutes[..] == [0] => "every hour".to_owned(),
        (Values(minutes), Any) => format!("every hour at minute {}", numbers(minutes)),
        (Values(minutes), Step(step)) if minutes[..] == [0] => format!("every {step} hours"),
        (Values(minutes), Step(step)) => {
            format!("every {step} hours at minute {}", numbers(minutes))
        }
        (Values(minutes), Values(hours)) if minutes.len() * hours.len() <= TIMES_MAX => {
            let times = hours.iter().flat_map(|hour| {
                let of_hour = minutes.iter();
                of_hour.map(move |minute| format!("{hour:02}:{minute:02}"))
            });
            format!("at {}", joined(&times.collect::<Vec<_>>()))
        }
        (Any, Values(hours)) => format!("every minute of hour {}", numbers(hours)),
        (Step(step), Values(hours)) => format!("every {step} minutes of hour {}", numbers(hours)),
        (Values(minutes), Values(hours)) => {
            format!("minute {} of hour {}", numbers(minutes), numbers(hours))
        }
        (Any | Step(_), Step(_)) => return None,
    })
}

fn days(day: &CronField, weekday: &CronField) -> Option<String> {
    use CronField::{Any, Values};
    match (day, weekday) {
        (Any, Any) => Some("every day".to_owned()),
        (Any, Values(weekdays)) => {
            let named = |value: &u32| DAYS.get(*value as usize).copied();
            Some(format!("on {}", listed(weekdays, named)?))
        }
        (Values(days), Any) => Some(format!("on day {} of the month", numbers(days))),
        _ => None,
    }
}

/// `Monday to Friday`, `Monday and Thursday`.
fn listed(values: &[u32], named: impl Fn(&u32) -> Option<&'static str>) -> Option<String> {
    let names = values.iter().map(&named).collect::<Option<Vec<_>>>()?;
    let is_row = values.len() > 2 && values.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    Some(match (is_row, names.first(), names.last()) {
        (true, Some(first), Some(last)) => format!("{first} to {last}"),
        _ => joined(&names),
    })
}

fn numbers(values: &[u32]) -> String {
    let is_row = values.len() > 2 && values.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    match (is_row, values.first(), values.last()) {
        (true, Some(first), Some(last)) => format!("{first} to {last}"),
        _ => joined(&values.iter().map(ToString::to_string).collect::<Vec<_>>()),
    }
}

fn joined(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        Some((last, _)) => (*last).to_owned(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_said_in_words_or_not_at_all() {
        let rows = [
            ("* * * * *", Some("every minute UTC")),
            ("*/5 * * * *", Some("every 5 minutes UTC")),
            ("@hourly", Some("every hour UTC")),
            ("15 * * * *", Some("every hour at minute 15 UTC")),
            ("0 */2 * * *", Some("every 2 hours UTC")),
            ("30 6 * * *", Some("every day at 06:30 UTC")),
            ("30 6,18 * * *", Some("every day at 06:30 and 18:30 UTC")),
            ("30 6 * * MON-FRI", Some("on Monday to Friday at 06:30 UTC")),
            ("30 6 * * 1,4", Some("on Monday and Thursday at 06:30 UTC")),
            ("0 0 * * 7", Some("on Sunday at 00:00 UTC")),
            ("@weekly", Some("on Sunday at 00:00 UTC")),
            ("@monthly", Some("on day 1 of the month at 00:00 UTC")),
            (
                "@yearly",
                Some("on day 1 of the month at 00:00 in January UTC"),
            ),
            (
                "0 9 1,15 jan-mar *",
                Some("on day 1 and 15 of the month at 09:00 in January to March UTC"),
            ),
            ("* 9-17 * * *", Some("every minute of hour 9 to 17 UTC")),
            (
                "*/10 9-17 * * 1-5",
                Some("every 10 minutes of hour 9 to 17, on Monday to Friday UTC"),
            ),
            ("0 12 L * *", None),
            ("0 12 * * 5#2", None),
            ("0 12 1 * 1", None),
            ("1-59/2 * * * *", None),
            ("*/7 * * * *", None),
        ];
        for (expression, words) in rows {
            let timing = Timing::cron(expression, "UTC").unwrap();
            assert_eq!(timing.in_words().as_deref(), words, "{expression}");
        }
        let berlin = Timing::cron("30 6 * * *", "Europe/Berlin").unwrap();
        let words = berlin.in_words().unwrap();
        assert_eq!(words, "every day at 06:30 Europe/Berlin");
    }
}
