//! `lope tasks diff`: what an attempt changed in its worktree.

use std::path::Path;

use clap::Args;
use lope::agents::worktree::diff;
use serde_json::json;

use super::query::named;
use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};

#[derive(Debug, Args)]
pub struct TaskDiffArgs {
    /// The task, or the beginning of its id
    task: Option<String>,
    /// Which attempt  [default: the last one that has a worktree]
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<i64>,
}

pub(super) async fn run(args: &TaskDiffArgs, context: &AgentsContext) -> CommandResult {
    let named = named(args.task.as_deref(), context)?;
    let OpenBoard { client, board } = context.board_with("task", &named).await?;
    let detail = board.task_detail(&named).await?;
    client.close().await?;
    let id = detail.task.id;
    let missing = |what: String| CommandError::new(CommandExit::Failed, what);
    let mut attempts = detail.attempts.iter().rev();
    let found = attempts.find_map(|attempt| {
        let is_meant = args.attempt.is_none_or(|number| attempt.number == number);
        Some((
            attempt.number,
            attempt.worktree.as_ref().filter(|_| is_meant)?,
        ))
    });
    let (number, worktree) = found.ok_or_else(|| {
        let message = match args.attempt {
            Some(number) => format!("task {id} has no attempt {number} with a worktree"),
            None => format!("no attempt of task {id} has a worktree"),
        };
        missing(message).hint("'runners.worktrees: true' in the configuration gives them one")
    })?;
    if !Path::new(worktree).is_dir() {
        let message = format!("the worktree {worktree} is gone");
        return Err(missing(message).hint("it went when everything in it was committed and on another branch; nothing else is taken away"));
    }
    let project = Path::new(&detail.task.project_path);
    let shown = diff(Path::new(worktree), project).await;
    let shown = shown.map_err(|error| missing(error.to_string()))?;
    let value = json!({
        "task": id.to_string(),
        "attempt": number,
        "worktree": worktree,
        "diff": shown,
    });
    let text = shown.trim_end_matches('\n');
    let text = if text.is_empty() {
        "nothing is changed (files that git ignores are not shown)"
    } else {
        text
    };
    Ok(CommandReport::document(value, text.to_owned()))
}
