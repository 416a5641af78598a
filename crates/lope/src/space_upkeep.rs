//! Looking after the reactive spaces of a store: are their rows sound, what may go, who hosts them.

use std::sync::Arc;

use lope_model::Timestamp;
use lope_reactive::hosting::{Directory, HostError, HostIdentity};
use lope_store::store::Finding;
use lope_store::{Store, StoreError, StoreResult};
use lope_workers::process_tree;

/// This process as a host: another process of this machine that was killed is known to be gone, and
/// nobody waits for its leases.
pub fn process_identity() -> HostIdentity {
    let own = format!("{}/{}", process_tree::own_mark(), uuid::Uuid::now_v7());
    HostIdentity::new(own, |owner: &str| {
        let mark = owner.split('/').next().unwrap_or_default();
        process_tree::is_gone(mark)
    })
}

/// What is wrong with the rows of spaces.
pub(crate) async fn check(store: &Store) -> StoreResult<Vec<Finding>> {
    let Some(spaces) = find(store).await? else {
        return Ok(Vec::new());
    };
    let found = spaces.check().await.map_err(failed)?.into_iter();
    let found = found.map(|found| Finding {
        rule: "spaces",
        message: match found.space {
            Some(space) => format!("space '{space}': {}", found.message),
            None => found.message,
        },
        hint: "restore a backup (`lope store backup` makes them)".to_owned(),
    });
    Ok(found.collect())
}

/// Deletes what is older than it is kept; gives how many rows.
pub(crate) async fn prune(
    store: &Store,
    before: Timestamp,
    is_rehearsal: bool,
) -> StoreResult<u64> {
    match find(store).await? {
        Some(spaces) => spaces.prune(before, is_rehearsal).await.map_err(failed),
        None => Ok(0),
    }
}

/// How many live processes host spaces.
pub(crate) async fn hosts(store: &Store) -> StoreResult<usize> {
    let Some(spaces) = find(store).await? else {
        return Ok(0);
    };
    let now = store.upkeep.reading().await?.now;
    spaces.hosts(&process_identity(), now).await.map_err(failed)
}

/// Nobody hosts the spaces of a copy.
pub(crate) async fn free(store: &Store) -> StoreResult<()> {
    match find(store).await? {
        Some(spaces) => spaces.free().await.map_err(failed),
        None => Ok(()),
    }
}

async fn find(store: &Store) -> StoreResult<Option<Directory>> {
    let found = Directory::find(Arc::clone(&store.tables)).await;
    found.map_err(failed)
}

fn failed(error: HostError) -> StoreError {
    match error {
        HostError::Store(error) => error,
        other => StoreError::corrupt(other),
    }
}
