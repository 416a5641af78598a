//! Which runs are to go: what somebody chose, or what settings and workflows say.

use lope_engine::Settings;
use lope_model::{Span, Timestamp};
use lope_store::StoreResult;
use lope_store::runs::{FinalStatus, Prune};
use lope_workers::Logs;

use super::Client;

/// Runs deleted at a time.
const BATCH: usize = 500;

/// Which of the runs that have ended are to go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PruneChoice {
    /// Those that ended longer ago than this; absent: than settings and workflows say.
    pub older: Option<Span>,
    /// Those that ended so; empty: however they ended.
    pub statuses: Vec<FinalStatus>,
    pub workflow: Option<String>,
}

/// What a prune took away, or would.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrunedRuns {
    pub runs: u64,
    /// They ended before; absent: by settings and workflows runs are kept for ever.
    pub before: Option<Timestamp>,
    /// Receipts and changes of reactive spaces.
    pub space_rows: u64,
}

impl Client {
    /// Delete the runs that were chosen and their logs, and what spaces have kept for its time
    /// unless some runs alone were asked for. A rehearsal deletes nothing.
    pub async fn prune_chosen(
        &self,
        choice: PruneChoice,
        settings: &Settings,
        logs: &Logs,
        is_rehearsal: bool,
    ) -> StoreResult<PrunedRuns> {
        let mut pruned = PrunedRuns::default();
        let older = choice.older;
        let takes_all = choice.statuses.is_empty() && choice.workflow.is_none();
        let prunes = self.chosen_prunes(choice, settings).await?;
        if takes_all && !prunes.is_empty() {
            let now = self.now().await?;
            let before = older.map_or(now, |older| now.minus(older));
            pruned.space_rows = self.prune_spaces(before, is_rehearsal).await?;
        }
        for prune in prunes {
            pruned.before = pruned.before.max(Some(prune.before));
            pruned.runs += if is_rehearsal {
                self.count_prunable(&prune).await?
            } else {
                let gone = self.prune(prune).await?;
                logs.remove(&gone);
                gone.len() as u64
            };
        }
        Ok(pruned)
    }

    /// What a choice means now, as prunes. Nothing: by settings and workflows runs are kept for ever.
    async fn chosen_prunes(
        &self,
        choice: PruneChoice,
        settings: &Settings,
    ) -> StoreResult<Vec<Prune>> {
        if let Some(older) = choice.older {
            return Ok(vec![Prune {
                before: self.now().await?.minus(older).max(Timestamp::EPOCH),
                statuses: choice.statuses,
                workflow: choice.workflow,
                limit: BATCH,
            }]);
        }
        Ok(choice.narrow(self.too_old(settings).await?))
    }
}

impl PruneChoice {
    /// What is too old by the settings, as far as it was asked for.
    fn narrow(&self, all: Vec<Prune>) -> Vec<Prune> {
        let asked =
            |status: &FinalStatus| self.statuses.is_empty() || self.statuses.contains(status);
        let mut found = Vec::new();
        for mut prune in all {
            let of_another = prune.workflow.as_deref().zip(self.workflow.as_deref());
            if of_another.is_some_and(|(said, asked)| said != asked) {
                continue;
            }
            prune.workflow = prune.workflow.or_else(|| self.workflow.clone());
            let wanted = if prune.statuses.is_empty() {
                self.statuses.clone()
            } else {
                prune.statuses.iter().copied().filter(asked).collect()
            };
            if !wanted.is_empty() || prune.statuses.is_empty() {
                prune.statuses = wanted;
                found.push(prune);
            }
        }
        found
    }
}
