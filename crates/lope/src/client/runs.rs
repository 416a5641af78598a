//! Looking at runs: which there are, what became of them, why one is not moving.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope_engine::fork::{self, Fork, Forked};
use lope_engine::query::{self, Follower, FoundRun};
use lope_engine::{codec, limits};
use lope_flow::history::{Execution, ExecutionStatus, Historian, HistoryMark};
use lope_flow::law::{EventKind, Plan};
use lope_model::{RunId, Timestamp};
use lope_store::runs::{JournalRow, ResultHead, RunFilter, RunRecord, RunnerRecord};
use lope_store::{StoreError, StoreResult, Watch};
use lope_why::{Sight, Why, awaited, needed_secrets, why};
use serde_json::{Value as Json, json};

use super::Client;
use crate::results::{InputResult, Results};
use crate::{clock, describe};

/// Most reasons told.
const REASONS: usize = 20;
/// Most runners looked at.
const RUNNERS: usize = 1_000;
/// The version of the form of an exported run.
const EXPORT_FORMAT: u32 = 1;

/// Runs with so many rows are shown whole.
const WHOLE_ROWS: u64 = 2_000;
/// Most rows behind a snapshot that are folded to show a run.
pub const RECENT_ROWS: u64 = 10_000;

/// The last part of a run's history.
#[derive(Debug)]
pub struct RecentHistory<'a> {
    pub history: Historian<'a>,
    /// What was over at this row is not in it.
    pub from: u64,
}

/// A row of a run's journal, as people and scripts read it.
#[derive(Clone, PartialEq, Debug)]
pub struct JournalEntry {
    pub seq: u64,
    pub at: Timestamp,
    /// What happened: `start`, `outcome`, `signal`…
    pub event: Arc<str>,
    /// The execution that it speaks of.
    pub path: Option<Arc<str>>,
    pub attempt: Option<u32>,
    /// All of it, in the shape that scripts rely on.
    pub json: Json,
}

fn entry(row: &JournalRow, kind: &EventKind, json: Json) -> JournalEntry {
    let about = kind.execution();
    JournalEntry {
        seq: row.seq,
        at: row.at,
        event: row.event.clone(),
        path: about.map(|(path, _)| Arc::clone(path)),
        attempt: about.and_then(|(_, attempt)| attempt),
        json,
    }
}

/// When its last attempt was sent out, or it was opened if there is none.
fn began_last(execution: &Execution) -> Timestamp {
    let last = execution.attempts.last();
    last.map_or(execution.opened_at, |last| last.dispatched_at)
}

impl Client {
    /// A run by its id.
    pub async fn run(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        query::record(self.store(), run).await
    }

    /// Those of these runs that are there, as a listing shows them: without their results.
    pub async fn listed(&self, runs: &[RunId]) -> StoreResult<Vec<RunRecord>> {
        self.store().runs.listed(runs).await
    }

    /// The beginning of a run's result; nothing if it has none.
    pub async fn result_head(&self, run: RunId, most: usize) -> StoreResult<Option<ResultHead>> {
        self.store().runs.result(run, most).await
    }

    /// The run that a text names: its id, its key, or the beginning of its id.
    pub async fn find(&self, text: &str) -> StoreResult<FoundRun> {
        query::find(self.store(), text).await
    }

    /// Runs that a filter lets through, youngest first.
    pub async fn list(&self, filter: RunFilter) -> StoreResult<Vec<RunRecord>> {
        self.store().runs.list(filter).await
    }

    /// The plan that a run goes by.
    pub async fn plan(&self, record: &RunRecord) -> StoreResult<Arc<Plan>> {
        query::plan(self.store(), record).await
    }

    /// What happened to a run up to a row of its journal, or to its end.
    pub async fn history<'a>(
        &'a self,
        run: RunId,
        plan: &'a Plan,
        upto: Option<u64>,
    ) -> StoreResult<Historian<'a>> {
        let record = self.listed(&[run]).await?.pop();
        let history = query::history(self.store(), run, plan, upto).await?;
        let head = record.map_or(0, |record| record.head);
        if history.seq() < upto.unwrap_or(head).min(head) {
            return Err(StoreError::corrupt(format!(
                "the journal of run {run} ends at row {}, and row {head} was written",
                history.seq()
            )));
        }
        Ok(history)
    }

    /// The last part of a run's history: all of it if it is short, else what came since its newest
    /// snapshot. Nothing if that is long too: whoever shows a run must not read all of it.
    pub async fn recent_history<'a>(
        &'a self,
        record: &RunRecord,
        plan: &'a Plan,
    ) -> StoreResult<Option<RecentHistory<'a>>> {
        if record.head <= WHOLE_ROWS {
            let history = self.history(record.run, plan, None).await?;
            return Ok(Some(RecentHistory { history, from: 0 }));
        }
        let mut follower = Follower::recent(self.store(), record.run, plan).await?;
        let from = follower.historian().seq();
        if record.head.saturating_sub(from) > RECENT_ROWS {
            return Ok(None);
        }
        follower.catch_up(|_, _, _| ()).await?;
        let history = follower.into_historian();
        Ok(Some(RecentHistory { history, from }))
    }

    /// Follow a run's journal from its first row on.
    pub async fn follow<'a>(&'a self, run: RunId, plan: &'a Plan) -> StoreResult<Follower<'a>> {
        Follower::begin(self.store(), run, plan).await
    }

    /// The same from where another follower stood.
    pub fn follow_from<'a>(&'a self, run: RunId, plan: &'a Plan, at: HistoryMark) -> Follower<'a> {
        Follower::resume(self.store(), run, Historian::from_mark(plan, at))
    }

    /// Rings when there may be new work or news in the store.
    pub fn watch(&self) -> Watch {
        self.store().runs.watch()
    }

    /// Wait until a run has ended. Nothing: there is no such run.
    pub async fn wait(&self, run: RunId) -> StoreResult<Option<RunRecord>> {
        lope_engine::client::wait(self.store(), run).await
    }

    /// The rows of a run's journal.
    pub async fn journal(&self, record: &RunRecord) -> StoreResult<Vec<JournalEntry>> {
        let plan = self.plan(record).await?;
        let mut follower = self.follow(record.run, &plan).await?;
        let mut entries = Vec::new();
        let told = follower.catch_up(|row, event, history| {
            let json = describe::told(record.run, row, event, history);
            entries.push(entry(row, &event.kind, json));
        });
        told.await?;
        Ok(entries)
    }

    /// Rows of a run's journal behind a number; nothing is folded for them.
    pub async fn journal_page(
        &self,
        record: &RunRecord,
        after: u64,
        limit: usize,
    ) -> StoreResult<Vec<JournalEntry>> {
        let rows = self.store().runs.journal(record.run, after, limit).await?;
        let blobs = query::blobs(self.store(), record.run, &rows).await?;
        let mut entries = Vec::with_capacity(rows.len());
        for row in &rows {
            let event = codec::event(row, &blobs).map_err(StoreError::corrupt)?;
            let about = event.kind.execution();
            let step = about.map(|(path, _)| describe::step_of(path));
            let json = describe::row(record.run, row, &event, step.as_deref());
            entries.push(entry(row, &event.kind, json));
        }
        Ok(entries)
    }

    /// The same without their JSON, for which large values would have to be read.
    pub async fn journal_outline(
        &self,
        run: RunId,
        after: u64,
        limit: usize,
    ) -> StoreResult<Vec<JournalEntry>> {
        let rows = self.store().runs.journal(run, after, limit).await?;
        let told = rows.iter().map(|row| {
            let kind = codec::kind_of(row).map_err(StoreError::corrupt)?;
            Ok(entry(row, &kind, Json::Null))
        });
        told.collect()
    }

    /// What became of each input that was fed to a run.
    pub async fn results(&self, record: &RunRecord) -> StoreResult<Results> {
        let plan = self.plan(record).await?;
        let history = self.history(record.run, &plan, None).await?;
        let results = history.results().iter().map(|(input, result)| InputResult {
            input: Arc::clone(input),
            result: result.clone(),
        });
        Ok(Results(results.collect()))
    }

    /// Everything there is of a run, as one JSON document.
    pub async fn export(&self, record: &RunRecord) -> StoreResult<Json> {
        let plan = self.plan(record).await?;
        let mut follower = self.follow(record.run, &plan).await?;
        let mut journal: Vec<Json> = Vec::new();
        let told = follower.catch_up(|row, event, history| {
            let mut value = describe::told(record.run, row, event, history);
            value["body"] = describe::body(event);
            journal.push(value);
        });
        told.await?;
        let loaded = self.store().runs.load(&[record.run]).await?;
        let loaded = loaded.into_iter().next().flatten();
        let (snapshot, mail) =
            loaded.map_or((None, Vec::new()), |loaded| (loaded.snapshot, loaded.mail));
        let history = follower.historian();
        let results = history.results().iter();
        let results: Vec<Json> = results
            .map(|(input, result)| describe::result(input, result))
            .collect();
        Ok(json!({
            "format": EXPORT_FORMAT,
            "run": describe::run_with_steps(record, history),
            "definition": describe::definition(plan.definition()),
            "journal": journal,
            "snapshot": snapshot.as_ref().map(describe::snapshot),
            "mail": mail.iter().map(describe::mail).collect::<Vec<_>>(),
            "results": results,
        }))
    }

    /// Why a run is not moving, most telling first.
    pub async fn why(&self, record: &RunRecord) -> StoreResult<Vec<Why>> {
        let plan = self.plan(record).await?;
        let history = self.history(record.run, &plan, None).await?;
        self.why_of(record, &history).await
    }

    /// The same, where the run's history is at hand.
    pub async fn why_of(
        &self,
        record: &RunRecord,
        history: &Historian<'_>,
    ) -> StoreResult<Vec<Why>> {
        let running = history
            .executions()
            .filter(|it| it.status == ExecutionStatus::Running);
        let since: BTreeMap<Arc<str>, Timestamp> = running
            .map(|it| (Arc::clone(&it.id), began_last(it)))
            .collect();
        let runners = self.runners(RUNNERS).await?;
        let loaded = self.store().runs.load(&[record.run]).await?;
        let loaded = loaded.into_iter().next().flatten();
        let at_work = match record.owner {
            None => self.at_work(record).await?,
            Some(_) => 0,
        };
        let now = clock::now();
        let limits =
            limits::in_the_way(self.store(), record, history.plan(), history.state(), now).await?;
        let reasons = history.state().why(history.plan(), REASONS);
        let mut gone = awaited(record, &reasons);
        if !gone.is_empty() {
            let asked: Vec<RunId> = gone.iter().copied().collect();
            let there = self.listed(&asked).await;
            // What cannot be read is there.
            let lacks = |all: &Vec<RunRecord>, child| all.iter().all(|it| it.run != child);
            gone.retain(|child| there.as_ref().is_ok_and(|all| lacks(all, *child)));
        }
        Ok(why(&Sight {
            limits: &limits,
            secrets: &needed_secrets(&history.state().asked_for(history.plan())),
            record,
            reasons: &reasons,
            since: &since,
            gone: &gone,
            runners: &runners,
            at_work,
            stopped_writer: self.store().upkeep.stopped_writer(),
            waiting_mail: loaded.map_or(0, |loaded| loaded.mail.len()),
            now,
        }))
    }

    /// Runs of the same queue that have an owner.
    async fn at_work(&self, record: &RunRecord) -> StoreResult<u64> {
        let queues = self.queues().await?;
        let queue = queues.iter().find(|count| count.queue == record.queue);
        Ok(queue.map_or(0, |count| count.owned))
    }

    /// A new run that goes on from a position in this one's journal.
    pub async fn fork(&self, record: &RunRecord, fork: Fork) -> StoreResult<Forked> {
        fork::fork(self.store(), record, fork, clock::now()).await
    }

    /// Runners that the store knows, those that live first.
    pub async fn runners(&self, limit: usize) -> StoreResult<Vec<RunnerRecord>> {
        self.store().runs.runners(limit).await
    }
}
