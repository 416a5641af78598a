//! `lope tasks logs`: what an agent said during an attempt, also at a task that the store has forgotten.

use std::path::PathBuf;

use clap::Args;
use lope::agents::records::TaskAttemptRecord;
use lope::agents::task_logs::TaskLogs;
use lope::agents::{AgentBoard, BoardError};
use lope_model::id::TaskId;

use super::query::named;
use crate::context::AgentsContext;
use crate::log_text::{LogExtent, is_over, no_log, of_one, printed};
use crate::report::{CommandError, CommandExit, CommandResult};

#[derive(Debug, Args)]
pub struct TaskLogsArgs {
    /// The task, or the beginning of its id
    task: Option<String>,
    /// Which attempt  [default: the last one]
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<i64>,
    /// At most so many lines, the last ones
    #[arg(long, default_value_t = 10_000)]
    limit: usize,
    /// Go on while the agent works
    #[arg(long, short)]
    follow: bool,
}

pub(super) async fn run(args: &TaskLogsArgs, context: &AgentsContext) -> CommandResult {
    let named = named(args.task.as_deref(), context)?;
    let extent = LogExtent {
        limit: args.limit,
        follow: args.follow,
    };
    let Some(open) = context.board_if_there().await? else {
        let path = forgotten(args, &named, context)?;
        return printed(&path, extent, context, || async { true }).await;
    };
    let board = &open.board;
    let attempts = match board.task_detail(&named).await {
        Ok(detail) => detail.attempts,
        Err(BoardError::Missing { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut known = attempts.iter();
    let attempt = match args.attempt {
        Some(number) => known.find(|attempt| attempt.number == number),
        None => known.next_back(),
    };
    let report = match attempt {
        Some(attempt) => {
            let name = attempt.log.as_deref().unwrap_or_default();
            let path = context.task_logs().join(name);
            if !path.is_file() {
                return Err(no_log(format!("there is no log at {}", path.display())));
            }
            printed(&path, extent, context, || has_ended(board, attempt)).await?
        }
        None if attempts.is_empty() => {
            let path = match (forgotten(args, &named, context), board.task(&named).await) {
                (Err(_), Ok(task)) => return Err(unstarted(&task.id)),
                (path, _) => path?,
            };
            printed(&path, extent, context, || async { true }).await?
        }
        None => {
            let number = args.attempt.unwrap_or_default();
            let message = format!("task {} has no attempt {number}", attempts[0].task_id);
            return Err(CommandError::new(CommandExit::Failed, message));
        }
    };
    open.client.close().await?;
    Ok(report)
}

fn unstarted(task: &TaskId) -> CommandError {
    let message = format!("no agent was started for task {task} yet");
    CommandError::new(CommandExit::Failed, message)
}

/// Will nobody write more of an attempt? It has ended, or its runner is gone.
async fn has_ended(board: &AgentBoard, attempt: &TaskAttemptRecord) -> bool {
    let Ok(now) = board.attempts_of(attempt.task_id).await else {
        return false;
    };
    let mut own = now.iter();
    if !own.any(|it| it.number == attempt.number && it.ended_at.is_none()) {
        return true;
    }
    match board.runner(&attempt.runner_id.to_string()).await {
        Ok(runner) => is_over(&runner),
        Err(BoardError::Missing { .. }) => true,
        Err(_) => false,
    }
}

/// The log of a task that the store does not know, or of which it knows no attempt: by its file.
fn forgotten(
    args: &TaskLogsArgs,
    named: &str,
    context: &AgentsContext,
) -> Result<PathBuf, BoardError> {
    let beginning = named.to_ascii_lowercase();
    let mut found = TaskLogs::at(context.task_logs()).found(&beginning);
    found.retain(|log| !beginning.is_empty() && args.attempt.is_none_or(|it| it == log.of.number));
    let found = found.into_iter().map(|log| (log.of.task, log.path));
    of_one(found.collect(), "task", named)
}
