//! `admit`: runs enter the memory.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::{Epoch, RunnerId, Timestamp};

use super::entry::Entry;
use super::state::RunState;
use crate::clock::Reading;
use crate::runs::{Admit, Admitted, LiveStatus, RunRecord, RunStatus};

impl RunState {
    pub(super) fn admit(&mut self, admits: Vec<Admit>, reading: Reading) -> Vec<Admitted> {
        admits.into_iter().map(|admit| self.admit_one(admit, reading)).collect()
    }

    pub(super) fn admit_one(&mut self, admit: Admit, reading: Reading) -> Admitted {
        if self.runs.contains_key(&admit.run) {
            return Admitted::Exists { run: admit.run };
        }
        if let Some(run) = admit.key.as_ref().and_then(|key| self.keys.get(key)) {
            return Admitted::Exists { run: *run };
        }
        if !self.definitions.contains_key(&admit.version) {
            return Admitted::UnknownVersion;
        }
        let owner = admit.claimed_by.filter(|runner| self.is_held(*runner, reading.moment));
        let entry = fresh(admit, owner, reading.now);
        let admitted = Admitted::Created { epoch: entry.record.epoch, owned: owner.is_some() };
        self.enter(entry);
        admitted
    }
}

fn fresh(admit: Admit, owner: Option<RunnerId>, now: Timestamp) -> Entry {
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
        finished_at: None,
        due: Some(admit.due.max(now)),
        owner,
        epoch: Epoch(u64::from(owner.is_some())),
        head: admit.rows.last().map_or(base, |row| row.seq),
        mail: 0,
        parked: None,
        result: None,
        error: None,
    };
    Entry {
        record,
        result: None,
        error: None,
        weight: admit.weight,
        journal_base: base,
        journal: admit.rows,
        snapshot: admit.snapshot,
        blobs: admit.blobs.into_iter().map(|blob| (blob.digest, blob.bytes)).collect(),
        waiting: BTreeMap::new(),
        mail_ids: BTreeSet::new(),
    }
}
