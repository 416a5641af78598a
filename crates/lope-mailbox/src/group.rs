//! Steps that are handled but not yet committed, and the view of the store that they leave: what an
//! earlier step of the group wrote, a later one reads. One commit call makes the whole group
//! durable; each step is a batch of its own in it.
//!
//! A step that read what another one of its group wrote is guarded by that value: if the other is
//! refused, so is it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use lope_store::tables::{At, Batch, BatchReply, Manifest, Range, Row, Write};
use lope_store::{StoreError, StoreResult, Tables};

use crate::limit;

/// What a handler wrote: by key, the value or its removal.
pub(crate) type StateWrites = HashMap<At, Option<Vec<u8>>>;

/// A step that waits for its commit. `ticket` is how its maker knows it again.
#[derive(Debug)]
pub(crate) struct StagedStep {
    pub(crate) ticket: usize,
    pub(crate) batch: Batch,
    /// The state that it writes, for those behind it.
    pub(crate) state: StateWrites,
}

/// A step's answer.
#[derive(Debug)]
pub(crate) struct SettledStep {
    pub(crate) ticket: usize,
    pub(crate) reply: BatchReply,
}

pub(crate) struct CommitGroup {
    tables: Arc<dyn Tables>,
    manifest: Arc<Manifest>,
    pending: Mutex<GroupState>,
    /// Held while a commit of this group is under way, so that commits do not overtake each other.
    commit_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct GroupState {
    tickets: Vec<usize>,
    batches: Vec<Batch>,
    state: StateWrites,
    rows: usize,
    bytes: usize,
    settled: Vec<SettledStep>,
    broken: Option<StoreError>,
}

impl CommitGroup {
    pub(crate) fn new(tables: Arc<dyn Tables>, manifest: Arc<Manifest>) -> Self {
        Self {
            tables,
            manifest,
            pending: Mutex::default(),
            commit_lock: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.pending
            .lock()
            .expect("nobody panics while holding the group")
    }

    /// Add a step. The caller has checked its batch against the manifest.
    pub(crate) fn add(&self, step: StagedStep) {
        let mut open = self.lock();
        open.rows += step.batch.guards.len() + step.batch.writes.len();
        open.bytes += step.batch.writes.iter().map(size).sum::<usize>();
        open.tickets.push(step.ticket);
        open.batches.push(step.batch);
        open.state.extend(step.state);
    }

    pub(crate) fn is_full(&self) -> bool {
        let open = self.lock();
        open.rows >= limit::GROUP_ROWS_MAX || open.bytes >= limit::GROUP_BYTES_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().tickets.is_empty()
    }

    /// The value at a key as the steps of the group leave it.
    pub(crate) async fn get(&self, at: &At) -> StoreResult<Option<Vec<u8>>> {
        if let Some(value) = self.lock().state.get(at) {
            return Ok(value.clone());
        }
        Ok(self
            .tables
            .get(std::slice::from_ref(at))
            .await?
            .pop()
            .flatten())
    }

    /// The rows of a range. The group is committed first: a range is guarded by its scope, which
    /// the group's own writes would change.
    pub(crate) async fn range(&self, range: Range) -> StoreResult<Vec<Row>> {
        self.settle().await?;
        self.tables.range(range).await
    }

    pub(crate) async fn scope_version(&self, scope: &At) -> StoreResult<u64> {
        self.settle().await?;
        self.tables.scope_version(scope).await
    }

    /// Commit what waits, if anything does.
    async fn settle(&self) -> StoreResult<()> {
        if self.is_empty() {
            Ok(())
        } else {
            self.commit(Vec::new()).await.map(|_| ())
        }
    }

    /// Commit what waits and `tail` behind it, in one call. Answers for the tail; those of the
    /// steps are kept for `take_settled`.
    pub(crate) async fn commit(&self, tail: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let _lock = self.commit_lock.lock().await;
        self.commit_locked(tail).await
    }

    /// The same, unless a commit is under way already.
    pub(crate) async fn try_commit(
        &self,
        tail: Vec<Batch>,
    ) -> Option<StoreResult<Vec<BatchReply>>> {
        let _lock = self.commit_lock.try_lock().ok()?;
        Some(self.commit_locked(tail).await)
    }

    async fn commit_locked(&self, tail: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let (tickets, mut batches) = self.take_steps()?;
        batches.extend(tail);
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let replies = self.tables.commit(batches).await;
        let mut open = self.lock();
        open.state.clear();
        let mut replies = match replies {
            Ok(replies) => replies,
            Err(error) => {
                open.broken = Some(error.clone());
                return Err(error);
            }
        };
        let tail = replies.split_off(tickets.len().min(replies.len()));
        open.settled.extend(
            tickets
                .into_iter()
                .zip(replies)
                .map(|(ticket, reply)| SettledStep { ticket, reply }),
        );
        Ok(tail)
    }

    fn take_steps(&self) -> StoreResult<(Vec<usize>, Vec<Batch>)> {
        let mut open = self.lock();
        if let Some(error) = &open.broken {
            return Err(error.clone());
        }
        (open.rows, open.bytes) = (0, 0);
        Ok((
            std::mem::take(&mut open.tickets),
            std::mem::take(&mut open.batches),
        ))
    }

    pub(crate) fn take_settled(&self) -> Vec<SettledStep> {
        std::mem::take(&mut self.lock().settled)
    }
}

fn size(write: &Write) -> usize {
    match write {
        Write::Put(_, value) | Write::Create(_, value) | Write::Append { value, .. } => value.len(),
        Write::Delete(_) => 0,
    }
}
