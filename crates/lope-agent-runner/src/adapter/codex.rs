//! `codex exec --json`, as of August 2026.
//!
//! Only `turn.completed` and `turn.failed` end a turn; an `error` may be a reconnect that succeeds.
//! Usage is that of the whole thread, earlier attempts included. Costs are not told.

use serde_json::Value as Json;

use super::{AgentReport, SaidAt, sum, usage_limit};

pub(super) fn event(report: &mut AgentReport, event: &Json, tokens_before: i64, at: &SaidAt) {
    match event["type"].as_str() {
        Some("thread.started") => report.session(event, "thread_id"),
        Some("item.completed") if event["item"]["type"] == "agent_message" => {
            report.say(event["item"]["text"].as_str().unwrap_or_default());
        }
        Some("turn.completed") => {
            (report.is_final, report.error, report.limit) = (true, None, None);
            let total = sum(&event["usage"], &["input_tokens", "output_tokens"]);
            report.tokens = report
                .tokens
                .max(total.saturating_sub(tokens_before))
                .max(0);
        }
        Some("turn.failed") => {
            let words = event["error"]["message"].as_str();
            let words = words.unwrap_or("the turn failed");
            (report.is_final, report.error) = (true, Some(words.to_owned()));
            if let Some(limit) = usage_limit(words, at) {
                report.hit(limit);
            }
        }
        _ => {}
    }
}
