//! Which runs are to go: what somebody chose, or what settings and workflows say.

use lope_engine::Settings;
use lope_model::{Span, Timestamp};
use lope_store::StoreResult;
use lope_store::runs::{FinalStatus, Prune};

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

impl Client {
    /// What a choice means now, as prunes. Nothing: by settings and workflows runs are kept for ever.
    pub async fn chosen_prunes(
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
