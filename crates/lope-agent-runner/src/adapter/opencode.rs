//! `opencode run --format json`, as of 1.18. There is no event at its end: its exit code says how it
//! ended. Costs come step by step.

use serde_json::Value as Json;

use super::{AgentReport, SaidAt, dollars, sum, usage_limit};

pub(super) fn event(report: &mut AgentReport, event: &Json, at: &SaidAt) {
    report.session(event, "sessionID");
    let part = &event["part"];
    match event["type"].as_str() {
        Some("text") => report.say(part["text"].as_str().unwrap_or_default()),
        Some("step_finish") => {
            let cost = dollars(&part["cost"]);
            report.cost_micros = report.cost_micros.saturating_add(cost);
            let tokens = sum(&part["tokens"], &["input", "output", "reasoning"]);
            report.tokens = report.tokens.saturating_add(tokens);
        }
        Some("error") => {
            let error = &event["error"];
            let words = error["data"]["message"].as_str();
            let words = words
                .or(error["message"].as_str())
                .or(error["name"].as_str());
            let words = words.unwrap_or("the session failed");
            report.error = Some(words.to_owned());
            if let Some(limit) = usage_limit(words, at) {
                report.hit(limit);
            }
        }
        _ => {}
    }
}
