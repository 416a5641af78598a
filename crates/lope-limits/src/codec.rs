//! Rows as bytes: a format number, then the row as `MessagePack`, then whatever the row carries.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The format of rows that this program writes and reads.
const FORMAT: u8 = 1;

/// A row that was damaged, or written by a newer program.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("its row cannot be read: {0}")]
pub(crate) struct UnreadableRow(String);

impl UnreadableRow {
    pub(crate) fn new(why: impl ToString) -> Self {
        Self(why.to_string())
    }
}

pub(crate) fn encode(row: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    rmp_serde::encode::write(&mut bytes, row).expect("rows are plain and memory takes them");
    bytes
}

/// The row, and the bytes behind it.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), UnreadableRow> {
    match bytes.split_first() {
        Some((&FORMAT, mut rest)) => rmp_serde::from_read(&mut rest)
            .map(|row| (row, rest))
            .map_err(UnreadableRow::new),
        Some((format, _)) => Err(UnreadableRow::new(format!("format {format}"))),
        None => Err(UnreadableRow::new("it is empty")),
    }
}
