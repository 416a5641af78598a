//! What came out of a world.

use lope_engine::codec;
use lope_flow::law::Settled;
use lope_store::runs::{FinalStatus, RunRecord, RunStatus};

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimEnd {
    pub status: String,
    /// The result, or the type of the failure, as text.
    pub result: String,
}

/// How often something happened that most worlds do not have.
#[derive(Clone, Copy, Default, Debug)]
pub struct SimCounts {
    /// Mail for which there was no room.
    pub full: u32,
    /// Runs that had failed and were opened again.
    pub reopened: u32,
    /// Runs whose progress was thrown away.
    pub discarded: u32,
    /// Runs that were set aside because their rows are damaged.
    pub set_aside: u32,
    /// Claims of a queue with a bound that found it full.
    pub bounded: u32,
}

/// What came out of a world.
#[derive(Debug)]
pub struct SimReport {
    /// How each job's run ended, in the order of the jobs; nothing if it did not, or was damaged.
    pub ends: Vec<Option<SimEnd>>,
    pub violations: Vec<String>,
    /// Points at which a process could have crashed, and those before the last run had ended.
    pub points: u64,
    pub points_until_over: u64,
    pub crashes: u32,
    /// How often a shard panicked at a run.
    pub falls: u32,
    /// Processes that stopped by themselves.
    pub fences: u32,
    /// How often a shard was told that a run it holds is another's.
    pub lost_heard: u32,
    pub rows: u64,
    /// Requests to the store, and those that were not answered.
    pub calls: u64,
    pub unanswered: u64,
    /// Commits that the store refused.
    pub refused: u64,
    /// Attempts started by a process whose session had ended, before it knew.
    pub stale_starts: u32,
    pub counts: SimCounts,
    /// When everything was over.
    pub over_at: i64,
    pub trace: Vec<String>,
}

impl SimEnd {
    pub(crate) fn of(record: &RunRecord) -> Option<Self> {
        let RunStatus::Final(status) = record.status else {
            return None;
        };
        let value = record
            .result
            .as_deref()
            .map(|bytes| codec::read_result(bytes).expect("results can be read"));
        let error = record
            .error
            .as_deref()
            .map(|bytes| codec::read_error(bytes).expect("errors can be read"));
        let result = match (value, error) {
            (Some(value), _) => value.to_string(),
            (None, Some(error)) => error.kind.to_string(),
            (None, None) => String::new(),
        };
        Some(Self {
            status: status.as_str().to_owned(),
            result,
        })
    }

    /// The end that a process tells of.
    pub(crate) fn told(status: FinalStatus, result: &Settled) -> Self {
        let result = match result {
            Settled::Done(value) => value.to_string(),
            Settled::Failed(failure) => failure.kind.to_string(),
            Settled::Cancelled => String::new(),
        };
        Self {
            status: status.as_str().to_owned(),
            result,
        }
    }
}
