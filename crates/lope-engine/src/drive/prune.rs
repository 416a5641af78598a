//! Retention: finished runs that are old enough leave the store, a few at a time, beside the work.

use std::collections::BTreeSet;

use lope_model::{Span, Timestamp, limit};
use lope_store::runs::{Prune, Pruned};
use lope_store::{Store, StoreResult};

use crate::settings::Settings;

/// Most runs that one call deletes: others get their turn between calls.
const BATCH: usize = 200;

/// Delete some of what is too old. Workflows with a retention of their own are pruned by name; then so are all others, since
/// nothing that is to be kept may go.
pub(crate) async fn once(store: &Store, settings: &Settings, now: Timestamp) -> StoreResult<Pruned> {
    if settings.retention_of.is_empty() {
        return prune(store, None, settings.retention, now).await;
    }
    let mut all = Pruned::default();
    for name in names(store, settings).await? {
        let span = settings.retention_of.get(&name).copied().unwrap_or(settings.retention);
        let pruned = prune(store, Some(name), span, now).await?;
        all = Pruned { runs: all.runs + pruned.runs, more: all.more || pruned.more };
    }
    Ok(all)
}

async fn prune(store: &Store, workflow: Option<String>, span: Option<Span>, now: Timestamp) -> StoreResult<Pruned> {
    match span {
        None => Ok(Pruned::default()),
        Some(span) => {
            let before = now.minus(span);
            store.runs.prune(Prune { before, statuses: Vec::new(), workflow, limit: BATCH }).await
        }
    }
}

/// Every workflow there is, by name.
async fn names(store: &Store, settings: &Settings) -> StoreResult<BTreeSet<String>> {
    let mut names: BTreeSet<String> = settings.retention_of.keys().cloned().collect();
    let mut after: Option<String> = None;
    loop {
        let page = store.runs.definitions(after.as_deref(), limit::PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(names) };
        after = Some(last.name.clone());
        names.extend(page.into_iter().map(|definition| definition.name));
    }
}
