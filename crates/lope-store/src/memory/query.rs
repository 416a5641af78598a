//! Queries: one run, its journal and values, listings, counts.

use std::collections::BTreeMap;

use lope_model::{QueueName, RunId, Timestamp, limit};

use super::queue_index::QueuePosition;
use super::state::{ByTime, RunState};
use crate::runs::{Cursor, JournalRow, QueueCount, RunCounts, RunFilter, RunRecord};

const FIRST: RunId = RunId::from_bytes([0; 16]);

impl RunState {
    pub(super) fn journal(&self, run: RunId, after: u64, limit: usize) -> Vec<JournalRow> {
        let rows = self
            .runs
            .get(&run)
            .map_or(&[][..], |entry| entry.rows_after(after));
        rows[..rows.len().min(limit.min(limit::PAGE_MAX))].to_vec()
    }

    /// Youngest first, over the narrowest index that the filter allows.
    pub(super) fn list(&self, filter: &RunFilter) -> Vec<RunRecord> {
        let Some(index) = self.index_for(filter) else {
            return Vec::new();
        };
        let from = (
            filter.since.unwrap_or(Timestamp::from_millis(i64::MIN)),
            FIRST,
        );
        let to = behind(filter);
        if from >= to {
            return Vec::new();
        }
        let entries = index
            .range(from..to)
            .rev()
            .filter_map(|(_, run)| self.runs.get(run));
        let matching = entries.filter(|entry| filter.describes(&entry.record, entry.status()));
        matching
            .take(filter.limit.min(limit::PAGE_MAX))
            .map(|entry| entry.listed())
            .collect()
    }

    fn index_for(&self, filter: &RunFilter) -> Option<&ByTime> {
        match (&filter.parent, &filter.workflow) {
            (Some(parent), _) => self.by_parent.get(parent),
            (None, Some(workflow)) => self.by_workflow.get(workflow),
            (None, None) => Some(&self.by_time),
        }
    }

    pub(super) fn counts(&self, now: Timestamp) -> RunCounts {
        let mut counts = RunCounts::default();
        let mut queues: BTreeMap<&QueueName, QueueCount> = BTreeMap::new();
        for entry in self.runs.values() {
            let position = entry.position();
            let counted = counts.by_status.entry(entry.status().as_str()).or_default();
            if matches!(position, QueuePosition::Ended(_)) {
                *counted = (*counted + 1).min(limit::ENDED_COUNTED_MAX);
                continue;
            }
            *counted += 1;
            let queue = &entry.record.queue;
            let count = queues.entry(queue).or_insert_with(|| QueueCount {
                queue: queue.clone(),
                due: 0,
                later: 0,
                owned: 0,
                parked: 0,
                oldest: None,
            });
            match position {
                QueuePosition::Queued(_, due) if due <= now => {
                    count.due += 1;
                    let since = due.max(entry.record.created_at);
                    count.oldest = Some(count.oldest.map_or(since, |oldest| oldest.min(since)));
                }
                QueuePosition::Queued(..) => count.later += 1,
                QueuePosition::Owned { .. } => count.owned += 1,
                QueuePosition::Parked => count.parked += 1,
                QueuePosition::Ended(_) => {}
            }
        }
        counts.queues = queues.into_values().collect();
        counts
    }
}

/// The end of the listing's range: the earlier of `until` and the cursor.
fn behind(filter: &RunFilter) -> (Timestamp, RunId) {
    let until = filter.until.map_or(
        (Timestamp::NEVER, RunId::from_bytes([u8::MAX; 16])),
        |until| (until, FIRST),
    );
    match filter.after {
        Some(Cursor { created_at, run }) => until.min((created_at, run)),
        None => until,
    }
}
