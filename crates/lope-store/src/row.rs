//! Rows as values: what columns hold, which columns a table has. Nobody here knows what a row means.

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TransferValue {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row: a value for each column of its table.
pub type TransferRow = Vec<TransferValue>;

/// A table that is moved. Its first columns are its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferTable {
    pub name: &'static str,
    pub columns: &'static [(&'static str, ColumnType)],
    /// How many columns the key has.
    pub key: usize,
}

impl TransferTable {
    /// The place of a column.
    pub fn column_index(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|(name, _)| *name == column)
    }

    /// The key of a row.
    pub fn key_of<'a>(&self, row: &'a [TransferValue]) -> &'a [TransferValue] {
        &row[..self.key]
    }
}
