//! Runs as plain data: what a [`Client`](crate::Client) answers with, and what it is asked with.

pub use lope_definition::json_schema::SchemaViolation;
pub use lope_engine::News;
pub use lope_engine::client::{InputError, RunStartOptions};
pub use lope_engine::fork::{Fork, Forked};
pub use lope_engine::query::{Follower, FoundRun};
pub use lope_flow::history::{AttemptRecord, Execution, ExecutionStatus, Historian, HistoryMark};
pub use lope_flow::law::{Event, Notice, Settled, Status};
pub use lope_store::Watch;
pub use lope_store::runs::{
    Admitted, Cursor, Delivered, FinalStatus, JournalRow, LiveStatus, Prune, QueueCount, RunCounts,
    RunFilter, RunRecord, RunStatus, RunnerRecord,
};
pub use lope_why::{Why, as_told, is_set_aside};

pub use crate::client::{
    JournalEntry, PreparedRun, PruneChoice, PrunedRuns, RECENT_ROWS, RecentHistory, Steering,
};
