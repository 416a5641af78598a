//! The committer: what the shards want written is put together and sent to the store; answers go back to the shards.

use std::sync::Arc;

use lope_model::{Epoch, RunId};
use lope_store::Store;
use lope_store::runs::{RunCommit, check};
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
    let group = sound(shards, group);
    let runs: Vec<(RunId, Epoch)> = group.iter().map(|commit| (commit.run, commit.epoch)).collect();
    if runs.is_empty() {
        return;
    }
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

/// A commit beyond a limit is refused by every store, with all that came in the same call, and would be for ever: its run is set
/// aside and the others go on.
fn sound(shards: &Shards, group: Vec<RunCommit>) -> Vec<RunCommit> {
    let is_sound = |commit: &RunCommit| match check::commits(std::slice::from_ref(commit)) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(run = %commit.run, %error, "the store will never make this commit; its run is set aside");
            shards.send(commit.run, Input::Rejected(commit.run, error.to_string()));
            false
        }
    };
    group.into_iter().filter(is_sound).collect()
}
