//! What the memory keeps of one run: its record, its journal, its snapshot, its values, its mail.

use std::collections::{BTreeMap, BTreeSet};

use lope_model::{Digest, RunId, RunnerId, Timestamp, limit};

use super::queue_index::{ClaimLane, QueuePosition};
use crate::runs::{Blob, ClaimedRun, JournalRow, Loaded, Mail, RunRecord, RunStatus, Snapshot};

/// `record.status` of a live run is what its last owner said; `result` and `error` are beside the
/// record, so that listing does not copy them.
#[derive(Debug)]
pub(super) struct RunEntry {
    pub(super) record: RunRecord,
    pub(super) result: Option<Vec<u8>>,
    pub(super) error: Option<Vec<u8>>,
    pub(super) weight: u32,
    /// The journal begins behind this row: 0, or the base of a fork.
    pub(super) journal_base: u64,
    pub(super) journal: Vec<JournalRow>,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) blobs: BTreeMap<Digest, Vec<u8>>,
    pub(super) waiting: BTreeMap<u64, Mail>,
    pub(super) mail_ids: BTreeSet<String>,
}

impl RunEntry {
    pub(super) fn is_live(&self) -> bool {
        matches!(self.record.status, RunStatus::Live(_))
    }

    /// The status as users see it.
    pub(super) fn status(&self) -> RunStatus {
        match self.record.status {
            RunStatus::Live(said) => RunStatus::of_live(said, self.record.owner.is_some()),
            RunStatus::Final(status) => RunStatus::Final(status),
        }
    }

    /// Where the run stands, as the indexes keep it.
    pub(super) fn position(&self) -> QueuePosition {
        let record = &self.record;
        if !self.is_live() {
            return QueuePosition::Ended(record.finished_at.unwrap_or_default());
        }
        match (record.owner, &record.parked) {
            (Some(owner), _) => QueuePosition::Owned {
                owner,
                mailed: !self.waiting.is_empty(),
            },
            (None, Some(_)) => QueuePosition::Parked,
            (None, None) => {
                QueuePosition::Queued(self.lane(), record.due.unwrap_or(Timestamp::NEVER))
            }
        }
    }

    fn lane(&self) -> ClaimLane {
        let RunRecord {
            queue,
            realm,
            law,
            priority,
            ..
        } = &self.record;
        ClaimLane {
            queue: queue.clone(),
            realm: realm.clone(),
            law: *law,
            priority: *priority,
        }
    }

    /// The record as a listing shows it.
    pub(super) fn listed(&self) -> RunRecord {
        let is_short = |error: &&Vec<u8>| error.len() <= limit::LISTED_ERROR_MAX;
        RunRecord {
            status: self.status(),
            error: self.error.as_ref().filter(is_short).cloned(),
            ..self.record.clone()
        }
    }

    /// The record with its result.
    pub(super) fn shown(&self) -> RunRecord {
        RunRecord {
            result: self.result.clone(),
            error: self.error.clone(),
            ..self.listed()
        }
    }

    pub(super) fn claimed(&self) -> ClaimedRun {
        let record = &self.record;
        ClaimedRun {
            run: record.run,
            epoch: record.epoch,
            version: record.version,
            queue: record.queue.clone(),
            priority: record.priority,
            realm: record.realm.clone(),
            law: record.law,
            weight: self.weight,
            mail: record.mail,
            due: record.due.unwrap_or(Timestamp::NEVER),
        }
    }

    pub(super) fn loaded(&self) -> Loaded {
        let behind = self
            .snapshot
            .as_ref()
            .map_or(self.journal_base, |snapshot| snapshot.seq);
        Loaded {
            record: self.shown(),
            snapshot: self.snapshot.clone(),
            rows: self.rows_after(behind).to_vec(),
            mail: self.mail(),
        }
    }

    pub(super) fn mail(&self) -> Vec<Mail> {
        self.waiting.values().cloned().collect()
    }

    /// Rows are without gaps, so a row's place follows from its number.
    pub(super) fn rows_after(&self, seq: u64) -> &[JournalRow] {
        let skipped = usize::try_from(seq.saturating_sub(self.journal_base)).unwrap_or(usize::MAX);
        &self.journal[skipped.min(self.journal.len())..]
    }

    pub(super) fn append(
        &mut self,
        rows: Vec<JournalRow>,
        blobs: Vec<Blob>,
        snapshot: Option<Snapshot>,
    ) {
        self.record.head = rows.last().map_or(self.record.head, |row| row.seq);
        self.journal.extend(rows);
        self.blobs
            .extend(blobs.into_iter().map(|blob| (blob.digest, blob.bytes)));
        if let Some(snapshot) = snapshot {
            self.record.law = snapshot.law;
            self.snapshot = Some(snapshot);
        }
    }

    /// The run has another owner, or none; whatever the one before still writes is stale from here.
    pub(super) fn hand_to(&mut self, owner: Option<RunnerId>) {
        self.record.owner = owner;
        self.record.epoch = self.record.epoch.next();
    }

    pub(super) fn wake(&mut self, now: Timestamp) {
        self.record.due = self.record.due.map(|due| due.min(now));
    }

    pub(super) fn run(&self) -> RunId {
        self.record.run
    }
}
