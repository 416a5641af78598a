//! What an agent asked a person ends the run of its task: its answer is no signal to that run.

use lope::agents::{AgentBoard, TASK_QUEUE};
use lope::runs::RunRecord;

use crate::report::{CommandError, CommandResult};

/// Refuse a signal to a run that ended with a question which nobody has answered.
pub async fn refuse_if_asked(board: &AgentBoard, record: &RunRecord) -> CommandResult<()> {
    let task = match record.tags.get("task") {
        Some(task) if record.queue.as_str() == TASK_QUEUE => task,
        Some(_) | None => return Ok(()),
    };
    let found = board.task(task).await.ok();
    if !found.is_some_and(|task| task.question.is_some() && task.answer.is_none()) {
        return Ok(());
    }
    let message = format!("run {} ended with a question of its agent", record.run);
    let hint = format!("'lope tasks answer {task} TEXT' answers it");
    Err(CommandError::refused(message).hint(hint))
}
