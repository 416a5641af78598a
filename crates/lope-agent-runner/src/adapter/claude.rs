//! `claude -p --output-format stream-json --verbose`, as of 2.1.240.
//!
//! A failure of the service is a result `success` with `is_error`. Only a limit whose status is
//! `rejected` stops work. Results of turns that no person began say nothing about the task.

use lope_model::Timestamp;
use serde_json::Value as Json;

use super::{AgentReport, SaidAt, UsageLimit, dollars, sum, usage_limit};

pub(super) fn event(report: &mut AgentReport, event: &Json, at: &SaidAt) {
    match event["type"].as_str() {
        Some("system") => report.session(event, "session_id"),
        Some("rate_limit_event") => rate_limit(report, &event["rate_limit_info"]),
        Some("assistant") => assistant(report, event),
        Some("result") if is_own(event) => result(report, event, at),
        _ => {}
    }
}

/// Did a person, or nobody in particular, begin this turn?
fn is_own(event: &Json) -> bool {
    matches!(event["origin"].as_str(), None | Some("human"))
}

fn rate_limit(report: &mut AgentReport, info: &Json) {
    if info["status"] == "rejected" {
        let seconds = info["resetsAt"].as_i64();
        let reset = seconds.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1_000)));
        report.hit(UsageLimit { reset });
    }
}

fn assistant(report: &mut AgentReport, event: &Json) {
    let parts = event["message"]["content"].as_array();
    let texts = parts.into_iter().flatten();
    for text in texts.filter_map(|part| part["text"].as_str()) {
        report.say(text);
    }
    if event["error"] == "rate_limit" {
        report.hit(UsageLimit { reset: None });
    }
}

fn result(report: &mut AgentReport, event: &Json, at: &SaidAt) {
    report.is_final = true;
    report.session(event, "session_id");
    let words = event["result"].as_str().unwrap_or_default();
    report.say(words);
    report.cost_micros = report.cost_micros.max(dollars(&event["total_cost_usd"]));
    let usage = [
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    ];
    report.tokens = report.tokens.saturating_add(sum(&event["usage"], &usage));
    let subtype = event["subtype"].as_str().unwrap_or("success");
    report.is_over_budget |= subtype == "error_max_budget_usd";
    let failed = event["is_error"] == true || subtype != "success";
    report.error = failed.then(|| if words.is_empty() { subtype } else { words }.to_owned());
    if !failed {
        // It waited, and went on.
        report.limit = None;
    }
    if event["is_error"] == true {
        if event["api_error_status"] == 429 {
            report.hit(UsageLimit { reset: None });
        }
        if let Some(limit) = usage_limit(words, at) {
            report.hit(limit);
        }
    }
}
