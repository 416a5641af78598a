//! What an agent's tool says on its output, line by line: its session, its last words, what it cost,
//! whether a usage limit stopped it. One file a tool; lines that mean nothing are passed over.

mod claude;
mod codex;
mod gemini;
mod limit_text;
mod opencode;
mod plain;

use jiff::tz::TimeZone;
use lope_agents::law::budget::micros;
use lope_agents::settings::AdapterKind;
use lope_model::Timestamp;
use lope_model::masks::Masks;
use serde_json::Value as Json;

pub use self::limit_text::usage_limit;

/// Most bytes of last words that are kept: their end.
const TEXT_MAX: usize = 64 * 1024;

/// What an agent said about itself so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AgentReport {
    /// The tool's own session, to be gone on with.
    pub session: Option<String>,
    /// Its last words.
    pub text: Option<String>,
    /// It said that it has come to its end, well or not.
    pub is_final: bool,
    /// What it says went wrong.
    pub error: Option<String>,
    pub limit: Option<UsageLimit>,
    /// Its tool stopped it because its budget is used up.
    pub is_over_budget: bool,
    pub cost_micros: i64,
    pub tokens: i64,
}

/// A tool refuses more work for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageLimit {
    /// Until then, if it said so.
    pub reset: Option<Timestamp>,
}

/// Where and when something is said: local times are read by it.
#[derive(Clone, Debug)]
pub struct SaidAt {
    pub now: Timestamp,
    pub zone: TimeZone,
}

/// Reads what one agent says.
#[derive(Clone, Debug)]
pub struct AgentReader {
    kind: AdapterKind,
    zone: TimeZone,
    /// Tokens that earlier attempts used in the session that this one goes on with.
    tokens_before: i64,
    pub report: AgentReport,
}

impl AgentReader {
    pub fn new(kind: AdapterKind, zone: TimeZone, tokens_before: i64) -> Self {
        Self {
            kind,
            zone,
            tokens_before,
            report: AgentReport::default(),
        }
    }

    /// Does the tool say that it has come to its end? Without that word it has not ended well.
    pub const fn must_be_final(&self) -> bool {
        match self.kind {
            AdapterKind::Claude | AdapterKind::Codex | AdapterKind::Gemini => true,
            AdapterKind::Opencode | AdapterKind::Command => false,
        }
    }

    /// A line of standard output, without its end.
    pub fn line(&mut self, line: &str, now: Timestamp) {
        let at = SaidAt {
            now,
            zone: self.zone.clone(),
        };
        let report = &mut self.report;
        let event: Option<Json> = line
            .trim_start()
            .starts_with('{')
            .then(|| serde_json::from_str(line).ok())
            .flatten();
        match (self.kind, event) {
            (AdapterKind::Claude, Some(event)) => claude::event(report, &event, &at),
            (AdapterKind::Codex, Some(event)) => {
                codex::event(report, &event, self.tokens_before, &at);
            }
            (AdapterKind::Gemini, Some(event)) => gemini::event(report, &event, &at),
            (AdapterKind::Opencode, Some(event)) => opencode::event(report, &event, &at),
            (AdapterKind::Command, Some(event)) if plain::is_report(&event) => {
                plain::event(report, &event);
            }
            (AdapterKind::Command, _) => plain::line(report, line),
            (_, None) => report.complaint(line, &at),
        }
    }

    /// A line of standard error.
    pub fn complaint(&mut self, line: &str, now: Timestamp) {
        let at = SaidAt {
            now,
            zone: self.zone.clone(),
        };
        if self.kind != AdapterKind::Command {
            self.report.complaint(line, &at);
        }
    }

    /// What an exit code alone says.
    pub fn exited(&mut self, code: Option<i32>) -> Option<&'static str> {
        match (self.kind, code) {
            (AdapterKind::Gemini, Some(code)) => gemini::exited(&mut self.report, code),
            _ => None,
        }
    }
}

impl AgentReport {
    /// Text outside of the tool's events.
    fn complaint(&mut self, line: &str, at: &SaidAt) {
        if let Some(limit) = usage_limit(line, at) {
            self.hit(limit);
        }
    }

    /// The same as it may be written down and shown.
    #[must_use]
    pub(crate) fn masked(self, masks: &Masks) -> Self {
        let text = |text: Option<String>| text.map(|text| text_of(&text, masks));
        Self {
            session: self.session.map(|text| text.replace('\0', "\u{fffd}")),
            text: text(self.text),
            error: text(self.error),
            ..self
        }
    }

    /// A limit with a reset time says more than one without; what came first is more exact: words
    /// follow their event.
    fn hit(&mut self, limit: UsageLimit) {
        let known = self.limit.and_then(|limit| limit.reset);
        self.limit = Some(UsageLimit {
            reset: known.or(limit.reset),
        });
    }

    fn say(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.text = Some(ending(text, TEXT_MAX).to_owned());
        }
    }

    fn session(&mut self, event: &Json, key: &str) {
        if let Some(session) = event[key].as_str().filter(|text| !text.is_empty()) {
            self.session = Some(session.to_owned());
        }
    }
}

/// The sum of some numbers of an object.
fn sum(object: &Json, keys: &[&str]) -> i64 {
    let numbers = keys.iter().filter_map(|key| object[*key].as_i64());
    numbers.fold(0, i64::saturating_add)
}

/// Dollars in millionths; what is no amount is nothing.
fn dollars(value: &Json) -> i64 {
    value
        .as_f64()
        .filter(|cost| cost.is_finite() && *cost >= 0.0)
        .map_or(0, micros)
}

/// What an agent said, as it may be written down: without what is hidden, and without zero bytes,
/// which no store takes.
pub(crate) fn text_of(said: &str, masks: &Masks) -> String {
    masks.hide(said).replace('\0', "\u{fffd}")
}

/// The end of a text.
pub(crate) fn ending(text: &str, most: usize) -> &str {
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}
