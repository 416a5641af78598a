//! Looking after a store: is it sound, what does it look like, and what may go.

use std::collections::BTreeMap;
use std::path::Path;

use lope_engine::Settings;
use lope_flow::history::ExecutionStatus;
use lope_model::{Moment, RunId, Timestamp};
use lope_store::runs::{Cursor, FinalStatus, Prune, RunFilter, RunRecord, RunStatus};
use lope_store::store::Finding;
use lope_store::{StoreError, StoreResult};

use lope_reactive::limit::RECEIPT_KEPT;

use super::{Client, store_check};
use crate::copy::{self, Copied, CopyError};
use crate::space_upkeep as spaces;

/// Runs looked at a time when they are only counted.
const PAGE: usize = 1_000;

impl Client {
    /// What time it is by the store's clock, which decides what is due.
    pub async fn now(&self) -> StoreResult<Timestamp> {
        Ok(self.store().upkeep.reading().await?.now)
    }

    /// The moment by the store's clock that leases are judged by.
    pub async fn moment(&self) -> StoreResult<Moment> {
        Ok(self.store().upkeep.reading().await?.moment)
    }

    /// What is wrong with the store, and with the definitions and unfinished runs in it; nothing if
    /// all is sound.
    pub async fn check(&self) -> StoreResult<Vec<Finding>> {
        let mut findings = store_check::check(self.store()).await?;
        findings.extend(spaces::check(self.store()).await?);
        Ok(findings)
    }

    /// The schema, as SQL.
    pub async fn schema(&self) -> StoreResult<String> {
        self.store().upkeep.schema().await
    }

    /// Copy the store, while it is in use, into a new file.
    pub async fn backup(&self, file: &Path) -> StoreResult<()> {
        self.store().upkeep.backup(file.to_owned()).await
    }

    /// Copy everything, live runs included, into another store, which must be empty. `told` hears,
    /// table by table, how many rows were copied so far.
    pub async fn copy_into(
        &self,
        target: &Self,
        told: impl FnMut(&'static str, u64),
    ) -> Result<Copied, CopyError> {
        copy::copy(self.store(), target.store(), told).await
    }

    /// Delete one run with all that belongs to it, also one that is damaged. One whose owner lives is
    /// refused, and so is one that can still end while its parent waits for that. False: there is
    /// none of this id.
    pub async fn remove_run(&self, run: RunId) -> StoreResult<bool> {
        if let Some(parent) = self.waiting_parent(run).await {
            return Err(StoreError::refused(format!(
                "run {parent} waits for run {run}; cancel it first: lope runs cancel {run}"
            )));
        }
        self.store().upkeep.remove_run(run).await
    }

    /// The parent that waits for a run. One that cannot be read, or was set aside, will not answer.
    async fn waiting_parent(&self, run: RunId) -> Option<RunId> {
        let is_live = |record: &RunRecord| matches!(record.status, RunStatus::Live(_));
        let record = self.listed(&[run]).await.ok()?.pop().filter(is_live)?;
        let parent = record.parent.as_ref()?;
        let waiting = self.listed(&[parent.run]).await.ok()?.pop();
        let waiting = waiting.filter(is_live)?;
        let plan = self.plan(&waiting).await.ok()?;
        let history = self.history(waiting.run, &plan, None).await.ok()?;
        let execution = history.execution(&parent.execution)?;
        let mut versions = BTreeMap::new();
        let damage = store_check::unreadable(self.store(), &record, &mut versions).await;
        let can_end = matches!(damage, Ok(None));
        (can_end && execution.status == ExecutionStatus::Running).then_some(waiting.run)
    }

    /// Give the space of what was deleted back; how many bytes.
    pub async fn compact(&self) -> StoreResult<u64> {
        self.store().upkeep.compact().await
    }

    /// Delete runs that have ended, in batches that do not block work. Which there were.
    pub async fn prune(&self, prune: Prune) -> StoreResult<Vec<RunId>> {
        let mut runs = Vec::new();
        loop {
            let pruned = self.store().runs.prune(prune.clone()).await?;
            runs.extend(pruned.runs);
            if !pruned.more {
                return Ok(runs);
            }
        }
    }

    /// Delete receipts of events that reactive spaces have kept for their time and that are older
    /// than `before`, and changes of cells beyond the length of the history. How many rows went, or
    /// would go if this is a rehearsal.
    pub async fn prune_spaces(&self, before: Timestamp, is_rehearsal: bool) -> StoreResult<u64> {
        let before = before.min(self.now().await?.minus(RECEIPT_KEPT));
        spaces::prune(self.store(), before, is_rehearsal).await
    }

    /// What is older than settings and workflows say, as prunes.
    pub async fn too_old(&self, settings: &Settings) -> StoreResult<Vec<Prune>> {
        lope_engine::too_old(self.store(), settings, self.now().await?).await
    }

    /// How many runs `prune` would delete.
    pub async fn count_prunable(&self, prune: &Prune) -> StoreResult<u64> {
        let statuses = if prune.statuses.is_empty() {
            FinalStatus::ALL.to_vec()
        } else {
            prune.statuses.clone()
        };
        let statuses: Vec<RunStatus> = statuses.into_iter().map(RunStatus::Final).collect();
        let (mut runs, mut after): (u64, Option<Cursor>) = (0, None);
        loop {
            let filter = RunFilter {
                statuses: statuses.clone(),
                workflow: prune.workflow.clone(),
                // Whoever ended before a time began before it.
                until: Some(prune.before),
                after,
                limit: PAGE,
                ..RunFilter::default()
            };
            let page = self.list(filter).await?;
            let Some(last) = page.last() else {
                return Ok(runs);
            };
            after = Some(last.cursor());
            let ended = |at: Option<Timestamp>| at.is_some_and(|at| at < prune.before);
            let ended = page.iter().filter(|record| ended(record.finished_at));
            runs += ended.count() as u64;
        }
    }
}
