//! Retention: finished runs that are old enough leave the store, a few at a time, beside the work.
//!
//! How long is said, in this order, by the settings for a workflow, by the workflow itself as it was
//! deployed last, by the settings for a way to end, and by the settings for all.

use std::collections::{BTreeMap, BTreeSet};

use lope_definition::Definition;
use lope_model::{Span, Timestamp, limit};
use lope_store::runs::{FinalStatus, Prune, Pruned};
use lope_store::{Store, StoreResult};

use crate::settings::Settings;

/// Most runs that one call deletes: others get their turn between calls.
const BATCH: usize = 200;

/// How long runs that ended in some way are kept.
struct KeptRuns {
    /// None: any.
    statuses: Vec<FinalStatus>,
    /// None: for ever.
    span: Option<Span>,
}

impl KeptRuns {
    const fn all(span: Option<Span>) -> Self {
        Self {
            statuses: Vec::new(),
            span,
        }
    }
}

/// Workflows, and how long they say that their runs are kept.
#[derive(Default)]
struct WorkflowRetention {
    names: BTreeSet<String>,
    own: BTreeMap<String, Option<Span>>,
}

/// Delete some of what is too old: runs, and outcomes of idempotency keys, which are kept as long as
/// runs are.
pub(crate) async fn once(
    store: &Store,
    settings: &Settings,
    now: Timestamp,
) -> StoreResult<Pruned> {
    let mut pruned = runs(store, settings, now).await?;
    if let Some(span) = settings.retention {
        let forgotten = lope_limits::prune(store, now.minus(span), BATCH).await?;
        pruned.more |= forgotten == BATCH;
    }
    Ok(pruned)
}

/// Delete some of the runs that are too old, and tell whoever keeps what belongs to them.
async fn runs(store: &Store, settings: &Settings, now: Timestamp) -> StoreResult<Pruned> {
    let mut all = Pruned::default();
    for prune in due(store, settings, now).await? {
        all.add(store.runs.prune(prune).await?);
    }
    if let Some(listener) = settings.on_pruned.as_ref().filter(|_| !all.runs.is_empty()) {
        listener.pruned(&all.runs);
    }
    Ok(all)
}

/// What is too old. Where a workflow has a retention of its own all are named, since nothing that is
/// to be kept may go.
pub async fn due(store: &Store, settings: &Settings, now: Timestamp) -> StoreResult<Vec<Prune>> {
    let WorkflowRetention { names, own } = of_workflows(store, settings).await?;
    if own.is_empty() {
        let all = general(settings).into_iter();
        return Ok(all.filter_map(|kept| prune(None, kept, now)).collect());
    }
    let of_workflow = |name: String| {
        let kept = match own.get(&name) {
            Some(span) => vec![KeptRuns::all(*span)],
            None => general(settings),
        };
        kept.into_iter()
            .filter_map(move |kept| prune(Some(name.clone()), kept, now))
    };
    Ok(names.into_iter().flat_map(of_workflow).collect())
}

/// How long runs are kept of whose workflow nothing is said.
fn general(settings: &Settings) -> Vec<KeptRuns> {
    if settings.retention_by_status.is_empty() {
        return vec![KeptRuns::all(settings.retention)];
    }
    let of = |status: FinalStatus| {
        let span = settings.retention_by_status.get(&status).copied();
        KeptRuns {
            statuses: vec![status],
            span: span.unwrap_or(settings.retention),
        }
    };
    FinalStatus::ALL.map(of).into()
}

/// Nothing where runs are kept for ever.
fn prune(workflow: Option<String>, kept: KeptRuns, now: Timestamp) -> Option<Prune> {
    Some(Prune {
        before: now.minus(kept.span?),
        statuses: kept.statuses,
        workflow,
        limit: BATCH,
    })
}

/// Every workflow there is, and what is said of single ones. One that cannot be read says nothing.
async fn of_workflows(store: &Store, settings: &Settings) -> StoreResult<WorkflowRetention> {
    let mut found = WorkflowRetention {
        names: settings.retention_of.keys().cloned().collect(),
        own: BTreeMap::new(),
    };
    let mut after: Option<String> = None;
    loop {
        let page = store
            .runs
            .definitions(after.as_deref(), limit::PAGE_MAX)
            .await?;
        let Some(last) = page.last() else {
            found.own.extend(settings.retention_of.clone());
            return Ok(found);
        };
        after = Some(last.name.clone());
        for stored in page {
            let said = Definition::decode(&stored.body).ok();
            if let Some(span) = said.and_then(|definition| definition.retention) {
                found.own.insert(stored.name.clone(), Some(span));
            }
            found.names.insert(stored.name);
        }
    }
}
