//! Could a message to a mailbox ever be delivered? One that could not fails its step, so that its author can catch it.
//!
//! What is refused here was never journalled: an engine sets a run aside rather than commit a message that it cannot make.

use lope_model::{Failure, Timestamp, Value, failure, limit};

use super::weight::weight;

/// Largest payload of a message: its frame has room beside it.
const PAYLOAD_MAX: usize = limit::PAYLOAD_MAX - 16 * 1_024;
/// Longest id of a message.
const ID_MAX: usize = 1_000;

/// What a step that sends fails as.
pub(crate) const KIND: &str = "BadMessage";

pub(crate) fn check(target: &str, body: &Value) -> Result<(), Failure> {
    let bad = |why: String| Err(Failure::new(KIND, format!("cannot send to mailbox '{target}': {why}")));
    if !target.parse::<i64>().is_ok_and(|worker| worker >= 0) {
        return bad("a mailbox is named by its worker's number".to_owned());
    }
    match body.get("kind") {
        None | Some(Value::Null) => {}
        Some(kind) if matches!(kind.as_str(), Some("command" | "event")) => {}
        Some(kind) => return bad(format!("{kind} is no kind of message: command, event")),
    }
    if let Some(Value::Str(id)) = body.get("id")
        && (id.is_empty() || id.len() > ID_MAX)
    {
        return bad(format!("an id has 1 to {ID_MAX} bytes"));
    }
    if !body.get("at").is_none_or(is_time) {
        return bad("'at' is not a time".to_owned());
    }
    match body.get("payload").map_or(0, weight) {
        bytes if bytes > PAYLOAD_MAX => {
            let message =
                format!("a message to mailbox '{target}' has about {bytes} bytes, at most {PAYLOAD_MAX} are allowed");
            Err(Failure::new(failure::kind::LIMIT, message))
        }
        _ => Ok(()),
    }
}

fn is_time(at: &Value) -> bool {
    match at {
        Value::Null => true,
        Value::Str(text) => text.parse::<Timestamp>().is_ok_and(|at| at >= Timestamp::EPOCH),
        Value::Int(millis) => *millis >= 0,
        Value::Tag(tag) => tag.value.as_int().is_some_and(|millis| millis >= 0),
        Value::Bool(_) | Value::Float(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => false,
    }
}
