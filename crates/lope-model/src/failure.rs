//! A step that failed, as data: type, message, place, attempt. Errors of Lope itself are not here;
//! they belong to the trait that raises them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Timestamp, Value};

/// Types of failure that Lope itself produces; actions add their own.
pub mod kind {
    pub const TIMEOUT: &str = "Timeout";
    pub const LIMIT: &str = "Limit";
    pub const CANCELLED: &str = "Cancelled";
    pub const RUNNER_LOST: &str = "RunnerLost";
    pub const WORKER_LOST: &str = "WorkerLost";
    pub const DEADLINE: &str = "Deadline";
    pub const CIRCUIT_OPEN: &str = "CircuitOpen";
    pub const RATE_LIMITED: &str = "RateLimited";
    pub const EXPRESSION: &str = "ExpressionError";
    pub const EXIT_STATUS: &str = "ExitStatus";
    pub const HTTP_STATUS: &str = "HttpStatus";
    pub const UNKNOWN_ACTION: &str = "UnknownAction";
    pub const UNKNOWN_WORKFLOW: &str = "UnknownWorkflow";
    /// The input of a child does not fit what its workflow asks for.
    pub const BAD_INPUT: &str = "BadInput";
    /// What a message or signal is sent to is neither a mailbox nor a run.
    pub const BAD_RECIPIENT: &str = "BadRecipient";
    pub const BAD_MESSAGE: &str = "BadMessage";
    pub const PANIC: &str = "Panic";
    pub const DIVERGED: &str = "Diverged";
}

/// Why an attempt, a step or a run failed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// What handlers and retry rules match on.
    #[serde(rename = "type")]
    pub kind: Arc<str>,
    pub message: String,
    /// Names of the base types, nearest first; handlers match on these too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
    /// Whatever else the worker wants a handler to see (an exit status, an HTTP body).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
    /// Not a failure of the work: whoever refused it takes it again at this time. Such an attempt is
    /// not counted as failed, whatever the policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_at: Option<Timestamp>,
}

impl Failure {
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
            bases: Vec::new(),
            step: None,
            attempt: None,
            traceback: None,
            detail: Value::Null,
            again_at: None,
        }
    }

    /// Does a handler or retry rule that names `kind` apply? `Error` and `Exception` name every
    /// failure but a cancel.
    pub fn is_a(&self, kind: &str) -> bool {
        let catches_all =
            matches!(kind, "*" | "Error" | "Exception") && &*self.kind != self::kind::CANCELLED;
        catches_all || &*self.kind == kind || self.bases.iter().any(|base| &**base == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_match_by_type_base_or_everything() {
        let mut failure = Failure::new("FileNotFoundError", "gone");
        failure.bases = vec!["OSError".into()];
        assert!(
            failure.is_a("FileNotFoundError")
                && failure.is_a("OSError")
                && failure.is_a("Exception")
        );
        assert!(!failure.is_a("ValueError"));
        assert!(!Failure::new(kind::CANCELLED, "stop").is_a("Exception"));
    }
}
