//! What a store keeps of a run: its record, its journal rows, its snapshot, its large values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lope_model::{Epoch, Priority, QueueName, Realm, RunId, RunnerId, Timestamp, VersionId};

use super::deliver::Mail;

/// The run and the execution in it that started a child.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parent {
    pub run: RunId,
    pub execution: String,
}

/// One event of a run. `body` is opaque to the store; `event` names it for people who read the
/// table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalRow {
    pub seq: u64,
    pub at: Timestamp,
    pub event: Arc<str>,
    pub body: Vec<u8>,
}

/// A run's folded state at a journal position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The last journal row folded into it.
    pub seq: u64,
    pub law: u32,
    pub body: Vec<u8>,
}

/// What a run that is not finished is doing, in its last owner's words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum LiveStatus {
    #[default]
    Queued,
    Running,
    Idle,
    Sleeping,
    Waiting,
    Paused,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FinalStatus {
    Completed,
    Failed,
    Cancelled,
}

/// A run's status as users see it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RunStatus {
    Live(LiveStatus),
    Final(FinalStatus),
}

impl RunStatus {
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Final(_))
    }
}

/// A run as the store knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunRecord {
    pub run: RunId,
    pub workflow: String,
    pub version: VersionId,
    pub key: Option<String>,
    /// See [`RunStatus::of_live`] for how a live run's status is told.
    pub status: RunStatus,
    pub queue: QueueName,
    pub priority: Priority,
    pub realm: Realm,
    pub law: u32,
    pub tags: BTreeMap<String, String>,
    pub parent: Option<Parent>,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When a runner first took it up; absent while it has only waited.
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// When it is due, while it is live.
    pub due: Option<Timestamp>,
    pub owner: Option<RunnerId>,
    pub epoch: Epoch,
    /// The last journal row.
    pub head: u64,
    /// How much mail was ever delivered to it.
    pub mail: u64,
    /// Why it is kept out of claims, if it is.
    pub parked: Option<String>,
    /// Only from `run` and `load`.
    pub result: Option<Vec<u8>>,
    /// From a listing only if it has at most [`LISTED_ERROR_MAX`](lope_model::limit) bytes.
    pub error: Option<Vec<u8>>,
}

/// The beginning of a run's result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultHead {
    pub bytes: Vec<u8>,
    /// How many bytes the whole of it has.
    pub total: u64,
}

/// What is needed to go on with a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loaded {
    pub record: RunRecord,
    pub snapshot: Option<Snapshot>,
    /// The journal behind the snapshot.
    pub rows: Vec<JournalRow>,
    /// Mail not yet taken, in order of arrival.
    pub mail: Vec<Mail>,
}

impl RunRecord {
    /// When work on it began, as far as that is known; while it has only waited, when it was
    /// admitted.
    pub fn begun_at(&self) -> Timestamp {
        self.started_at.unwrap_or(self.created_at)
    }
}

impl Loaded {
    /// About how many bytes it takes in memory.
    pub fn size(&self) -> usize {
        let snapshot = self.snapshot.as_ref().map_or(0, |it| it.body.len());
        let rows: usize = self.rows.iter().map(|row| row.body.len()).sum();
        let mail: usize = self.mail.iter().map(|mail| mail.body.len()).sum();
        snapshot + rows + mail
    }

    /// What is missing of the journal between the snapshot and the last row that was written. Only
    /// the owner may ask: for others the journal grows while they read.
    pub fn missing_rows(&self) -> Option<String> {
        let kept = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let mut at = kept;
        for row in self.rows.iter().filter(|row| row.seq > kept) {
            if row.seq > at + 1 {
                return Some(format!("row {} of its journal is missing", at + 1));
            }
            at = row.seq;
        }
        let head = self.record.head;
        (at < head).then(|| format!("its journal ends at row {at}, and row {head} was written"))
    }
}

impl RunStatus {
    pub const ALL: [Self; 9] = [
        Self::Live(LiveStatus::Queued),
        Self::Live(LiveStatus::Running),
        Self::Live(LiveStatus::Idle),
        Self::Live(LiveStatus::Sleeping),
        Self::Live(LiveStatus::Waiting),
        Self::Live(LiveStatus::Paused),
        Self::Final(FinalStatus::Completed),
        Self::Final(FinalStatus::Failed),
        Self::Final(FinalStatus::Cancelled),
    ];

    /// A live run's status: what its last owner said, except that a run at work shows as running
    /// and one that was left by its owner while running waits in the queue.
    pub fn of_live(said: LiveStatus, owned: bool) -> Self {
        Self::Live(match (said, owned) {
            (LiveStatus::Queued, true) => LiveStatus::Running,
            (LiveStatus::Running, false) => LiveStatus::Queued,
            (said, _) => said,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live(LiveStatus::Queued) => "queued",
            Self::Live(LiveStatus::Running) => "running",
            Self::Live(LiveStatus::Idle) => "idle",
            Self::Live(LiveStatus::Sleeping) => "sleeping",
            Self::Live(LiveStatus::Waiting) => "waiting",
            Self::Live(LiveStatus::Paused) => "paused",
            Self::Final(FinalStatus::Completed) => "completed",
            Self::Final(FinalStatus::Failed) => "failed",
            Self::Final(FinalStatus::Cancelled) => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl LiveStatus {
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Running,
        Self::Idle,
        Self::Sleeping,
        Self::Waiting,
        Self::Paused,
    ];

    pub fn as_str(self) -> &'static str {
        RunStatus::Live(self).as_str()
    }

    pub fn parse(text: &str) -> Option<Self> {
        match RunStatus::parse(text)? {
            RunStatus::Live(status) => Some(status),
            RunStatus::Final(_) => None,
        }
    }
}

impl FinalStatus {
    pub const ALL: [Self; 3] = [Self::Completed, Self::Failed, Self::Cancelled];

    pub fn as_str(self) -> &'static str {
        RunStatus::Final(self).as_str()
    }

    pub fn parse(text: &str) -> Option<Self> {
        match RunStatus::parse(text)? {
            RunStatus::Final(status) => Some(status),
            RunStatus::Live(_) => None,
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
