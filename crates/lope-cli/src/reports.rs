//! What the rooms report while they work: warnings and errors become lines on stderr, for whoever watches a runner.
//!
//! In: events of `tracing` from Lope's own crates; out: one line each. A place that reports again and again is heard once a
//! second. Spans are not kept, other crates' events not shown.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::output::Output;

/// The same report is told again no sooner than this.
const AGAIN: Duration = Duration::from_secs(1);

/// Show reports from now on: errors when quiet, everything that matters to a user otherwise, more with `-v`.
pub(crate) fn show(output: Output) {
    let most = match (output.quiet, output.verbose) {
        (true, _) => Level::ERROR,
        (false, false) => Level::WARN,
        (false, true) => Level::INFO,
    };
    // Somebody who embeds this may have set another one; then that one is heard.
    let _ = tracing::subscriber::set_global_default(Lines { most, told: Mutex::default() });
}

struct Lines {
    most: Level,
    told: Mutex<HashMap<Identifier, Instant>>,
}

impl Lines {
    /// Was this place silent for a while? Now it is not.
    fn is_due(&self, place: Identifier, now: Instant) -> bool {
        let mut told = self.told.lock().expect("nobody panics while holding it");
        let due = told.get(&place).is_none_or(|last| now.duration_since(*last) >= AGAIN);
        if due {
            told.insert(place, now);
        }
        due
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.most && metadata.target().starts_with("lope")
    }

    fn event(&self, event: &Event<'_>) {
        if self.is_due(event.metadata().callsite(), Instant::now()) {
            let mut line = Line::default();
            event.record(&mut line);
            let level = event.metadata().level().as_str().to_ascii_lowercase();
            // Nobody may be reading.
            let _ = writeln!(anstream::stderr(), "{level}: {line}");
        }
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
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a text cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, ", {name}: {value:?}"),
        };
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.fields.strip_prefix(", ") {
            Some(fields) => write!(f, " ({fields})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_reports_again_and_again_is_heard_once_a_second() {
        let lines = Lines { most: Level::WARN, told: Mutex::default() };
        let place = || tracing::callsite!(name: "place", kind: tracing::metadata::Kind::EVENT, fields: message);
        let (here, now) = (tracing::callsite::Callsite::metadata(place()).callsite(), Instant::now());
        assert!(lines.is_due(here.clone(), now));
        assert!(!lines.is_due(here.clone(), now + AGAIN / 2));
        assert!(lines.is_due(here, now + AGAIN));
    }

    #[test]
    fn a_line_has_its_message_first() {
        let line = Line { message: "the store did not answer".to_owned(), fields: ", asked: Claim".to_owned() };
        assert_eq!(line.to_string(), "the store did not answer (asked: Claim)");
        assert_eq!(Line { fields: String::new(), ..line }.to_string(), "the store did not answer");
    }
}
