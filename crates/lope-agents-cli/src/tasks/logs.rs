//! `lope tasks logs`: what an agent said during an attempt.

use clap::Args;
use serde_json::Value as Json;

use super::query::named;
use crate::context::{AgentsContext, OpenBoard};
use crate::log_text::{follow, tail};
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};
use crate::runners::logs::{line_json, unread};

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
    let OpenBoard { client, board } = context.board_with("task", &named).await?;
    let detail = board.task_detail(&named).await?;
    let mut attempts = detail.attempts.iter();
    let attempt = match args.attempt {
        Some(number) => attempts.find(|attempt| attempt.number == number),
        None => attempts.next_back(),
    };
    let missing = |what: String| CommandError::new(CommandExit::Failed, what);
    let id = detail.task.id;
    let attempt = attempt.ok_or_else(|| match args.attempt {
        Some(number) => missing(format!("task {id} has no attempt {number}")),
        None => missing(format!("no agent was started for task {id} yet")),
    })?;
    let name = attempt.log.as_deref().unwrap_or_default();
    let path = context.task_logs().join(name);
    if !path.is_file() {
        let message = format!("there is no log at {}", path.display());
        return Err(missing(message).hint(
            "logs are kept on the machine of the runner, as long as runners.logRetention says",
        ));
    }
    let report = if args.follow {
        let number = attempt.number;
        let ended = || async {
            let now = board.task_detail(&id.to_string()).await;
            now.is_ok_and(|detail| {
                let mut own = detail.attempts.iter();
                own.any(|attempt| attempt.number == number && attempt.ended_at.is_some())
            })
        };
        let print = |line: &str| {
            if context.json {
                (context.print)(&line_json(line).to_string());
            } else {
                (context.print)(line);
            }
        };
        let followed = follow(&path, print, ended).await;
        followed.map_err(|error| unread(&path, &error))?;
        CommandReport::streamed()
    } else {
        let lines = tail(&path, args.limit).await;
        let lines = lines.map_err(|error| unread(&path, &error))?;
        let value: Json = lines.iter().map(|line| line_json(line)).collect();
        CommandReport::document(value, lines.join("\n"))
    };
    client.close().await?;
    Ok(report)
}
