//! `lope store prune`: runs that have ended leave the store, in small batches that do not block work.

use clap::Args;
use lope_model::{Span, Timestamp};
use lope_store::Store;
use lope_store::runs::{Cursor, FinalStatus, Prune, RunFilter, RunStatus};
use serde_json::json;

use super::runs::open;
use crate::clock::wall;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, counted};

/// Runs deleted at a time.
const BATCH: usize = 500;
/// Runs looked at a time when they are only counted.
const PAGE: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Only runs that ended longer ago than this  [default: the configured retention]
    #[arg(long, value_name = "DURATION")]
    older: Option<String>,
    /// completed, failed or cancelled; may be given several times  [default: all three]
    #[arg(long)]
    status: Vec<String>,
    #[arg(long)]
    workflow: Option<String>,
    /// Count them and delete nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: PruneArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let statuses = args.status.iter().map(|text| status(text)).collect::<CliResult<Vec<_>>>()?;
    let older = match &args.older {
        Some(text) => text.parse::<Span>().map_err(|error| CliError::usage(error.to_string()))?,
        None => retention(settings, args.workflow.as_deref())?,
    };
    let store = open(settings).await?;
    let before = wall().minus(older).max(Timestamp::EPOCH);
    let prune = Prune { before, statuses, workflow: args.workflow, limit: BATCH };
    let runs = if args.dry_run { count(&store, &prune).await? } else { delete(&store, prune).await? };
    store.upkeep.close().await?;
    let value = json!({ "runs": runs, "before": before.to_string(), "dry_run": args.dry_run });
    let word = if args.dry_run { "would be deleted" } else { "deleted" };
    output.result(&value, &format!("{} that ended before {before} {word}", counted(runs, "run")));
    Ok(Exit::Done)
}

fn status(text: &str) -> CliResult<FinalStatus> {
    let wrong = || CliError::usage(format!("'{text}' is no way to end")).hint("completed, failed, cancelled");
    FinalStatus::parse(text).ok_or_else(wrong)
}

fn retention(settings: &Settings, workflow: Option<&str>) -> CliResult<Span> {
    let engine = &settings.config.engine;
    let kept = workflow.and_then(|name| engine.retention_of.get(name)).copied().unwrap_or(engine.retention);
    kept.ok_or_else(|| CliError::usage("runs are kept for ever, as the config says").hint("say how old: --older 30d"))
}

async fn delete(store: &Store, prune: Prune) -> CliResult<u64> {
    let mut runs = 0;
    loop {
        let pruned = store.runs.prune(prune.clone()).await?;
        runs += pruned.runs;
        if !pruned.more {
            return Ok(runs);
        }
    }
}

async fn count(store: &Store, prune: &Prune) -> CliResult<u64> {
    let all = [FinalStatus::Completed, FinalStatus::Failed, FinalStatus::Cancelled];
    let statuses = if prune.statuses.is_empty() { all.to_vec() } else { prune.statuses.clone() };
    let statuses: Vec<RunStatus> = statuses.into_iter().map(RunStatus::Final).collect();
    let (mut runs, mut after): (u64, Option<Cursor>) = (0, None);
    loop {
        let filter = RunFilter {
            statuses: statuses.clone(),
            workflow: prune.workflow.clone(),
            // Whoever ended before a time began before it.
            until: Some(prune.before),
            after,
            limit: PAGE,
            ..RunFilter::default()
        };
        let page = store.runs.list(filter).await?;
        let Some(last) = page.last() else { return Ok(runs) };
        after = Some(Cursor { created_at: last.created_at, run: last.run });
        let ended = |at: Option<Timestamp>| at.is_some_and(|at| at < prune.before);
        runs += page.iter().filter(|record| ended(record.finished_at)).count() as u64;
    }
}
