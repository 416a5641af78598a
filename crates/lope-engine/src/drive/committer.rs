//! The committer: what the shards want written is put together and sent to the store; answers go
//! back to the shards.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lope_model::{Epoch, RunId};
use lope_store::runs::{CommitReply, RunCommit, validate};
use lope_store::{Store, StoreError};
use tokio::sync::mpsc;

use super::seam;
use super::shards::Shards;
use super::supervisor::{SupervisedTask, caught};
use crate::shard::ShardInput;

/// Groups under way at once. A run is in one of them at most, so their order does not matter.
const GROUPS: usize = 4;

/// What waits and what is under way. One task does it all: a task for every group would wake a
/// thread for every group.
pub(crate) struct Committer {
    name: String,
    store: Store,
    shards: Arc<Shards>,
    rx: mpsc::UnboundedReceiver<Vec<RunCommit>>,
    /// Most commits in a group.
    most: usize,
    waiting: Vec<RunCommit>,
    groups: Vec<CommitGroup>,
    /// Runs of groups that the store will not make as they are: each is sent alone, so that the one
    /// to blame is found and its neighbours go on.
    suspects: BTreeSet<RunId>,
}

/// Gives the runs that should be tried alone from now on.
type CommitGroup = Pin<Box<dyn Future<Output = Vec<RunId>> + Send>>;

impl SupervisedTask for Committer {
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
        rx: mpsc::UnboundedReceiver<Vec<RunCommit>>,
        most: usize,
    ) -> Self {
        Self {
            name: name.to_owned(),
            store,
            shards,
            rx,
            most,
            waiting: Vec::new(),
            groups: Vec::new(),
            suspects: BTreeSet::new(),
        }
    }

    /// Ready when nobody can wish for anything more and everything is answered.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let suspects = &mut self.suspects;
            self.groups
                .retain_mut(|group| match group.as_mut().poll(context) {
                    Poll::Pending => true,
                    Poll::Ready(refused) => {
                        suspects.extend(refused);
                        false
                    }
                });
            if self.groups.len() == GROUPS {
                return Poll::Pending;
            }
            let over = self.listen(context);
            if self.waiting.is_empty() {
                return if over && self.groups.is_empty() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                };
            }
            seam::pass(&self.name, Self::NAME);
            let group = self.next_group();
            let company = if group.len() == 1 && self.groups.is_empty() && self.waiting.is_empty() {
                Company::Alone
            } else {
                Company::Others
            };
            let (store, shards) = (self.store.clone(), Arc::clone(&self.shards));
            self.groups
                .push(Box::pin(commit(store, shards, group, company)));
        }
    }

    /// What is sent next: as much as fits, or one run that is suspected, alone.
    fn next_group(&mut self) -> Vec<RunCommit> {
        let first = self.waiting.first().map(|commit| commit.run);
        if first.is_some_and(|run| self.suspects.remove(&run)) {
            let rest = self.waiting.split_off(1);
            return std::mem::replace(&mut self.waiting, rest);
        }
        let suspects = &self.suspects;
        let most = self.waiting.len().min(self.most);
        let innocent = if suspects.is_empty() {
            most
        } else {
            let is_suspect = |commit: &RunCommit| suspects.contains(&commit.run);
            self.waiting[..most]
                .iter()
                .position(is_suspect)
                .unwrap_or(most)
        };
        let rest = self.waiting.split_off(innocent);
        std::mem::replace(&mut self.waiting, rest)
    }

    /// Take in what is wished for. True: there will be no more.
    fn listen(&mut self, context: &mut Context<'_>) -> bool {
        while self.waiting.len() < self.most {
            match self.rx.poll_recv(context) {
                Poll::Ready(Some(more)) => self.waiting.extend(more),
                Poll::Ready(None) => return true,
                Poll::Pending => return false,
            }
        }
        false
    }
}

/// Is anything else under way?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Company {
    Alone,
    Others,
}

async fn commit(
    store: Store,
    shards: Arc<Shards>,
    group: Vec<RunCommit>,
    company: Company,
) -> Vec<RunId> {
    let group = valid(&shards, group);
    let runs: Vec<(RunId, Epoch)> = group
        .iter()
        .map(|commit| (commit.run, commit.epoch))
        .collect();
    if runs.is_empty() {
        return Vec::new();
    }
    let answer = caught(store.runs.commit(group)).await;
    match answer.unwrap_or_else(|panic| Err(StoreError::unknown(panic))) {
        Ok(replies) => hand_back(&shards, runs.into_iter().zip(replies), company),
        Err(error @ (StoreError::Refused { .. } | StoreError::Corrupt { .. })) => {
            return refused(&shards, runs, &error);
        }
        Err(error) => {
            tracing::warn!(%error, runs = runs.len(), "a commit was not made or not answered; it will be sent again");
            shards.send_all(
                runs.into_iter()
                    .map(|(run, epoch)| (run, ShardInput::Unanswered(run, epoch))),
            );
        }
    }
    Vec::new()
}

/// What a lone run's commit led to is done on the spot, if it can be.
fn hand_back(
    shards: &Shards,
    answers: impl Iterator<Item = ((RunId, Epoch), CommitReply)>,
    company: Company,
) {
    let inputs =
        answers.map(|((run, epoch), reply)| (run, ShardInput::Committed(run, epoch, reply)));
    match company {
        Company::Alone => inputs.for_each(|(run, input)| shards.bring(run, input)),
        Company::Others => shards.send_all(inputs),
    }
}

/// The store will not make this group, now or later. One run alone is to blame itself and is set
/// aside; of several, each is tried alone.
fn refused(shards: &Shards, runs: Vec<(RunId, Epoch)>, error: &StoreError) -> Vec<RunId> {
    if let [(run, _)] = runs[..] {
        tracing::error!(%run, %error, "the store does not make this commit; its run is set aside");
        shards.send(run, ShardInput::Rejected(run, error.to_string()));
        return Vec::new();
    }
    tracing::warn!(%error, runs = runs.len(), "a group of commits was refused; each is tried alone");
    let suspects = runs.iter().map(|(run, _)| *run).collect();
    shards.send_all(
        runs.into_iter()
            .map(|(run, epoch)| (run, ShardInput::Unanswered(run, epoch))),
    );
    suspects
}

/// A commit beyond a limit is refused by every store, with all that came in the same call, and
/// would be for ever: its run is set aside and the others go on.
fn valid(shards: &Shards, group: Vec<RunCommit>) -> Vec<RunCommit> {
    let is_valid = |commit: &RunCommit| match validate::commits(std::slice::from_ref(commit)) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(run = %commit.run, %error, "the store will never make this commit; its run is set aside");
            shards.send(
                commit.run,
                ShardInput::Rejected(commit.run, error.to_string()),
            );
            false
        }
    };
    group.into_iter().filter(is_valid).collect()
}
