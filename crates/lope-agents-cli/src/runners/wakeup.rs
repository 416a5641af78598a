//! `lope runners wakeup`: what cron calls. Of several at once on a machine, one acts.

use std::path::PathBuf;

use clap::Args;
use lope::agents::law::wakeup::{WakeAction, WakeStep};
use lope::agents::wake::{self, WakeError, WakeOutcome, WakePlan};
use lope::agents::{AgentBoard, RunnerSpec, describe};
use lope_model::RunnerId;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use super::start::start_detached;
use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};

#[derive(Debug, Args)]
pub struct WakeupArgs {
    /// Say what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(args: &WakeupArgs, context: &AgentsContext) -> CommandResult {
    context.for_people()?;
    if !args.dry_run {
        context.may_leave_runners()?;
    }
    let wakeup = &context.runners.wakeup;
    if !wakeup.enabled {
        return Ok(nothing(args.dry_run, "wake-up is switched off"));
    }
    let folders: Vec<PathBuf> = wakeup
        .project_paths
        .iter()
        .map(|path| context.absolute(path))
        .collect();
    let found = wake::scan(&folders, &context.home);
    if args.dry_run {
        return dry_run(found, context).await;
    }
    let open = if found.is_empty() {
        context.board_if_there().await?
    } else {
        Some(context.board().await?)
    };
    let Some(OpenBoard { client, board }) = open else {
        return Ok(nothing(false, "nothing to do"));
    };
    let Some(woken) = wake::wake_up(&board, found, &context.home).await? else {
        client.close().await?;
        return Ok(nothing(false, "another wake-up is at work"));
    };
    let started = start(&woken, context).await;
    note(&board, &started).await?;
    let mut report = report(&woken.plan, &started, false);
    // Others may wake up while hooks are told.
    drop(woken);
    let unheard = wake::tell_hooks(board, context.environment.clone()).await?;
    client.close().await?;
    for line in &unheard {
        report.text = format!("{}\n{line}", report.text);
    }
    report.value["hooks"] = json!(unheard);
    Ok(report)
}

fn nothing(dry_run: bool, words: &str) -> CommandReport {
    let value = json!({ "dryRun": dry_run, "found": [], "steps": [], "message": words });
    CommandReport::new(value, words)
}

async fn dry_run(found: Vec<String>, context: &AgentsContext) -> CommandResult {
    let plan = match context.board_if_there().await? {
        None => WakePlan {
            found,
            steps: Vec::new(),
        },
        Some(OpenBoard { client, board }) => {
            let plan = wake::plan(&board, found, &context.home).await?;
            client.close().await?;
            plan
        }
    };
    Ok(report(&plan, &[], true))
}

impl From<WakeError> for CommandError {
    fn from(error: WakeError) -> Self {
        match error {
            WakeError::Board(error) => error.into(),
            error @ WakeError::Lock { .. } => Self::new(CommandExit::Failed, error.to_string()),
        }
    }
}

/// A project whose runner was started, or why it was not.
type StartedRunner = (String, Result<RunnerId, String>);

async fn start(woken: &WakeOutcome, context: &AgentsContext) -> Vec<StartedRunner> {
    let mut starts = JoinSet::new();
    for project in woken.start.iter().cloned() {
        let context = context.clone();
        let lock_expiry = context.runners.lock_expiry;
        let spec = RunnerSpec {
            id: RunnerId::from_uuid(uuid::Uuid::new_v4()),
            project,
            section: None,
            task: None,
            until_idle: true,
            lock_expiry,
        };
        starts.spawn(async move {
            let started = start_detached(&spec, &context).await;
            let started = started.map(|()| spec.id);
            (spec.project, started.map_err(|error| error.to_string()))
        });
    }
    let mut started = starts.join_all().await;
    started.sort_by(|a, b| a.0.cmp(&b.0));
    started
}

/// What could not be started is left alone for a while.
async fn note(board: &AgentBoard, started: &[StartedRunner]) -> CommandResult<()> {
    for (project, started) in started {
        if let Err(error) = started {
            board.note_unstarted(project, error).await?;
        }
    }
    Ok(())
}

fn report(plan: &WakePlan, started: &[StartedRunner], dry_run: bool) -> CommandReport {
    let would = if dry_run { "would " } else { "" };
    let mut lines: Vec<String> = Vec::new();
    for path in &plan.found {
        lines.push(format!("{path}: {would}register"));
    }
    let mut has_failed = false;
    let mut steps = Vec::new();
    for step in &plan.steps {
        let (mut value, words) = described(step);
        lines.push(format!("{}: {words}", step.project));
        if let Some((_, started)) = started.iter().find(|(path, _)| *path == step.project) {
            match started {
                Ok(id) => value["started"] = json!(id.to_string()),
                Err(error) => {
                    value["error"] = json!(error);
                    lines.push(format!("{}: {error}", step.project));
                    has_failed = true;
                }
            }
        }
        steps.push(value);
    }
    let text = if lines.is_empty() {
        "nothing to do".to_owned()
    } else {
        lines.join("\n")
    };
    let value = json!({ "dryRun": dry_run, "found": plan.found, "steps": steps });
    let report = CommandReport::new(value, text);
    if has_failed {
        report.exiting(CommandExit::Failed)
    } else {
        report
    }
}

fn described(step: &WakeStep) -> (Json, String) {
    let mut value = json!({ "project": step.project });
    let (action, words) = match &step.action {
        WakeAction::Healthy { runner } => {
            value["runner"] = json!(runner.to_string());
            ("none", format!("runner {runner} works"))
        }
        WakeAction::NothingToDo => ("none", "nothing to do".to_owned()),
        WakeAction::Later(unstarted) => {
            value["unstarted"] = describe::unstarted_runner(unstarted);
            ("none", super::unstarted_words(unstarted))
        }
        WakeAction::Disabled => ("none", "disabled".to_owned()),
        WakeAction::Start => ("start", "start a runner".to_owned()),
        WakeAction::Replace { ended, start } => {
            let ids: Vec<String> = ended.iter().map(|runner| runner.id.to_string()).collect();
            value["ended"] = json!(ids);
            let again = if *start { ", start a runner" } else { "" };
            let words = format!(
                "end runner {} without a sign of life{again}",
                ids.join(", ")
            );
            (if *start { "replace" } else { "end" }, words)
        }
    };
    value["action"] = json!(action);
    (value, words)
}
