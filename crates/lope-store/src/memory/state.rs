//! Everything the door *Runs* keeps, and the two ways in which it changes: a run enters, a run's
//! entry changes.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use lope_model::{Moment, RunId, RunnerId, Timestamp, VersionId};

use super::queue_index::QueueIndex;
use super::run_entry::RunEntry;
use super::session::Session;
use crate::runs::{StoredDefinition, StoredSchedule};

/// Runs in the order of listings.
pub(super) type ByTime = BTreeSet<(Timestamp, RunId)>;

#[derive(Debug, Default)]
pub(super) struct RunState {
    pub(super) definitions: HashMap<VersionId, StoredDefinition>,
    pub(super) latest: BTreeMap<String, VersionId>,
    pub(super) runs: HashMap<RunId, Box<RunEntry>>,
    pub(super) keys: HashMap<String, RunId>,
    pub(super) queue_index: QueueIndex,
    pub(super) by_time: ByTime,
    pub(super) by_workflow: HashMap<String, ByTime>,
    pub(super) by_parent: HashMap<RunId, ByTime>,
    pub(super) schedules: BTreeMap<String, StoredSchedule>,
    pub(super) sessions: BTreeMap<RunnerId, Session>,
    /// Mail that counts as waiting for every run and is not there.
    pub(super) mail_ahead: u64,
    /// Sessions that have not ended, expired or not.
    pub(super) open_sessions: BTreeSet<RunnerId>,
}

impl RunState {
    pub(super) fn is_held(&self, runner: RunnerId, moment: Moment) -> bool {
        self.sessions
            .get(&runner)
            .is_some_and(|session| session.is_held(moment))
    }

    /// Change a run, keeping its place in step. Nothing if there is no such run.
    pub(super) fn change<T>(
        &mut self,
        run: RunId,
        change: impl FnOnce(&mut RunEntry) -> T,
    ) -> Option<T> {
        let entry = self.runs.get_mut(&run)?;
        let before = entry.position();
        let answer = change(entry);
        let after = entry.position();
        if before != after {
            self.queue_index.leave(run, &before);
            self.queue_index.enter(run, after);
        }
        Some(answer)
    }

    pub(super) fn enter(&mut self, entry: RunEntry) {
        let run = entry.run();
        let row = (entry.record.created_at, run);
        if let Some(key) = &entry.record.key {
            self.keys.insert(key.clone(), run);
        }
        self.by_time.insert(row);
        match self.by_workflow.get_mut(&entry.record.workflow) {
            Some(rows) => drop(rows.insert(row)),
            None => drop(
                self.by_workflow
                    .insert(entry.record.workflow.clone(), BTreeSet::from([row])),
            ),
        }
        if let Some(parent) = &entry.record.parent {
            self.by_parent.entry(parent.run).or_default().insert(row);
        }
        self.queue_index.enter(run, entry.position());
        self.runs.insert(run, Box::new(entry));
    }

    pub(super) fn forget(&mut self, run: RunId) {
        let Some(entry) = self.runs.remove(&run) else {
            return;
        };
        self.queue_index.leave(run, &entry.position());
        let row = (entry.record.created_at, run);
        self.by_time.remove(&row);
        forget_row(&mut self.by_workflow, &entry.record.workflow, row);
        if let Some(parent) = &entry.record.parent {
            forget_row(&mut self.by_parent, &parent.run, row);
        }
        if let Some(key) = &entry.record.key {
            self.keys.remove(key);
        }
    }
}

fn forget_row<K: std::hash::Hash + Eq>(
    index: &mut HashMap<K, ByTime>,
    key: &K,
    row: (Timestamp, RunId),
) {
    if let Some(rows) = index.get_mut(key) {
        rows.remove(&row);
        if rows.is_empty() {
            index.remove(key);
        }
    }
}
