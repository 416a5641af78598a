//! What `commit` is asked to do, and what it answers.

use super::tables::BoardTable;
use crate::row::{TransferRow, TransferValue};

/// A change of one row, or a condition on one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BoardChange {
    /// A row whose key is not there yet.
    Insert { table: BoardTable, row: TransferRow },
    /// A row over the one of the same key that has this revision.
    Update {
        table: BoardTable,
        row: TransferRow,
        over: i64,
        /// Is it news? A sign of life is none.
        wakes: bool,
    },
    /// No row of this key any more, over the one that has this revision.
    Delete {
        table: BoardTable,
        key: Vec<TransferValue>,
        over: i64,
    },
    /// The row of this key is there, with these values.
    Require {
        table: BoardTable,
        key: Vec<TransferValue>,
        values: Vec<(&'static str, TransferValue)>,
    },
}

/// Which change could not be made, by its place: another revision is there, the key or a unique
/// value is taken, a condition does not hold. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoardConflict {
    pub change: usize,
}

pub type BoardReply = Result<(), BoardConflict>;

impl BoardChange {
    pub const fn table(&self) -> &BoardTable {
        match self {
            Self::Insert { table, .. }
            | Self::Update { table, .. }
            | Self::Delete { table, .. }
            | Self::Require { table, .. } => table,
        }
    }

    /// Is it to wake whoever watches the board?
    pub const fn wakes(&self) -> bool {
        match self {
            Self::Insert { .. } | Self::Delete { .. } => true,
            Self::Update { wakes, .. } => *wakes,
            Self::Require { .. } => false,
        }
    }

    /// The key of the row it is about.
    pub fn key(&self) -> &[TransferValue] {
        match self {
            Self::Insert { table, row } | Self::Update { table, row, .. } => table.rows.key_of(row),
            Self::Delete { key, .. } | Self::Require { key, .. } => key,
        }
    }
}
