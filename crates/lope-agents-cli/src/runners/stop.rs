//! `lope runners stop`: asked to end its task, then cancelled, then killed.

use std::time::{Duration, Instant};

use clap::Args;
use lope::Client;
use lope::agents::records::{AgentRunnerRecord, RunnerStatus, StopLevel};
use lope::agents::{AgentBoard, BoardError, BoardResult, LocalMachine, describe, longest_stop};
use lope_model::Span;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use super::list::not_of_agents;
use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};

/// How often it is looked whether a runner has ended.
const POLL: Duration = Duration::from_millis(50);
/// How much longer than its round a runner that was cancelled may take: it looks at the board now and then,
/// and writes what it came to.
const CANCEL_MARGIN: Span = Span::from_secs(5);

#[derive(Debug, Args)]
pub struct StopRunnerArgs {
    /// The runner, or the beginning of its id
    #[arg(required_unless_present_any = ["all", "force"])]
    runner: Option<String>,
    /// Every runner of agents
    #[arg(long, conflicts_with = "runner")]
    all: bool,
    /// Kill at once, agents too; without an id, the runners of the project around this folder
    #[arg(long)]
    force: bool,
    /// How long a task that is at work may take to end before it is cancelled
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: String,
}

pub(super) async fn run(args: StopRunnerArgs, context: &AgentsContext) -> CommandResult {
    context.for_people()?;
    let patience: Span = args
        .timeout
        .parse()
        .map_err(|error| CommandError::usage(format!("--timeout: {error}")))?;
    let OpenBoard { client, board } = match &args.runner {
        Some(named) => context.board_with("runner", named).await?,
        None => match context.board_if_there().await? {
            Some(open) => open,
            None => return Ok(CommandReport::new(json!([]), "no runners")),
        },
    };
    let meant = meant(&args, &client, &board, context).await?;
    // All at once, so that one is not waited for while the others begin something.
    for runner in meant.iter().filter(|_| !args.force) {
        board.ask_to_stop(runner.id, StopLevel::Drain).await?;
    }
    let stopped = stop_all(meant, &board, args.force, patience, context).await?;
    client.close().await?;
    let lines: Vec<String> = stopped
        .iter()
        .map(|(runner, how)| format!("runner {} {how}", runner.id))
        .collect();
    let value: Json = stopped
        .iter()
        .map(|(runner, how)| {
            let mut value = describe::runner(&runner.clone().into());
            value["stopped"] = json!(how);
            value
        })
        .collect();
    let text = if lines.is_empty() {
        "no runners".to_owned()
    } else {
        lines.join("\n")
    };
    let is_stuck = stopped.iter().any(|(_, how)| *how == LEFT);
    let report = CommandReport::new(value, text);
    Ok(if is_stuck {
        report.exiting(CommandExit::Failed)
    } else {
        report
    })
}

async fn meant(
    args: &StopRunnerArgs,
    client: &Client,
    board: &AgentBoard,
    context: &AgentsContext,
) -> CommandResult<Vec<AgentRunnerRecord>> {
    if let Some(named) = &args.runner {
        return match board.runner(named).await {
            Ok(runner) => Ok(vec![runner]),
            Err(missing @ BoardError::Missing { .. }) => {
                Err(not_of_agents(client, named, missing).await)
            }
            Err(error) => Err(error.into()),
        };
    }
    let mut live = board.view(None).await?.runners;
    if !args.all {
        let project = context.project(board, None).await?;
        live.retain(|runner| runner.project_path.as_ref() == Some(&project.path));
    }
    Ok(live)
}

/// Stop runners beside each other: none waits for another that does not end.
async fn stop_all(
    meant: Vec<AgentRunnerRecord>,
    board: &AgentBoard,
    force: bool,
    patience: Span,
    context: &AgentsContext,
) -> BoardResult<Vec<StoppedRunner>> {
    let mut stops = JoinSet::new();
    for (place, runner) in meant.into_iter().enumerate() {
        let board = board.clone();
        let grace = longest_stop(context.runners.stop_grace) + CANCEL_MARGIN;
        let levels = [
            (StopLevel::Drain, patience, "ended its work"),
            (StopLevel::Cancel, grace, "was cancelled"),
        ];
        let levels: Vec<_> = levels.into_iter().filter(|_| !force).collect();
        stops.spawn(async move { (place, stop(&board, &runner, &levels).await) });
    }
    let mut stopped = stops.join_all().await;
    stopped.sort_by_key(|(place, _)| *place);
    stopped.into_iter().map(|(_, stopped)| stopped).collect()
}

/// A runner, and how it was stopped.
type StoppedRunner = (AgentRunnerRecord, &'static str);

/// It is on a machine from which it cannot be killed.
const LEFT: &str = "was asked to stop and has not";

/// Ask a runner to stop, more and more urgently, and kill it in the end.
async fn stop(
    board: &AgentBoard,
    runner: &AgentRunnerRecord,
    levels: &[(StopLevel, Span, &'static str)],
) -> BoardResult<StoppedRunner> {
    if is_ended(runner) {
        return Ok((runner.clone(), "had ended"));
    }
    for (level, patience, how) in levels {
        board.ask_to_stop(runner.id, *level).await?;
        if let Some(ended) = ended_within(board, runner, *patience).await? {
            return Ok((ended, *how));
        }
    }
    board.ask_to_stop(runner.id, StopLevel::Kill).await?;
    let killed = LocalMachine::kill(runner).unwrap_or(false);
    let view = board.view(None).await?;
    let is_gone = view.proof(runner.id) == lope::agents::law::ProcessProof::Gone;
    if !killed && !is_gone {
        return Ok((runner.clone(), LEFT));
    }
    let words = Some("it was killed");
    board
        .end_runner(runner.id, RunnerStatus::Failed, words)
        .await?;
    let ended = board.runner(&runner.id.to_string()).await?;
    Ok((ended, if killed { "was killed" } else { "was gone" }))
}

fn is_ended(runner: &AgentRunnerRecord) -> bool {
    matches!(
        runner.status,
        RunnerStatus::Completed | RunnerStatus::Failed
    )
}

/// The runner when it has ended, or when its process is proven to be gone.
async fn ended_within(
    board: &AgentBoard,
    runner: &AgentRunnerRecord,
    patience: Span,
) -> BoardResult<Option<AgentRunnerRecord>> {
    let begun = Instant::now();
    loop {
        let now = board.runner(&runner.id.to_string()).await?;
        if is_ended(&now) {
            return Ok(Some(now));
        }
        let view = board.view(None).await?;
        let is_gone = view.proof(runner.id) == lope::agents::law::ProcessProof::Gone;
        if is_gone || begun.elapsed() >= patience.to_duration() {
            return Ok(None);
        }
        tokio::time::sleep(POLL).await;
    }
}
