//! Any program: what it says last is its answer, and its exit code says how it ended. It may tell
//! more by lines of JSON whose key `lope` holds an object: `session`, `result`, `error`, `cost` in
//! dollars and `tokens` (so far), `limit` (true, or when it ends in RFC 3339; false when it is over).

use lope_model::Timestamp;
use serde_json::Value as Json;

use super::{AgentReport, TEXT_MAX, UsageLimit, dollars, ending};

pub(super) fn is_report(event: &Json) -> bool {
    event["lope"].is_object()
}

pub(super) fn event(report: &mut AgentReport, event: &Json) {
    let told = &event["lope"];
    report.session(told, "session");
    if let Some(words) = told["result"].as_str() {
        report.is_final = true;
        report.text = Some(ending(words, TEXT_MAX).to_owned());
    }
    if let Some(words) = told["error"].as_str() {
        report.is_final = true;
        report.error = Some(words.to_owned());
    }
    report.cost_micros = report.cost_micros.max(dollars(&told["cost"]));
    report.tokens = report.tokens.max(told["tokens"].as_i64().unwrap_or(0));
    match &told["limit"] {
        Json::Bool(true) => report.hit(UsageLimit { reset: None }),
        Json::Bool(false) => report.limit = None,
        Json::String(time) => report.hit(UsageLimit {
            reset: time.parse::<Timestamp>().ok(),
        }),
        _ => {}
    }
}

/// Words are kept until a result is told.
pub(super) fn line(report: &mut AgentReport, line: &str) {
    if report.is_final {
        return;
    }
    let before = report.text.take().unwrap_or_default();
    let text = if before.is_empty() {
        line.to_owned()
    } else {
        format!("{before}\n{line}")
    };
    report.text = Some(ending(&text, TEXT_MAX).to_owned());
}
