//! Executions as they are told of a run: what its journal says, held against its record.

use std::borrow::Cow;

use lope_flow::history::{Execution, ExecutionStatus};
use lope_store::runs::{RunRecord, RunStatus};

/// An execution as it is told of its run. Of one that nobody has taken up nothing is: what its
/// admission has found out already is no step that anybody saw. What was open when its run ended was
/// cancelled with it.
pub fn as_told<'a>(record: &RunRecord, execution: &'a Execution) -> Option<Cow<'a, Execution>> {
    match record.status {
        RunStatus::Live(_) if record.started_at.is_none() => None,
        RunStatus::Final(_) if execution.status == ExecutionStatus::Running => {
            Some(Cow::Owned(Execution {
                status: ExecutionStatus::Cancelled,
                finished_at: record.finished_at,
                ..execution.clone()
            }))
        }
        RunStatus::Live(_) | RunStatus::Final(_) => Some(Cow::Borrowed(execution)),
    }
}
