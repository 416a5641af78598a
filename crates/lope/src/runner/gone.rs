//! Runners of this machine whose processes are gone: what they held is free at once, not when their
//! leases end. On SQLite the store sees that by itself.

use lope_model::limit;
use lope_store::Store;
use lope_workers::process_tree;

/// Where it fails, the leases end by themselves.
pub(super) async fn end_sessions(store: &Store) {
    let known = store.runs.runners(limit::PAGE_MAX).await;
    let gone = known.unwrap_or_default().into_iter();
    for session in gone.filter(|it| it.live && process_tree::is_gone(&it.process)) {
        let runner = session.runner;
        match store.runs.release(runner).await {
            Ok(runs) => tracing::info!(%runner, runs, "a runner that was killed here is gone"),
            Err(error) => tracing::warn!(%runner, %error, "its session ends with its lease"),
        }
    }
}
