//! The descendants of a run that a process works on by itself: children that are there already, and
//! theirs.
//!
//! A run that waits for a child is not in memory and is woken only when the child has ended, so
//! whoever owns the run must look for the children too.

use std::time::Duration;

use lope_model::RunId;
use lope_store::runs::{LiveStatus, RunFilter, RunStatus};
use lope_store::{Store, StoreResult};
use tokio::sync::mpsc;

use crate::session::SessionEvent;

/// Children read at a time.
const PAGE: usize = 1_000;
/// Pause before a store that did not answer is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Tell the session task of every live descendant, then end.
pub(crate) async fn own_descendants(
    store: Store,
    run: RunId,
    session_tx: mpsc::UnboundedSender<SessionEvent>,
) {
    let mut parents = vec![run];
    while let Some(parent) = parents.pop() {
        let children = loop {
            match children(&store, parent).await {
                Ok(children) => break children,
                Err(error) => {
                    tracing::warn!(%error, run = %parent, "its children could not be asked for");
                    tokio::time::sleep(AGAIN).await;
                }
            }
            if session_tx.is_closed() {
                return;
            }
        };
        if !children.is_empty() {
            // The session task is gone only when the engine is.
            let _ = session_tx.send(SessionEvent::Own(children.clone()));
            parents.extend(children);
        }
    }
}

async fn children(store: &Store, parent: RunId) -> StoreResult<Vec<RunId>> {
    let statuses = LiveStatus::ALL.map(RunStatus::Live).to_vec();
    let mut filter = RunFilter {
        statuses,
        parent: Some(parent),
        limit: PAGE,
        ..RunFilter::default()
    };
    let mut found = Vec::new();
    loop {
        let page = store.runs.list(filter.clone()).await?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        filter.after = Some(last.cursor());
        found.extend(page.iter().map(|record| record.run));
    }
}
