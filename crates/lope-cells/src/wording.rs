//! Failures in words, as people are told of them.

use crate::json::Json;

/// Types of failure that are the runner's own: what they say is said without them.
const OWN: [&str; 14] = [
    "Limit",
    "NothingRuns",
    "Recipe",
    "ScriptError",
    "Sent",
    "State",
    "Stopped",
    "Stream",
    "TooLarge",
    "UnknownEffect",
    "UnknownModule",
    "UnknownWorkflow",
    "Unstable",
    "Write",
];

/// What a failure says: what a function threw, or a run failed with, has its type before it.
pub fn failure_text(kind: &str, message: &str) -> String {
    if OWN.contains(&kind) {
        return message.to_owned();
    }
    format!("{kind}: {message}")
}

/// What an error says, as a process cell has it; a warning is a text.
pub fn error_text(error: &Json) -> String {
    let field = |key: &str| error.child(key).and_then(Json::as_str);
    match (field("type"), field("message"), error.as_str()) {
        (Some(kind), Some(message), _) => failure_text(kind, message),
        (None, Some(text), _) | (_, None, Some(text)) => text.to_owned(),
        (_, None, None) => error.to_string(),
    }
}

/// What became of the last event that a handler failed with.
pub fn failed_event_text(note: &Json) -> String {
    let why = note.child("error").map(error_text).unwrap_or_default();
    format!("failed last with '{}': {why}", text_in(note, "event"))
}

/// Something that was sent and not done, as its receipt has it.
pub fn undone_text(receipt: &Json) -> String {
    let outcome = || text_in(receipt, "outcome").to_owned();
    let why = receipt.child("error").map_or_else(outcome, error_text);
    format!("sent to {} and not done: {why}", text_in(receipt, "to"))
}

fn text_in<'a>(note: &'a Json, key: &str) -> &'a str {
    note.child(key).and_then(Json::as_str).unwrap_or_default()
}
