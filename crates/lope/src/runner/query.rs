//! Looking at a workflow: results per input, and everything that happened, folded from the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope_definition::StepPolicy;
use lope_definition::policy::{override_with, resolve};
use lope_engine::{codec, query};
use lope_flow::history::{Execution, Historian};
use lope_flow::law::{Event, EventKind, Fed, Plan, Settled};
use lope_model::{Failure, RunId, Timestamp, Value, VersionId, limit};
use lope_store::runs::{JournalRow, RunRecord, RunStatus};

use super::Runner;
use crate::describe;
use crate::error::{Error, Result};
use crate::results::{InputResult, Results};

/// An attempt that was dispatched and has no outcome, with the policy it is tried under.
#[derive(Clone, PartialEq, Debug)]
pub struct PendingAttempt {
    pub execution: Arc<str>,
    pub step: Arc<str>,
    pub attempt: u32,
    pub policy: StepPolicy,
}

/// A workflow as its journal tells it.
#[derive(Clone, PartialEq, Debug)]
pub struct Workflow {
    pub id: String,
    pub run: RunId,
    pub workflow: String,
    pub version: VersionId,
    pub status: RunStatus,
    /// Why the run failed, or why the input that settled last did.
    pub error: Option<Failure>,
    pub results: Results,
    /// Firings of steps, in the order in which they were opened.
    pub executions: Vec<Execution>,
    /// The value of every accumulator.
    pub totals: Vec<(Arc<str>, Value)>,
    /// Of steps whose policy is durable: what was dispatched and has no outcome.
    pub pending: Vec<PendingAttempt>,
    /// Rows of its journal.
    pub events: u64,
}

/// A journal, folded.
struct Folded {
    results: Results,
    executions: Vec<Execution>,
    totals: Vec<(Arc<str>, Value)>,
    pending: Vec<PendingAttempt>,
    events: u64,
}

impl Runner {
    /// The results of all inputs that have one, durably.
    pub async fn results(&self, id: &str) -> Result<Results> {
        let record = self.record(id).await?;
        Ok(self.folded(&record, Some(0)).await?.results)
    }

    /// Everything about a workflow, stopped and ended ones included.
    pub async fn workflow(&self, id: &str) -> Result<Workflow> {
        let record = self.record(id).await?;
        let Folded {
            results,
            executions,
            totals,
            pending,
            events,
        } = self.folded(&record, None).await?;
        let of_run = record.error.as_deref().map(codec::read_error).transpose();
        let of_run =
            of_run.map_err(|error| Error::Store(lope_store::StoreError::corrupt(error)))?;
        let of_input = match results.last().map(|result| &result.result) {
            Some(Settled::Failed(failure)) => Some(Failure::clone(failure)),
            Some(Settled::Done(_) | Settled::Cancelled) | None => None,
        };
        Ok(Workflow {
            id: id.to_owned(),
            run: record.run,
            workflow: record.workflow,
            version: record.version,
            status: record.status,
            error: of_run.or(of_input),
            results,
            executions,
            totals,
            pending,
            events,
        })
    }

    async fn record(&self, id: &str) -> Result<RunRecord> {
        let run = self.run_of(id).await?;
        self.record_of(id, run).await
    }

    async fn folded(&self, record: &RunRecord, keep: Option<usize>) -> Result<Folded> {
        let plan = self.plan(record.version).await?;
        let events = self.journal(record.run).await?;
        // A long journal takes a while to fold; that is no work for a thread that others wait on.
        let begun = record.started_at;
        let fold = move || fold(&plan, &events, begun, keep);
        let folded = tokio::task::spawn_blocking(fold).await;
        folded.map_err(|error| Error::System {
            message: error.to_string(),
        })
    }

    /// All events of a run.
    async fn journal(&self, run: RunId) -> Result<Vec<(u64, Event)>> {
        let mut events = Vec::new();
        loop {
            let after = events.last().map_or(0, |(seq, _)| *seq);
            let rows = self
                .store()
                .runs
                .journal(run, after, limit::PAGE_MAX)
                .await?;
            let last = rows.len() < limit::PAGE_MAX;
            events.extend(self.events(run, rows).await?);
            if last {
                return Ok(events);
            }
        }
    }

    async fn events(&self, run: RunId, rows: Vec<JournalRow>) -> Result<Vec<(u64, Event)>> {
        let corrupt =
            |error: codec::Unreadable| Error::Store(lope_store::StoreError::corrupt(error));
        let blobs = query::blobs(self.store(), run, &rows).await?;
        rows.iter()
            .map(|row| {
                codec::event(row, &blobs)
                    .map(|event| (row.seq, event))
                    .map_err(corrupt)
            })
            .collect()
    }
}

fn fold(
    plan: &Plan,
    events: &[(u64, Event)],
    begun: Option<Timestamp>,
    keep: Option<usize>,
) -> Folded {
    let mut historian = Historian::new(plan);
    historian.begin_at(begun);
    if let Some(most) = keep {
        historian = historian.with_limit(most);
    }
    for (seq, event) in events {
        historian.push(*seq, event);
    }
    let results = historian.results().iter();
    let results = results.map(|(input, result)| InputResult {
        input: Arc::clone(input),
        result: result.clone(),
    });
    Folded {
        results: Results(results.collect()),
        totals: historian.state().totals(plan),
        pending: pending(plan, events),
        executions: historian.executions().cloned().collect(),
        events: historian.seq(),
    }
}

/// What was dispatched and has no outcome: rows of steps whose policy is durable.
fn pending(plan: &Plan, events: &[(u64, Event)]) -> Vec<PendingAttempt> {
    let mut open: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    let mut inputs: Vec<&Fed> = Vec::new();
    for (_, event) in events {
        match &event.kind {
            EventKind::Dispatched {
                execution, attempt, ..
            } => drop(open.insert(Arc::clone(execution), *attempt)),
            EventKind::Outcome(outcome) => drop(open.remove(&outcome.execution)),
            EventKind::Refused { execution, .. } | EventKind::Returned { execution, .. } => {
                open.remove(execution);
            }
            EventKind::Adopted { .. } | EventKind::Forked { .. } => open.clear(),
            EventKind::Start(start) => inputs.extend(&start.input),
            EventKind::Input(fed) => inputs.push(fed),
            EventKind::Timer
            | EventKind::Signal { .. }
            | EventKind::Child { .. }
            | EventKind::Cancel { .. } => {}
            EventKind::Pause { .. }
            | EventKind::Resume
            | EventKind::Retry { .. }
            | EventKind::Close => {}
        }
    }
    let described = open.into_iter().map(|(execution, attempt)| {
        let step = describe::step_of(&execution);
        let policy = policy_of(plan, &step, input_of(&execution, &inputs));
        PendingAttempt {
            step: step.as_str().into(),
            policy,
            execution,
            attempt,
        }
    });
    described.collect()
}

/// The input that an execution works for: `@2/a` for the second, `a` for the first.
fn input_of<'a>(execution: &str, inputs: &[&'a Fed]) -> Option<&'a Fed> {
    let first = execution.split('/').next().unwrap_or_default();
    let number = first
        .strip_prefix('@')
        .and_then(|number| number.parse::<usize>().ok())
        .unwrap_or(1);
    inputs.get(number.saturating_sub(1)).copied()
}

fn policy_of(plan: &Plan, path: &str, input: Option<&Fed>) -> StepPolicy {
    let definition = plan.definition();
    let prefixes = definition.prefixes();
    let mut steps = definition
        .blocks
        .iter()
        .zip(&prefixes)
        .flat_map(|(block, prefix)| {
            block
                .steps
                .iter()
                .map(move |step| (format!("{prefix}{}", step.name), step))
        });
    let Some((path, step)) = steps.find(|(found, _)| found == path) else {
        return StepPolicy::default();
    };
    let facts = step.kind.facts(&step.name, &path);
    let policy = resolve(&definition.policies, facts, &step.policy);
    input
        .and_then(|fed| override_with(&fed.policies, facts, &policy))
        .unwrap_or(policy)
}
