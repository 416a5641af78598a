//! What the rooms report while they work: warnings and errors become lines on stderr, for whoever
//! watches a runner.
//!
//! In: events of `tracing` from Lope's own crates; out: one line each, as text or, where
//! `LOPE_LOG_FORMAT` is `json`, as an object with time, level, message and the event's own fields. A place that reports again
//! and again about the same run, step or schedule is heard once a second. Spans are not kept, other crates' events
//! not shown.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::clock;
use crate::output::Output;

/// The same report is told again no sooner than this.
const AGAIN: Duration = Duration::from_secs(1);
/// So many runs, steps or schedules are named by one place before it is silent for a while.
const NAMED: usize = 100;

/// The variable that says how reports are written: `text`, or `json`.
const FORMAT: &str = "LOPE_LOG_FORMAT";

/// Show reports from now on: errors when quiet, everything that matters to a user otherwise, more
/// with `-v`.
pub fn show(output: Output) {
    let most = match (output.quiet, output.verbose) {
        (true, _) => Level::ERROR,
        (false, false) => Level::WARN,
        (false, true) => Level::INFO,
    };
    // Somebody who embeds this may have set another one; then that one is heard.
    let _ = tracing::subscriber::set_global_default(Lines {
        most,
        is_json: std::env::var(FORMAT).is_ok_and(|format| format == "json"),
        told: Mutex::default(),
    });
}

struct Lines {
    most: Level,
    is_json: bool,
    told: Mutex<HashMap<Identifier, Told>>,
}

/// What a place has said lately.
struct Told {
    since: Instant,
    /// About which runs, steps or schedules; an empty text where it named none.
    subjects: HashSet<String>,
}

/// Whether a report is told.
#[derive(PartialEq, Eq, Debug)]
enum Telling {
    Yes,
    /// The last of many that differ only in what they are about.
    YesAndThereAreMore,
    No,
}

impl Lines {
    /// Was this place silent about the subject for a while? Now it is not.
    fn is_due(&self, callsite: Identifier, subject: &str, now: Instant) -> Telling {
        let mut told = self.told.lock().expect("nobody panics while holding it");
        let told = told.entry(callsite).or_insert_with(|| Told {
            since: now,
            subjects: HashSet::new(),
        });
        if now.duration_since(told.since) >= AGAIN {
            told.since = now;
            told.subjects.clear();
        }
        if told.subjects.len() > NAMED || !told.subjects.insert(subject.to_owned()) {
            return Telling::No;
        }
        if told.subjects.len() > NAMED {
            return Telling::YesAndThereAreMore;
        }
        Telling::Yes
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= self.most
            && metadata.target().starts_with("lope")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let callsite = event.metadata().callsite();
        let more = match self.is_due(callsite, &line.subject, Instant::now()) {
            Telling::No => return,
            Telling::Yes => "",
            Telling::YesAndThereAreMore => "; there are more of these",
        };
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        line.message.push_str(more);
        let written = if self.is_json {
            line.to_json(&level, &clock::wall().to_string())
        } else {
            format!("{level}: {line}")
        };
        // Nobody may be reading.
        let _ = writeln!(anstream::stderr(), "{written}");
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The message, and the fields behind it.
#[derive(Default)]
struct Line {
    message: String,
    fields: Vec<(&'static str, String)>,
    /// The run, the step or the schedule that it speaks of.
    subject: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if matches!(field.name(), "run" | "schedule" | "execution" | "attempt") {
            self.subject.push_str(&format!("{value:?} "));
        }
        match field.name() {
            // Writing into a text cannot fail.
            "message" => drop(write!(self.message, "{value:?}")),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.fields.is_empty() {
            return Ok(());
        }
        let fields = self.fields.iter();
        let fields: Vec<String> = fields.map(|(name, it)| format!("{name}: {it}")).collect();
        write!(f, " ({})", fields.join(", "))
    }
}

impl Line {
    fn to_json(&self, level: &str, at: &str) -> String {
        let mut object = serde_json::Map::new();
        let fixed = [("time", at), ("level", level), ("message", &self.message)];
        let fields = self.fields.iter().map(|(name, it)| (*name, it.as_str()));
        for (name, text) in fixed.into_iter().chain(fields) {
            object.entry(name).or_insert_with(|| text.into());
        }
        serde_json::Value::Object(object).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_each_run_once_a_second_and_not_too_many() {
        let lines = Lines {
            most: Level::WARN,
            is_json: false,
            told: Mutex::default(),
        };
        let callsite = || tracing::callsite!(name: "place", kind: tracing::metadata::Kind::EVENT, fields: message);
        let here = tracing::callsite::Callsite::metadata(callsite()).callsite();
        let now = Instant::now();
        let told = |run: &str, at| lines.is_due(here.clone(), run, at);
        assert_eq!(told("a", now), Telling::Yes);
        assert_eq!(told("b", now), Telling::Yes);
        assert_eq!(told("a", now + AGAIN / 2), Telling::No);
        for run in 2..NAMED {
            assert_eq!(told(&run.to_string(), now), Telling::Yes);
        }
        assert_eq!(told("one more", now), Telling::YesAndThereAreMore);
        assert_eq!(told("and one", now), Telling::No);
        assert_eq!(told("a", now + AGAIN), Telling::Yes);
    }

    #[test]
    fn a_line_has_its_message_first() {
        let line = Line {
            message: "the store did not answer".to_owned(),
            fields: vec![("asked", "Claim".to_owned()), ("run", "r1".to_owned())],
            subject: String::new(),
        };
        assert_eq!(
            line.to_string(),
            "the store did not answer (asked: Claim, run: r1)"
        );
        let json: serde_json::Value =
            serde_json::from_str(&line.to_json("warn", "2026-01-02T03:04:05Z")).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "time": "2026-01-02T03:04:05Z", "level": "warn", "message": "the store did not answer",
                "asked": "Claim", "run": "r1",
            })
        );
        assert_eq!(
            Line {
                fields: Vec::new(),
                ..line
            }
            .to_string(),
            "the store did not answer"
        );
    }
}
