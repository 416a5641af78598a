//! What happened to each step while an event was done: for histories, graphs and timelines. Only
//! made when asked for.

use std::sync::Arc;

use lope_model::{Failure, Value};

/// One thing that happened to one execution.
#[derive(Clone, PartialEq, Debug)]
pub struct StepTrace {
    /// The id of the execution, as in `mail/3/send`.
    pub execution: Arc<str>,
    /// The path of its step in the definition, as in `mail/send`.
    pub step: Arc<str>,
    pub mark: Mark,
}

/// What happened to it.
#[derive(Clone, PartialEq, Debug)]
pub enum Mark {
    Opened,
    Done(Value),
    Skipped,
    Failed(Failure),
    /// It failed, and was skipped as its policy says.
    Forgiven(Failure),
    Cancelled,
}
