//! Names for traces: every run is a trace, every execution and every attempt a span in it.
//!
//! They are made from the ids of what they name, so that whoever works on a run, before or after a
//! crash, on this machine or on another, says the same. The form is that of W3C's Trace Context.

use std::fmt;

use crate::{Digest, RunId};

/// A span of a run's trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SpanId(u64);

/// The trace of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceId(RunId);

impl TraceId {
    pub const fn of(run: RunId) -> Self {
        Self(run)
    }
}

impl SpanId {
    /// The whole run.
    pub fn of_run(run: RunId) -> Self {
        Self::named(&[run.as_bytes()])
    }

    /// One firing of a step.
    pub fn of_execution(run: RunId, execution: &str) -> Self {
        Self::named(&[run.as_bytes(), execution.as_bytes()])
    }

    /// One try of it.
    pub fn of_attempt(run: RunId, execution: &str, attempt: u32) -> Self {
        let number = attempt.to_be_bytes();
        Self::named(&[run.as_bytes(), execution.as_bytes(), &number])
    }

    fn named(parts: &[&[u8]]) -> Self {
        // Zero is no span.
        Self(Digest::of_parts(parts).short().max(1))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.as_bytes();
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What is handed to whoever does an attempt: spans that they make are below the attempt's.
pub fn traceparent(run: RunId, execution: &str, attempt: u32) -> String {
    let span = SpanId::of_attempt(run, execution, attempt);
    format!("00-{}-{span}-01", TraceId::of(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_named_alike_by_everybody_and_like_no_other() {
        let run = RunId::from_bytes([7; 16]);
        let said = traceparent(run, "mail/3/send", 1);
        assert_eq!(said, traceparent(run, "mail/3/send", 1));
        assert_eq!(said.len(), 55);
        assert!(said.starts_with("00-07070707070707070707070707070707-"));
        let spans = [
            SpanId::of_run(run),
            SpanId::of_execution(run, "a"),
            SpanId::of_execution(run, "b"),
            SpanId::of_attempt(run, "a", 1),
            SpanId::of_attempt(run, "a", 2),
        ];
        let different: std::collections::HashSet<_> = spans.into_iter().collect();
        assert_eq!(different.len(), 5);
    }
}
