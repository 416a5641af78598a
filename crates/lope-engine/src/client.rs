//! What anybody may ask of a store of runs, with or without an engine: deploy, start, signal, feed,
//! cancel, pause, wait.
//!
//! Everything but a start is mail to the run, and takes effect when its owner reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lope_definition::Rule;
use lope_definition::json_schema::{self, SchemaViolation};
use lope_flow::law::{EventKind, Fed, Plan};
use lope_model::{Priority, QueueName, Realm, RunId, Timestamp, Value};
use lope_store::runs::{Admit, Admitted, Delivered, Deploy, RunRecord, RunStatus, validate};
use lope_store::{Store, StoreError, StoreResult};
use thiserror::Error;
use uuid::Uuid;

pub use crate::admission::PendingRun;
use crate::admission::{Beginning, Home};
use crate::codec;
use crate::settings::{QueueLimits, priority_on};
pub use lope_store::runs::STOPPED;

/// Journal rows read at a time.
const JOURNAL_PAGE: usize = 1_000;

/// How a run is started.
#[derive(Clone, Debug, Default)]
pub struct RunStartOptions {
    /// Absent: the run is open and waits for inputs.
    pub input: Option<Value>,
    /// Does it stay open for more inputs?
    pub open: bool,
    pub key: Option<String>,
    pub queue: QueueName,
    /// Absent: that of the queue.
    pub priority: Option<Priority>,
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
    let version = plan.version();
    let name = plan.name().to_string();
    store
        .runs
        .deploy(Deploy {
            version,
            name,
            body: plan.definition().encode(),
        })
        .await
}

/// A run as it will be admitted, under a fresh id.
pub fn new_run(
    plan: &Plan,
    options: RunStartOptions,
    limits: &QueueLimits,
    now: Timestamp,
) -> PendingRun {
    new_run_as(RunId::from_uuid(Uuid::now_v7()), plan, options, limits, now)
}

/// The same, under this id.
pub fn new_run_as(
    run: RunId,
    plan: &Plan,
    options: RunStartOptions,
    limits: &QueueLimits,
    now: Timestamp,
) -> PendingRun {
    let priority = priority_on(limits, &options.queue, options.priority);
    let realm = if options.realm == Realm::default() {
        plan.definition().realm()
    } else {
        options.realm
    };
    let beginning = Beginning {
        run,
        workflow: plan.name().to_string(),
        version: plan.version(),
        home: Home {
            queue: options.queue,
            realm,
            priority,
        },
        open: options.open,
        env: options.env,
        input: options.input.map(|value| Fed {
            policies: options.policies,
            ..Fed::new("1", value)
        }),
    };
    // What its steps wait for counts from when it may begin.
    let due = options.at.unwrap_or(now);
    let PendingRun { admit, start } = beginning.at(due.max(now));
    let admit = Admit {
        key: options.key,
        due,
        tags: options.tags,
        ..admit
    };
    PendingRun { admit, start }
}

/// Why a run is not started, or does not take what it is given. Nothing was written.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum InputError {
    #[error("the input does not fit workflow '{workflow}': {violation}")]
    Unfit {
        workflow: String,
        violation: SchemaViolation,
    },
    /// A key names one run: whoever starts another workflow with it meant another run.
    #[error(
        "the key '{key}' belongs to run {run} of the workflow '{workflow}', not to one of '{wanted}'"
    )]
    OtherWorkflow {
        key: String,
        run: RunId,
        workflow: String,
        wanted: String,
    },
    /// A second input would be dropped without a word.
    #[error("run {run} is not open: it has its input, and ends with it")]
    NotOpen { run: RunId },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Does an input fit the schema of its workflow?
pub fn validate_input(workflow: &str, schema: &Value, input: &Value) -> Result<(), InputError> {
    json_schema::validate(schema, input).map_err(|violation| InputError::Unfit {
        workflow: workflow.to_owned(),
        violation,
    })
}

/// Would a store take the names of a run that is started so, and the workflow its input?
pub fn validate_start(plan: &Plan, options: &RunStartOptions) -> Result<(), InputError> {
    if let Some(input) = &options.input {
        validate_input(plan.name(), &plan.definition().input, input)?;
    }
    Ok(validate::run_names(
        plan.name(),
        options.key.as_deref(),
        &options.tags,
    )?)
}

/// A run that a store would take, and whose workflow takes its input, under a fresh id.
pub fn fresh_run(
    plan: &Plan,
    options: RunStartOptions,
    limits: &QueueLimits,
    now: Timestamp,
) -> Result<PendingRun, InputError> {
    validate_start(plan, &options)?;
    let new_run = new_run(plan, options, limits, now);
    validate::admits(std::slice::from_ref(&new_run.admit))?;
    Ok(new_run)
}

/// Start a run for whoever claims it.
pub async fn start(
    store: &Store,
    plan: &Plan,
    options: RunStartOptions,
    limits: &QueueLimits,
    now: Timestamp,
) -> Result<(RunId, Admitted), InputError> {
    admit(store, plan, fresh_run(plan, options, limits, now)?.admit).await
}

/// Admit a run for whoever claims it. A key that exists answers with the run that has it.
pub async fn admit(
    store: &Store,
    plan: &Plan,
    admit: Admit,
) -> Result<(RunId, Admitted), InputError> {
    let fresh = admit.run;
    let key = admit.key.clone();
    let answers = store.runs.admit(vec![admit]).await?;
    let answer = answers.into_iter().next().ok_or(StoreError::Closed)?;
    run_of(plan, fresh, key, answer)
}

/// What an admission came to: the run that was started, or the one of the same workflow that has
/// its key.
pub fn run_of(
    plan: &Plan,
    fresh: RunId,
    key: Option<String>,
    answer: Admitted,
) -> Result<(RunId, Admitted), InputError> {
    match &answer {
        Admitted::Exists { run, workflow } if **workflow != **plan.name() => {
            Err(InputError::OtherWorkflow {
                key: key.unwrap_or_default(),
                run: *run,
                workflow: workflow.clone(),
                wanted: plan.name().to_string(),
            })
        }
        Admitted::Exists { run, .. } => Ok((*run, answer)),
        Admitted::Created { .. } | Admitted::UnknownVersion => Ok((fresh, answer)),
    }
}

/// Send an event to a run. `id` makes it arrive once; absent: a fresh one.
pub async fn tell(
    store: &Store,
    run: RunId,
    kind: &EventKind,
    id: Option<String>,
) -> StoreResult<Delivered> {
    let id = id.unwrap_or_else(|| Uuid::now_v7().to_string());
    let answers = store.runs.deliver(vec![codec::mail(run, id, kind)]).await?;
    answers.into_iter().next().ok_or(StoreError::Closed)
}

/// What was dispatched and has no outcome yet, as far as the journal tells: only attempts whose
/// policy is `durable` are in it.
pub async fn dispatched(store: &Store, run: RunId) -> StoreResult<Vec<(Arc<str>, u32)>> {
    let (mut outstanding, mut after) = (BTreeSet::new(), 0);
    loop {
        let rows = store.runs.journal(run, after, JOURNAL_PAGE).await?;
        let Some(last) = rows.last() else {
            return Ok(outstanding.into_iter().collect());
        };
        after = last.seq;
        for row in &rows {
            match codec::kind_of(row) {
                Ok(EventKind::Dispatched {
                    execution, attempt, ..
                }) => {
                    outstanding.insert((execution, attempt));
                }
                Ok(EventKind::Outcome(outcome)) => {
                    outstanding.remove(&(outcome.execution, outcome.attempt));
                }
                // What was refused or given back did not start; one that was adopted is lost.
                Ok(
                    EventKind::Refused {
                        execution, attempt, ..
                    }
                    | EventKind::Returned {
                        execution, attempt, ..
                    },
                ) => {
                    outstanding.remove(&(execution, attempt));
                }
                Ok(EventKind::Adopted { .. }) => outstanding.clear(),
                Ok(_) => {}
                Err(unreadable) => {
                    return Err(StoreError::corrupt(unreadable.to_string()));
                }
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
        // The watch notifies of new work, not for every end; look again now and then.
        let _ = tokio::time::timeout(pause, watch.changed()).await;
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}
