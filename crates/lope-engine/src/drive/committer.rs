//! The committer: what the shards want written is put together and sent to the store; answers go back to the shards.

use std::sync::Arc;

use lope_model::{Epoch, RunId};
use lope_store::Store;
use lope_store::runs::RunCommit;
use tokio::sync::{Semaphore, mpsc};

use super::shards::Shards;
use crate::shard::Input;

/// Groups under way at once. A run is in one of them at most, so their order does not matter.
const GROUPS: usize = 4;

/// Runs until the last sender is gone and everything sent is answered.
pub(crate) async fn commit_all(
    store: Store,
    shards: Arc<Shards>,
    mut wishes: mpsc::UnboundedReceiver<Vec<RunCommit>>,
    most: usize,
) {
    let places = Arc::new(Semaphore::new(GROUPS));
    let mut waiting: Vec<RunCommit> = Vec::new();
    loop {
        if waiting.is_empty() {
            match wishes.recv().await {
                Some(more) => waiting.extend(more),
                None => return,
            }
        }
        let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
        while let Ok(more) = wishes.try_recv() {
            waiting.extend(more);
        }
        let rest = waiting.split_off(waiting.len().min(most));
        let group = std::mem::replace(&mut waiting, rest);
        let (store, shards) = (store.clone(), Arc::clone(&shards));
        tokio::spawn(async move {
            commit(&store, &shards, group).await;
            drop(place);
        });
    }
}

async fn commit(store: &Store, shards: &Shards, group: Vec<RunCommit>) {
    let runs: Vec<(RunId, Epoch)> = group.iter().map(|commit| (commit.run, commit.epoch)).collect();
    match store.runs.commit(group).await {
        Ok(replies) => {
            let answers = runs.into_iter().zip(replies);
            shards.send_all(answers.map(|((run, epoch), reply)| (run, Input::Committed(run, epoch, reply))));
        }
        Err(error) => {
            tracing::warn!(%error, runs = runs.len(), "a commit was not made or not answered; it will be sent again");
            shards.send_all(runs.into_iter().map(|(run, epoch)| (run, Input::Unanswered(run, epoch))));
        }
    }
}
