//! `prune`: ended runs leave the memory, the longest ended first.

use lope_model::RunId;

use super::run_entry::RunEntry;
use super::state::RunState;
use crate::runs::{Prune, Pruned, RunStatus};

impl RunState {
    pub(super) fn prune(&mut self, prune: &Prune) -> Pruned {
        let ended = self.queue_index.ended_before(prune.before);
        let matching = ended.filter(|run| {
            self.runs
                .get(run)
                .is_some_and(|entry| is_meant(entry, prune))
        });
        let mut runs: Vec<RunId> = matching.take(prune.limit.saturating_add(1)).collect();
        let more = runs.len() > prune.limit;
        runs.truncate(prune.limit);
        for run in &runs {
            self.forget(*run);
        }
        Pruned { runs, more }
    }
}

fn is_meant(entry: &RunEntry, prune: &Prune) -> bool {
    let by_status = match entry.record.status {
        RunStatus::Live(_) => false,
        RunStatus::Final(status) => prune.statuses.is_empty() || prune.statuses.contains(&status),
    };
    by_status
        && prune
            .workflow
            .as_ref()
            .is_none_or(|workflow| *workflow == entry.record.workflow)
}
