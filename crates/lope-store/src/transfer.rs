//! The transfer of a whole store: its tables as rows of values, in the order of their keys, read
//! from one store and filled into another.
//!
//! Stores that keep their tables under the same names and columns can be moved into one another.
//! Nobody here knows what a row means. Runners and the locks they hold are not moved: they
//! belong to processes, not to the work.

use async_trait::async_trait;

use crate::board;
use crate::error::StoreResult;

/// The note of a store that is being filled: as long as it is there, none of its schedules is due.
pub const FILLING: &str = "copy_from";

use ColumnType::{Bytes, Id, Int, Json, Short, Text};

pub use crate::row::{ColumnType, TransferRow, TransferTable, TransferValue};

/// Every table, in the order in which they are filled. The queue comes last: a run that is not in
/// it is claimed by nobody.
pub const TABLES: [TransferTable; 17] = [
    board::PROJECTS.rows,
    board::SECTIONS.rows,
    board::TASKS.rows,
    board::TASK_ATTEMPTS.rows,
    board::TASK_EVENTS.rows,
    board::TASK_HOOKS.rows,
    TransferTable {
        name: "workflows",
        columns: &[
            ("version", Bytes),
            ("name", Text),
            ("body", Bytes),
            ("deployed_at", Int),
        ],
        key: 1,
    },
    TransferTable {
        name: "runs",
        columns: &[
            ("run_id", Id),
            ("workflow", Text),
            ("version", Bytes),
            ("key", Text),
            ("status", Text),
            ("queue", Text),
            ("priority", Short),
            ("realm", Text),
            ("law", Int),
            ("weight", Int),
            ("tags", Json),
            ("parent_run", Id),
            ("parent_execution", Text),
            ("created_at", Int),
            ("started_at", Int),
            ("finished_at", Int),
            ("epoch", Int),
            ("head", Int),
            ("mail", Int),
            ("result", Bytes),
            ("error", Bytes),
        ],
        key: 1,
    },
    TransferTable {
        name: "journal",
        columns: &[
            ("run_id", Id),
            ("seq", Int),
            ("at", Int),
            ("event", Text),
            ("body", Bytes),
        ],
        key: 2,
    },
    TransferTable {
        name: "snapshots",
        columns: &[("run_id", Id), ("seq", Int), ("law", Int), ("body", Bytes)],
        key: 1,
    },
    TransferTable {
        name: "blobs",
        columns: &[("run_id", Id), ("digest", Bytes), ("bytes", Bytes)],
        key: 2,
    },
    TransferTable {
        name: "mail",
        columns: &[
            ("run_id", Id),
            ("number", Int),
            ("id", Text),
            ("kind", Text),
            ("body", Bytes),
            ("at", Int),
            ("taken", Short),
        ],
        key: 2,
    },
    TransferTable {
        name: "table_rows",
        columns: &[("tbl", Short), ("key", Bytes), ("value", Bytes)],
        key: 2,
    },
    TransferTable {
        name: "table_scopes",
        columns: &[("tbl", Short), ("scope", Bytes), ("version", Int)],
        key: 2,
    },
    TransferTable {
        name: "table_sequences",
        columns: &[("name", Bytes), ("next", Int)],
        key: 1,
    },
    TransferTable {
        name: "schedules",
        columns: &[
            ("name", Text),
            ("revision", Id),
            ("due", Int),
            ("last_run", Id),
            ("waits", Short),
            ("body", Bytes),
        ],
        key: 1,
    },
    TransferTable {
        name: "queue",
        columns: &[
            ("run_id", Id),
            ("queue", Text),
            ("realm", Text),
            ("priority", Short),
            ("due", Int),
            ("owner", Id),
            ("epoch", Int),
            ("head", Int),
            ("mail", Int),
            ("taken", Int),
            ("law", Int),
            ("weight", Int),
            ("status", Text),
            ("parked", Text),
            ("created_at", Int),
            ("started_at", Int),
        ],
        key: 1,
    },
];

/// The door through which a store is moved as a whole.
#[async_trait]
pub trait Transfer: Send + Sync {
    /// Rows behind a key, in the order of keys, at most `limit`.
    async fn rows(
        &self,
        table: TransferTable,
        after: Option<Vec<TransferValue>>,
        limit: usize,
    ) -> StoreResult<Vec<TransferRow>>;

    /// The key of the last row, if there is one.
    async fn last(&self, table: TransferTable) -> StoreResult<Option<Vec<TransferValue>>>;

    /// Put rows there, durably, all or none; those whose key is there stay as they are.
    async fn fill(&self, table: TransferTable, rows: Vec<TransferRow>) -> StoreResult<()>;

    /// Everything was filled in: make what is derived from it. Repeating it changes nothing.
    async fn settle(&self) -> StoreResult<()>;

    /// A note that the store keeps about itself.
    async fn note(&self, name: &str) -> StoreResult<Option<String>>;

    /// Keep a note, or drop it.
    async fn set_note(&self, name: &str, text: Option<String>) -> StoreResult<()>;
}
