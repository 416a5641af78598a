//! Words of the pages of agents: states that have colours, amounts of money.

use lope::agents::records::{TaskRecord, TaskStatus};

/// An amount of money.
pub(super) fn dollars(micros: i64) -> String {
    format!("${:.2}", micros as f64 / 1e6)
}

/// The state of a task, in the words that have colours.
pub(super) fn status_word(task: &TaskRecord) -> &'static str {
    match task.status {
        TaskStatus::Pending => "pending",
        TaskStatus::InProgress => "running",
        TaskStatus::Review => "review",
        TaskStatus::Blocked if task.question.is_some() => "asks",
        TaskStatus::Blocked => "blocked",
        TaskStatus::Completed => "completed",
        TaskStatus::Failed => "failed",
        TaskStatus::Skipped => "skipped",
    }
}
