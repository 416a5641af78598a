//! The committer: what the shards want written is put together and sent to the store; answers go back to the shards.

use std::sync::Arc;

use lope_model::{Epoch, RunId};
use lope_store::runs::{RunCommit, check};
use lope_store::{Store, StoreError};
use tokio::sync::{Semaphore, mpsc};

use super::seam;
use super::shards::Shards;
use super::supervisor::{Part, caught};
use crate::shard::Input;

/// Groups under way at once. A run is in one of them at most, so their order does not matter.
const GROUPS: usize = 4;

pub(crate) struct Committer {
    name: String,
    store: Store,
    shards: Arc<Shards>,
    wishes: mpsc::UnboundedReceiver<Vec<RunCommit>>,
    /// Most commits in a group.
    most: usize,
    waiting: Vec<RunCommit>,
    places: Arc<Semaphore>,
}

impl Committer {
    pub(crate) fn new(
        name: &str,
        store: Store,
        shards: Arc<Shards>,
        wishes: mpsc::UnboundedReceiver<Vec<RunCommit>>,
        most: usize,
    ) -> Self {
        let places = Arc::new(Semaphore::new(GROUPS));
        Self { name: name.to_owned(), store, shards, wishes, most, waiting: Vec::new(), places }
    }
}

impl Part for Committer {
    const NAME: &'static str = "committer";

    /// Until the last sender is gone and everything sent is on its way. What waits is kept here, so that a panic loses nothing.
    async fn work(&mut self) {
        loop {
            if self.waiting.is_empty() {
                match self.wishes.recv().await {
                    Some(more) => self.waiting.extend(more),
                    None => return,
                }
            }
            let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
            while let Ok(more) = self.wishes.try_recv() {
                self.waiting.extend(more);
            }
            seam::pass(&self.name, Self::NAME);
            let rest = self.waiting.split_off(self.waiting.len().min(self.most));
            let group = std::mem::replace(&mut self.waiting, rest);
            let (store, shards) = (self.store.clone(), Arc::clone(&self.shards));
            tokio::spawn(async move {
                commit(&store, &shards, group).await;
                drop(place);
            });
        }
    }
}

async fn commit(store: &Store, shards: &Shards, group: Vec<RunCommit>) {
    let group = sound(shards, group);
    let runs: Vec<(RunId, Epoch)> = group.iter().map(|commit| (commit.run, commit.epoch)).collect();
    if runs.is_empty() {
        return;
    }
    let answer = caught(store.runs.commit(group)).await;
    match answer.unwrap_or_else(|panic| Err(StoreError::unknown(panic))) {
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
