//! `lope runners logs`: what runners did, also of those that the store has forgotten.

use std::path::{Path, PathBuf};

use clap::Args;
use lope::agents::{AgentBoard, BoardError, runner_log};
use lope_model::RunnerId;
use serde_json::{Value as Json, json};

use super::list::not_of_agents;
use crate::context::AgentsContext;
use crate::log_text::{LogExtent, is_over, line_json, no_log, of_one, printed, tail, unread};
use crate::report::{CommandError, CommandReport, CommandResult};
use crate::table::short;

#[derive(Debug, Args)]
pub struct RunnerLogsArgs {
    /// The runner, or the beginning of its id
    #[arg(required_unless_present = "all")]
    runner: Option<String>,
    /// Of all runners, by time
    #[arg(long, conflicts_with_all = ["runner", "follow"])]
    all: bool,
    /// At most so many lines, the last ones
    #[arg(long, default_value_t = 1_000)]
    limit: usize,
    /// Go on while it works
    #[arg(long, short)]
    follow: bool,
}

pub(super) async fn run(args: &RunnerLogsArgs, context: &AgentsContext) -> CommandResult {
    if args.limit == 0 {
        return Err(CommandError::usage("--limit: at least 1"));
    }
    let folder = context.runner_logs();
    let Some(named) = args.runner.as_deref() else {
        return all(&folder, args.limit).await;
    };
    let extent = LogExtent {
        limit: args.limit,
        follow: args.follow,
    };
    let Some(open) = context.board_if_there().await? else {
        let path = forgotten(&folder, named)?;
        return printed(&path, extent, context, || async { true }).await;
    };
    let board = &open.board;
    let report = match board.runner(named).await {
        Ok(runner) => {
            let words = format!(
                "there is no log of runner {} in {}",
                runner.id,
                folder.display()
            );
            let path = runner_log::find(&folder, runner.id).ok_or_else(|| no_log(words))?;
            let id = runner.id.to_string();
            printed(&path, extent, context, || has_ended(board, &id)).await?
        }
        Err(BoardError::Missing { .. }) => {
            let path = match forgotten(&folder, named) {
                Err(missing @ BoardError::Missing { .. }) => {
                    return Err(not_of_agents(&open.client, named, missing).await);
                }
                path => path?,
            };
            printed(&path, extent, context, || async { true }).await?
        }
        Err(error) => return Err(error.into()),
    };
    open.client.close().await?;
    Ok(report)
}

/// Will a runner write nothing more? One that the store has forgotten neither.
async fn has_ended(board: &AgentBoard, id: &str) -> bool {
    match board.runner(id).await {
        Ok(runner) => is_over(&runner),
        Err(BoardError::Missing { .. }) => true,
        Err(_) => false,
    }
}

/// The log of a runner that the store does not know any more, by the beginning of its id.
fn forgotten(folder: &Path, named: &str) -> Result<PathBuf, BoardError> {
    let beginning = named.to_ascii_lowercase();
    let mut found = runner_log::all(folder);
    found.retain(|(id, _)| !beginning.is_empty() && id.to_string().starts_with(&beginning));
    of_one(found, "runner", named)
}

async fn all(folder: &Path, limit: usize) -> CommandResult {
    let mut found: Vec<(String, RunnerId)> = Vec::new();
    for (runner, path) in runner_log::all(folder) {
        let lines = tail(&path, limit).await;
        let lines = lines.map_err(|error| unread(&path, &error))?;
        found.extend(lines.into_iter().map(|line| (line, runner)));
    }
    found.sort();
    found.drain(..found.len().saturating_sub(limit));
    let value: Json = found
        .iter()
        .map(|(line, runner)| {
            let mut value = line_json(line);
            value["runner"] = json!(runner.to_string());
            value
        })
        .collect();
    let lines = found.iter().map(|(line, runner)| {
        let (at, text) = line.split_once(' ').unwrap_or(("", line));
        format!("{at} [{}] {text}", short(runner))
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    Ok(CommandReport::document(value, text))
}
