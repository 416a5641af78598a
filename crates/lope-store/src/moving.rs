//! Moving a whole store: its tables as rows of cells, in the order of their keys, read from one store and filled into another.
//!
//! Stores that keep their tables under the same names and columns can be moved into one another. Nobody here knows what a row
//! means. Runners are not moved: they belong to processes, not to the work.

use async_trait::async_trait;

use crate::error::StoreResult;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An id of 16 bytes.
    Id,
    Int,
    /// An integer that some stores keep in two bytes.
    Short,
    Text,
    /// An object of texts.
    Json,
    Bytes,
}

/// A value in a row. Ids are bytes, JSON is text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row: a cell for each column of its table.
pub type MovedRow = Vec<Cell>;

/// A table that is moved. Its first columns are its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MovedTable {
    pub name: &'static str,
    pub columns: &'static [(&'static str, Kind)],
    /// How many columns the key has.
    pub key: usize,
}

/// The note of a store that is being filled: as long as it is there, none of its schedules is due.
pub const FILLING: &str = "copy_from";

use Kind::{Bytes, Id, Int, Json, Short, Text};

/// Every table, in the order in which they are filled. The queue comes last: a run that is not in it is claimed by nobody.
pub const TABLES: [MovedTable; 11] = [
    MovedTable {
        name: "workflows",
        columns: &[("version", Bytes), ("name", Text), ("body", Bytes), ("deployed_at", Int)],
        key: 1,
    },
    MovedTable {
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
            ("finished_at", Int),
            ("epoch", Int),
            ("head", Int),
            ("mail", Int),
            ("result", Bytes),
            ("error", Bytes),
        ],
        key: 1,
    },
    MovedTable {
        name: "journal",
        columns: &[("run_id", Id), ("seq", Int), ("at", Int), ("event", Text), ("body", Bytes)],
        key: 2,
    },
    MovedTable { name: "snapshots", columns: &[("run_id", Id), ("seq", Int), ("law", Int), ("body", Bytes)], key: 1 },
    MovedTable { name: "blobs", columns: &[("run_id", Id), ("digest", Bytes), ("bytes", Bytes)], key: 2 },
    MovedTable {
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
    MovedTable { name: "table_rows", columns: &[("tbl", Short), ("key", Bytes), ("value", Bytes)], key: 2 },
    MovedTable { name: "table_scopes", columns: &[("tbl", Short), ("scope", Bytes), ("version", Int)], key: 2 },
    MovedTable { name: "table_sequences", columns: &[("name", Bytes), ("next", Int)], key: 1 },
    MovedTable {
        name: "schedules",
        columns: &[("name", Text), ("revision", Id), ("due", Int), ("last_run", Id), ("waits", Short), ("body", Bytes)],
        key: 1,
    },
    MovedTable {
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
        ],
        key: 1,
    },
];

impl MovedTable {
    /// The place of a column.
    pub fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|(name, _)| *name == column)
    }

    /// The key of a row.
    pub fn key_of<'a>(&self, row: &'a [Cell]) -> &'a [Cell] {
        &row[..self.key]
    }
}

/// The door through which a store is moved as a whole.
#[async_trait]
pub trait Moving: Send + Sync {
    /// Rows behind a key, in the order of keys, at most `limit`.
    async fn rows(&self, table: MovedTable, after: Option<Vec<Cell>>, limit: usize) -> StoreResult<Vec<MovedRow>>;

    /// The key of the last row, if there is one.
    async fn last(&self, table: MovedTable) -> StoreResult<Option<Vec<Cell>>>;

    /// Put rows there, durably, all or none; those whose key is there stay as they are.
    async fn fill(&self, table: MovedTable, rows: Vec<MovedRow>) -> StoreResult<()>;

    /// Everything was filled in: make what is derived from it. Repeating it changes nothing.
    async fn settle(&self) -> StoreResult<()>;

    /// A note that the store keeps about itself.
    async fn note(&self, name: &str) -> StoreResult<Option<String>>;

    /// Keep a note, or drop it.
    async fn set_note(&self, name: &str, text: Option<String>) -> StoreResult<()>;
}
