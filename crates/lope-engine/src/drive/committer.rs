//! The committer: what the shards want written is put together and sent to the store; answers go back to the shards.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lope_model::{Epoch, RunId};
use lope_store::runs::{RunCommit, check};
use lope_store::{Store, StoreError};
use tokio::sync::mpsc;

use super::seam;
use super::shards::Shards;
use super::supervisor::{Part, caught};
use crate::shard::Input;

/// Groups under way at once. A run is in one of them at most, so their order does not matter.
const GROUPS: usize = 4;

/// What waits and what is under way. One task does it all: a task for every group would wake a thread for every group.
pub(crate) struct Committer {
    name: String,
    store: Store,
    shards: Arc<Shards>,
    wishes: mpsc::UnboundedReceiver<Vec<RunCommit>>,
    /// Most commits in a group.
    most: usize,
    waiting: Vec<RunCommit>,
    groups: Vec<Group>,
}

type Group = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Part for Committer {
    const NAME: &'static str = "committer";

    /// What waits and what is under way is kept here, so that a panic loses nothing.
    async fn work(&mut self) {
        poll_fn(|context| self.poll(context)).await;
    }
}

impl Committer {
    pub(crate) fn new(
        name: &str,
        store: Store,
        shards: Arc<Shards>,
        wishes: mpsc::UnboundedReceiver<Vec<RunCommit>>,
        most: usize,
    ) -> Self {
        Self { name: name.to_owned(), store, shards, wishes, most, waiting: Vec::new(), groups: Vec::new() }
    }

    /// Ready when nobody can wish for anything more and everything is answered.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.groups.retain_mut(|group| group.as_mut().poll(context).is_pending());
            if self.groups.len() == GROUPS {
                return Poll::Pending;
            }
            let over = self.listen(context);
            if self.waiting.is_empty() {
                return if over && self.groups.is_empty() { Poll::Ready(()) } else { Poll::Pending };
            }
            seam::pass(&self.name, Self::NAME);
            let rest = self.waiting.split_off(self.waiting.len().min(self.most));
            let group = std::mem::replace(&mut self.waiting, rest);
            self.groups.push(Box::pin(commit(self.store.clone(), Arc::clone(&self.shards), group)));
        }
    }

    /// Take in what is wished for. True: there will be no more.
    fn listen(&mut self, context: &mut Context<'_>) -> bool {
        while self.waiting.len() < self.most {
            match self.wishes.poll_recv(context) {
                Poll::Ready(Some(more)) => self.waiting.extend(more),
                Poll::Ready(None) => return true,
                Poll::Pending => return false,
            }
        }
        false
    }
}

async fn commit(store: Store, shards: Arc<Shards>, group: Vec<RunCommit>) {
    let group = sound(&shards, group);
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
