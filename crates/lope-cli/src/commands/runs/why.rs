//! `lope runs why`: why a run is not moving, in plain words.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope::describe;
use lope_engine::look;
use lope_engine::why::{Sight, Why, why};
use lope_flow::history::{ExecutionStatus, Historian};
use lope_model::Timestamp;
use lope_store::Store;
use lope_store::runs::RunRecord;
use serde_json::json;

use super::find::find;
use crate::clock::wall;
use crate::error::{CliResult, Exit};
use crate::look::paint_status;
use crate::output::Output;

/// Most reasons told.
const REASONS: usize = 20;
/// Most runners looked at.
const RUNNERS: usize = 1_000;

pub(crate) async fn run(store: &Store, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(store, id).await?;
    let plan = look::plan(store, &record).await?;
    let history = look::history(store, record.run, &plan, None).await?;
    let (reasons, now) = (reasons(store, &record, &history).await?, wall());
    let values: Vec<_> = reasons.iter().map(|why| describe::why(why, record.run, now)).collect();
    let value = json!({ "run_id": record.run, "status": record.status.as_str(), "reasons": values });
    let mut text = format!("run {} of '{}' is {}", record.run, record.workflow, paint_status(record.status));
    for why in &reasons {
        text.push_str(&format!("\n  {}", why.message(now)));
        why.hint(record.run).iter().for_each(|hint| text.push_str(&format!("\n    hint: {hint}")));
    }
    output.document(&value, &text);
    Ok(Exit::Done)
}

pub(crate) async fn reasons(store: &Store, record: &RunRecord, history: &Historian<'_>) -> CliResult<Vec<Why>> {
    let plan = look::plan(store, record).await?;
    let open = history.executions().filter(|it| it.status == ExecutionStatus::Running);
    let since: BTreeMap<Arc<str>, Timestamp> = open
        .map(|it| (Arc::clone(&it.id), it.attempts.last().map_or(it.opened_at, |last| last.dispatched_at)))
        .collect();
    let runners = store.runs.runners(RUNNERS).await?;
    let loaded = store.runs.load(&[record.run]).await?.into_iter().next().flatten();
    let waiting_mail = loaded.map_or(0, |loaded| loaded.mail.len());
    let at_work = if record.owner.is_none() { at_work(store, record).await? } else { 0 };
    let reasons = history.state().why(&plan, REASONS);
    let (since, runners) = (&since, &runners);
    Ok(why(&Sight { record, reasons: &reasons, since, runners, at_work, waiting_mail, now: wall() }))
}

/// Runs of the same queue that have an owner.
async fn at_work(store: &Store, record: &RunRecord) -> CliResult<u64> {
    let counts = store.runs.counts().await?;
    Ok(counts.queues.iter().find(|count| count.queue == record.queue).map_or(0, |count| count.owned))
}
