//! What an `agent` step asks for, and what its answer is called.

use lope_agents::records::{AttemptRole, StopReason};
use lope_model::{Failure, Map, Span, Value, failure, value};

/// What a step asks for.
#[derive(Debug)]
pub(crate) struct AgentRequest {
    pub(crate) prompt: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) cwd: Option<String>,
    /// What it is for, in the workflow of a task.
    pub(crate) role: Option<AttemptRole>,
    /// In dollars.
    pub(crate) budget: Option<f64>,
    pub(crate) silence: Option<Span>,
}

impl AgentRequest {
    pub(crate) fn read(arguments: &Value) -> Result<Self, Failure> {
        let map = arguments
            .as_map()
            .ok_or_else(|| bad("the arguments of an agent must be a map"))?;
        let text = |key| map.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            prompt: text("prompt"),
            agent: text("agent"),
            cwd: text("cwd"),
            role: match text("role") {
                Some(word) => Some(
                    word.parse::<AttemptRole>()
                        .map_err(|error| bad(&format!("'role': {error}")))?,
                ),
                None => None,
            },
            budget: budget(map)?,
            silence: silence(map)?,
        })
    }
}

fn budget(map: &Map) -> Result<Option<f64>, Failure> {
    let dollars = match map.get("budget") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Int(dollars)) => *dollars as f64,
        Some(Value::Float(dollars)) => *dollars,
        Some(_) => return Err(bad("'budget' is a number of dollars")),
    };
    if dollars.is_finite() && dollars > 0.0 {
        Ok(Some(dollars))
    } else {
        Err(bad("'budget' is more than nothing"))
    }
}

fn silence(map: &Map) -> Result<Option<Span>, Failure> {
    let span = match map.get("silence") {
        None | Some(Value::Null) => return Ok(None),
        // A number is one of seconds, as in every other place of a workflow.
        Some(Value::Int(seconds)) => u64::try_from(*seconds).ok().map(Span::from_secs),
        Some(Value::Float(seconds)) => Some(Span::from_millis((seconds * 1_000.0) as u64)),
        Some(Value::Str(text)) => text.parse::<Span>().ok(),
        Some(_) => None,
    };
    let span = span.filter(|span| *span > Span::ZERO);
    span.map(Some)
        .ok_or_else(|| bad("'silence' is a duration, as in 15m"))
}

/// An agent's last words as a value: what is JSON is read as such.
pub(crate) fn result_value(words: Option<&str>) -> Value {
    let text = words.unwrap_or_default();
    value::from_json(text).unwrap_or_else(|_| Value::from(text))
}

/// What the failure of a step is called whose agent ended so.
pub(crate) const fn failure_kind(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Success | StopReason::Exit => "AgentFailed",
        StopReason::Startup => "NotStarted",
        StopReason::Hang => "AgentHang",
        StopReason::Budget => "AgentBudget",
        StopReason::UsageLimit => "UsageLimit",
        StopReason::Timeout => failure::kind::TIMEOUT,
        StopReason::Cancel | StopReason::Drain | StopReason::LostLock => failure::kind::CANCELLED,
        StopReason::RunnerDeath => failure::kind::WORKER_LOST,
    }
}

pub(crate) fn bad(message: &str) -> Failure {
    Failure::new("BadArguments", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_a_duration_or_a_number_of_seconds() {
        let read = |text: &str| {
            let arguments = value::from_json(text).unwrap();
            AgentRequest::read(&arguments).map(|request| request.silence)
        };
        let rows = [
            (r#"{"silence":"10m"}"#, Some(Span::from_secs(600))),
            (r#"{"silence":600}"#, Some(Span::from_secs(600))),
            (r#"{"silence":1.5}"#, Some(Span::from_millis(1_500))),
            (r#"{"silence":null}"#, None),
            ("{}", None),
        ];
        for (text, wanted) in rows {
            assert_eq!(read(text).unwrap(), wanted, "{text}");
        }
        for bad in ["0", "-1", "0.0", "-1.5", "\"0s\"", "\"quiet\"", "true"] {
            assert!(read(&format!(r#"{{"silence":{bad}}}"#)).is_err(), "{bad}");
        }
    }
}
