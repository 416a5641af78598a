//! What anybody may ask of a store of runs, with or without an engine: deploy, start, signal, feed, cancel, pause, wait.
//!
//! Everything but a start is mail to the run, and takes effect when its owner reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lope_flow::LAW;
use lope_flow::definition::Rule;
use lope_flow::law::{Event, EventKind, Fed, Plan, Start};
use lope_model::{Digest, Epoch, Priority, QueueName, Realm, RunId, Timestamp, Value};
use lope_store::runs::{Admit, Admitted, Delivered, Deploy, RunRecord, RunStatus};
use lope_store::{Store, StoreResult};
use uuid::Uuid;

use crate::codec;

/// Journal rows read at a time.
const JOURNAL_PAGE: usize = 1_000;

/// The reason of a pause that puts a run aside: what is in flight is stopped, and nobody claims it until it is resumed.
pub const STOPPED: &str = "stopped";

/// How a run is started.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// Absent: the run is open and waits for inputs.
    pub input: Option<Value>,
    /// Does it stay open for more inputs?
    pub open: bool,
    pub key: Option<String>,
    pub queue: QueueName,
    pub priority: Priority,
    pub realm: Realm,
    /// When it may begin; absent: now.
    pub at: Option<Timestamp>,
    pub tags: BTreeMap<String, String>,
    /// What expressions see as `env`.
    pub env: Value,
    /// Policies for this input alone; they win over the workflow's.
    pub policies: Vec<Rule>,
}

/// Keep a definition in the store; repeating it changes nothing.
pub async fn deploy(store: &Store, plan: &Plan) -> StoreResult<()> {
    let (version, name) = (plan.version(), plan.name().to_string());
    store.runs.deploy(Deploy { version, name, body: plan.definition().encode() }).await
}

/// A run as it will be admitted, and its first event, so that whoever takes it on at once need not read it.
#[derive(Clone, Debug)]
pub struct Birth {
    pub admit: Admit,
    pub start: Event,
}

/// A run as it will be admitted, under a fresh id.
pub fn admission(plan: &Plan, options: StartOptions, now: Timestamp) -> Admit {
    birth(plan, options, now).admit
}

/// The same, for an engine that takes it on.
pub fn birth(plan: &Plan, options: StartOptions, now: Timestamp) -> Birth {
    birth_as(RunId::from_uuid(Uuid::now_v7()), plan, options, now)
}

/// The same, under this id.
pub fn birth_as(run: RunId, plan: &Plan, options: StartOptions, now: Timestamp) -> Birth {
    let start = Start {
        run,
        law: LAW,
        seed: Digest::of(run.as_bytes()).short(),
        epoch: Epoch(1),
        open: options.open,
        env: options.env,
        input: options.input.map(|value| Fed { policies: options.policies, ..Fed::new("1", value) }),
    };
    let (mut start, mut blobs) = (Event::new(now, EventKind::Start(Box::new(start))), Vec::new());
    let row = codec::row(1, &mut start, &mut blobs);
    let admit = Admit {
        run,
        workflow: plan.name().to_string(),
        version: plan.version(),
        key: options.key,
        queue: options.queue,
        priority: options.priority,
        realm: if options.realm == Realm::default() { plan.definition().realm() } else { options.realm },
        due: options.at.unwrap_or(now),
        law: LAW,
        weight: u32::try_from(row.body.len() + 1_024).unwrap_or(u32::MAX),
        tags: options.tags,
        parent: None,
        rows: vec![row],
        snapshot: None,
        blobs,
        claimed_by: None,
    };
    Birth { admit, start }
}

/// Admit a run for whoever claims it.
pub async fn start(
    store: &Store,
    plan: &Plan,
    options: StartOptions,
    now: Timestamp,
) -> StoreResult<(RunId, Admitted)> {
    let admit = admission(plan, options, now);
    let run = admit.run;
    let answers = store.runs.admit(vec![admit]).await?;
    let answer = answers.into_iter().next().ok_or(lope_store::StoreError::Closed)?;
    let run = if let Admitted::Exists { run } = answer { run } else { run };
    Ok((run, answer))
}

/// Send an event to a run. `id` makes it arrive once; absent: a fresh one.
pub async fn tell(store: &Store, run: RunId, kind: &EventKind, id: Option<String>) -> StoreResult<Delivered> {
    let id = id.unwrap_or_else(|| Uuid::now_v7().to_string());
    let answers = store.runs.deliver(vec![codec::mail(run, id, kind)]).await?;
    answers.into_iter().next().ok_or(lope_store::StoreError::Closed)
}

/// What was dispatched and has no outcome yet, as far as the journal tells: only attempts whose policy is `durable` are in it.
pub async fn dispatched(store: &Store, run: RunId) -> StoreResult<Vec<(Arc<str>, u32)>> {
    let (mut open, mut after) = (BTreeSet::new(), 0);
    loop {
        let rows = store.runs.journal(run, after, JOURNAL_PAGE).await?;
        let Some(last) = rows.last() else { return Ok(open.into_iter().collect()) };
        after = last.seq;
        for row in &rows {
            match codec::kind_of(row) {
                Ok(EventKind::Dispatched { execution, attempt, .. }) => drop(open.insert((execution, attempt))),
                Ok(EventKind::Outcome(outcome)) => drop(open.remove(&(outcome.execution, outcome.attempt))),
                // A refused attempt did not start; one that was adopted is lost.
                Ok(EventKind::Refused { execution, attempt, .. }) => drop(open.remove(&(execution, attempt))),
                Ok(EventKind::Adopted { .. }) => open.clear(),
                Ok(_) => {}
                Err(unreadable) => return Err(lope_store::StoreError::corrupt(unreadable.to_string())),
            }
        }
    }
}

/// Wait until a run has ended. `None`: there is no such run.
pub async fn wait(store: &Store, run: RunId) -> StoreResult<Option<RunRecord>> {
    let mut watch = store.runs.watch();
    let mut pause = Duration::from_millis(10);
    loop {
        match store.runs.run(run).await? {
            Some(record) if matches!(record.status, RunStatus::Live(_)) => {}
            other => return Ok(other),
        }
        // The watch rings for new work, not for every end; look again now and then.
        let _ = tokio::time::timeout(pause, watch.changed()).await;
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}

/// The plan of a workflow that is deployed under this name.
pub async fn latest_plan(store: &Store, name: &str) -> StoreResult<Option<Arc<Plan>>> {
    let Some(stored) = store.runs.latest(name).await? else { return Ok(None) };
    let plans = crate::drive::plans::Plans::default();
    plans.get(store, stored.version).await.map(Some)
}
