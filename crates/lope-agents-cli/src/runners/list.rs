//! `lope runners list|show`. One list of all who work: runners of agents, and those that work on
//! runs.

use std::collections::BTreeSet;

use lope::Client;
use lope::agents::law::seen::SeenRunner;
use lope::agents::law::unstarted::UnstartedRunner;
use lope::agents::{BoardError, ROUND_ENGINE, describe};
use serde_json::{Value as Json, json};

use super::unstarted_words;
use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandReport, CommandResult};
use crate::table::{RuledTable, or_dash, short};

/// Most runners of the engine that are listed.
const ENGINE_RUNNERS_MAX: usize = 1_000;

pub(super) async fn list(all: bool, context: &AgentsContext) -> CommandResult {
    let Some(OpenBoard { client, board }) = context.board_if_there().await? else {
        return Ok(CommandReport::new(json!([]), "no runners"));
    };
    let mut agents = board.runners().await?;
    agents.retain(|seen| all || !seen.has_ended());
    let projects = board.projects().await?;
    let mut engines = client.runners(ENGINE_RUNNERS_MAX).await?;
    // What a runner of agents works with is no runner of its own.
    engines.retain(|runner| (all || runner.live) && runner.name != ROUND_ENGINE);
    client.close().await?;
    let columns = ["ID", "STATUS", "PID", "PROJECT", "SECTION", "HEARTBEAT"];
    let mut table = RuledTable::new("RUNNERS", &columns);
    let mut values = Vec::new();
    for seen in &agents {
        let runner = &seen.runner;
        table.row(vec![
            short(&runner.id),
            seen.word().to_owned(),
            runner.pid.map_or("-".to_owned(), |pid| pid.to_string()),
            or_dash(runner.project_path.as_deref()),
            or_dash(runner.section_id.as_deref()),
            clock(&runner.heartbeat_at.to_string()),
        ]);
        values.push(described(seen));
    }
    for runner in &engines {
        let value = engine(runner);
        table.row(vec![
            short(&runner.runner),
            value["status"].as_str().unwrap_or("-").to_owned(),
            runner.pid.to_string(),
            format!("(runs: {})", runner.name),
            "-".to_owned(),
            clock(&runner.heartbeat_at.to_string()),
        ]);
        values.push(value);
    }
    let mut text = if values.is_empty() {
        "no runners".to_owned()
    } else {
        table.text()
    };
    let live = agents.iter().filter(|seen| seen.is_live());
    if let Some(warning) = warning(live, context) {
        text = format!("{text}\n\n{warning}");
    }
    for project in &projects {
        if let Some(unstarted) = UnstartedRunner::of(project) {
            let words = unstarted_words(&unstarted);
            text = format!("{text}\n\n⚠️  {}: {words}", project.path);
        }
    }
    Ok(CommandReport::new(Json::Array(values), text))
}

/// The time of day alone.
fn clock(time: &str) -> String {
    let after = time.split_once('T').map_or(time, |(_, clock)| clock);
    after.chars().take(8).collect()
}

fn described(runner: &SeenRunner) -> Json {
    let mut value = describe::runner(runner);
    value["kind"] = json!("agents");
    value
}

fn engine(runner: &lope::runs::RunnerRecord) -> Json {
    let status = match (runner.live, runner.ended_at.is_some(), runner.owns) {
        (true, _, 0) => "idle",
        (true, _, _) => "running",
        (false, true, _) => "completed",
        (false, false, _) => "failed",
    };
    let mut value = json!({
        "id": runner.runner.to_string(),
        "kind": "runs",
        "status": status,
        "name": runner.name,
        "pid": runner.pid,
        "host": runner.host,
        "startedAt": runner.started_at.to_string(),
        "lastHeartbeat": runner.heartbeat_at.to_string(),
        "owns": runner.owns,
    });
    if let Some(ended) = runner.ended_at {
        value["completedAt"] = json!(ended.to_string());
    }
    value
}

/// Whoever works in one of several projects is told to leave the others alone.
fn warning<'a>(
    live: impl Iterator<Item = &'a SeenRunner>,
    context: &AgentsContext,
) -> Option<String> {
    let projects: BTreeSet<&str> = live
        .filter_map(|seen| seen.runner.project_path.as_deref())
        .collect();
    if projects.len() < 2 {
        return None;
    }
    let here = std::fs::canonicalize(&context.folder).unwrap_or_else(|_| context.folder.clone());
    let around = projects.iter().filter(|path| here.starts_with(path));
    let own = around.max_by_key(|path| path.len());
    let own = own.map_or_else(|| here.display().to_string(), ToString::to_string);
    Some(format!(
        "⚠️  MULTI-PROJECT WARNING: {} different projects have runners.\n   Your current project: {own}\n   \
         DO NOT modify files in other projects.",
        projects.len()
    ))
}

/// The one runner that works on runs whose id begins so.
async fn engine_named(
    client: &Client,
    named: &str,
) -> CommandResult<Option<lope::runs::RunnerRecord>> {
    let beginning = named.to_ascii_lowercase();
    let mut all = client.runners(ENGINE_RUNNERS_MAX).await?;
    all.retain(|it| !beginning.is_empty() && it.runner.to_string().starts_with(&beginning));
    Ok(all.pop().filter(|_| all.is_empty()))
}

/// Why something cannot be done with a runner that is none of agents: it is there, but works on runs.
pub(super) async fn not_of_agents(
    client: &Client,
    named: &str,
    missing: BoardError,
) -> CommandError {
    let found = match engine_named(client, named).await {
        Ok(found) => found,
        Err(error) => return error,
    };
    found.map_or_else(
        || missing.into(),
        |it| {
            let words = format!("runner {} works on runs, not for agents", it.runner);
            CommandError::refused(words).hint(format!(
                "process {} on {}: a TERM ends it, and what it says is on its standard error",
                it.pid, it.host
            ))
        },
    )
}

pub(super) async fn show(named: &str, context: &AgentsContext) -> CommandResult {
    let OpenBoard { client, board } = context.board_with("runner", named).await?;
    let value = match board.seen_runner(named).await {
        Ok(runner) => described(&runner),
        Err(missing @ BoardError::Missing { .. }) => {
            engine(&engine_named(&client, named).await?.ok_or(missing)?)
        }
        Err(error) => return Err(error.into()),
    };
    client.close().await?;
    let rows = value.as_object().into_iter().flatten();
    let lines: Vec<String> = rows
        .map(|(name, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            format!("{name:<14} {text}")
        })
        .collect();
    Ok(CommandReport::document(value, lines.join("\n")))
}
