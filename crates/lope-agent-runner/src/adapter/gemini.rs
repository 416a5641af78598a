//! `gemini --output-format stream-json`, as of 0.56.
//!
//! Exit codes carry what went wrong: 41 authentication, 42 input, 44 sandbox, 52 configuration, 53
//! turns, 54 tool, 55 untrusted folder; a status of HTTP comes modulo 256, so that 173 is 429. Costs
//! are not told.

use serde_json::Value as Json;

use super::{AgentReport, SaidAt, UsageLimit, usage_limit};

/// 429, as an exit code.
const TOO_MANY_REQUESTS: i32 = 173;
const QUOTA_ERRORS: [&str; 2] = ["TerminalQuotaError", "RetryableQuotaError"];

pub(super) fn event(report: &mut AgentReport, event: &Json, at: &SaidAt) {
    match event["type"].as_str() {
        Some("init") => report.session(event, "session_id"),
        Some("message") if event["role"] == "assistant" => message(report, event),
        Some("error") => {
            let words = event["message"].as_str().unwrap_or_default();
            if let Some(limit) = usage_limit(words, at) {
                report.hit(limit);
            }
        }
        Some("result") => result(report, event, at),
        _ => {}
    }
}

/// What a model says comes in pieces, a tool's use begins a new text.
fn message(report: &mut AgentReport, event: &Json) {
    let piece = event["content"].as_str().unwrap_or_default();
    let before = report.text.take().filter(|_| event["delta"] == true);
    let text = before.unwrap_or_default() + piece;
    report.say(&text);
}

fn result(report: &mut AgentReport, event: &Json, at: &SaidAt) {
    report.is_final = true;
    report.tokens = event["stats"]["total_tokens"].as_i64().unwrap_or(0).max(0);
    if event["status"] == "success" {
        (report.error, report.limit) = (None, None);
        return;
    }
    let words = event["error"]["message"].as_str();
    let words = words.unwrap_or("the tool reports an error");
    report.error = Some(words.to_owned());
    let kind = event["error"]["type"].as_str().unwrap_or_default();
    let of_text = usage_limit(words, at);
    if of_text.is_some() || QUOTA_ERRORS.contains(&kind) {
        report.hit(of_text.unwrap_or(UsageLimit { reset: None }));
    }
}

pub(super) fn exited(report: &mut AgentReport, code: i32) -> Option<&'static str> {
    Some(match code {
        41 => "authentication failed",
        42 => "its input was refused",
        44 => "its sandbox failed",
        52 => "its configuration is wrong",
        53 => "it took too many turns",
        54 => "a tool failed",
        55 => "its folder is not trusted",
        TOO_MANY_REQUESTS => {
            report.hit(UsageLimit { reset: None });
            "too many requests"
        }
        _ => return None,
    })
}
