//! `admit`: runs enter the memory.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::{RunId, Timestamp};

use super::run_entry::RunEntry;
use super::state::RunState;
use crate::clock::Reading;
use crate::runs::{Admit, Admitted, LiveStatus, RunRecord, RunStatus};
use crate::verdict::{self, AdmitFacts, Birth};

impl RunState {
    pub(super) fn admit(&mut self, admits: Vec<Admit>, reading: Reading) -> Vec<Admitted> {
        admits
            .into_iter()
            .map(|admit| self.admit_one(admit, reading))
            .collect()
    }

    pub(super) fn admit_one(&mut self, admit: Admit, reading: Reading) -> Admitted {
        let facts = AdmitFacts {
            existing: self.existing(&admit).map(|run| {
                let workflow = self.runs[&run].record.workflow.clone();
                (run, workflow)
            }),
            version_known: self.definitions.contains_key(&admit.version),
            session_held: admit
                .claimed_by
                .is_some_and(|runner| self.is_held(runner, reading.moment)),
        };
        let birth = match verdict::admit(&admit, facts, reading.now) {
            Ok(birth) => birth,
            Err(refusal) => return refusal,
        };
        let entry = fresh(admit, birth, reading.now);
        let admitted = Admitted::created(birth.owner.is_some());
        self.enter(entry);
        admitted
    }

    /// The run that is there already under this id or key.
    pub(super) fn existing(&self, admit: &Admit) -> Option<RunId> {
        if self.runs.contains_key(&admit.run) {
            return Some(admit.run);
        }
        admit
            .key
            .as_ref()
            .and_then(|key| self.keys.get(key))
            .copied()
    }
}

fn fresh(admit: Admit, birth: Birth, now: Timestamp) -> RunEntry {
    let base = admit.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
    let record = RunRecord {
        run: admit.run,
        workflow: admit.workflow,
        version: admit.version,
        key: admit.key,
        status: RunStatus::Live(LiveStatus::Queued),
        queue: admit.queue,
        priority: admit.priority,
        realm: admit.realm,
        law: admit.law,
        tags: admit.tags,
        parent: admit.parent,
        created_at: now,
        started_at: birth.owner.map(|_| now),
        finished_at: None,
        due: Some(birth.due),
        owner: birth.owner,
        epoch: birth.epoch,
        head: birth.head,
        mail: 0,
        parked: None,
        result: None,
        error: None,
    };
    RunEntry {
        record,
        result: None,
        error: None,
        weight: admit.weight,
        journal_base: base,
        journal: admit.rows,
        snapshot: admit.snapshot,
        blobs: admit
            .blobs
            .into_iter()
            .map(|blob| (blob.digest, blob.bytes))
            .collect(),
        waiting: BTreeMap::new(),
        mail_ids: BTreeSet::new(),
    }
}
