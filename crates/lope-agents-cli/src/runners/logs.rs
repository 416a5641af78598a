//! `lope runners logs`: what runners did.

use std::path::{Path, PathBuf};

use clap::Args;
use lope::agents::records::RunnerStatus;
use lope::agents::runner_log;
use serde_json::{Value as Json, json};

use crate::context::{AgentsContext, OpenBoard};
use crate::log_text::{follow, tail};
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};

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
    let OpenBoard { client, board } = context.board_with("runner", named).await?;
    let runner = board.runner(named).await?;
    let Some(path) = runner_log::find(&folder, runner.id) else {
        let message = format!(
            "there is no log of runner {} in {}",
            runner.id,
            folder.display()
        );
        return Err(CommandError::new(CommandExit::Failed, message).hint(
            "logs are kept on the machine of the runner, as long as runners.logRetention says",
        ));
    };
    let id = runner.id.to_string();
    let report = if args.follow {
        let ended = || async {
            let now = board.runner(&id).await;
            now.is_ok_and(|runner| {
                matches!(
                    runner.status,
                    RunnerStatus::Completed | RunnerStatus::Failed
                )
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

pub(crate) fn unread(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(CommandExit::Failed, format!("{}: {error}", path.display()))
}

/// A line with its time.
pub(crate) fn line_json(line: &str) -> Json {
    let (at, text) = line.split_once(' ').unwrap_or(("", line));
    json!({ "at": at, "text": text })
}

async fn all(folder: &Path, limit: usize) -> CommandResult {
    let mut found: Vec<(String, String)> = Vec::new();
    for path in logs(folder) {
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name
            .unwrap_or_default()
            .trim_start_matches("daemon-")
            .to_owned();
        let lines = tail(&path, limit).await;
        let lines = lines.map_err(|error| unread(&path, &error))?;
        found.extend(lines.into_iter().map(|line| (line, name.clone())));
    }
    found.sort();
    found.drain(..found.len().saturating_sub(limit));
    let value: Json = found
        .iter()
        .map(|(line, name)| {
            let mut value = line_json(line);
            value["runner"] = json!(name);
            value
        })
        .collect();
    let lines = found.iter().map(|(line, name)| {
        let (at, text) = line.split_once(' ').unwrap_or(("", line));
        format!("{at} [{}] {text}", name.split('-').next().unwrap_or(name))
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    Ok(CommandReport::document(value, text))
}

fn logs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect()
}
