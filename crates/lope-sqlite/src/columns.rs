//! How our types stand in columns: ids as 16 bytes, digests as 32, times and counters as integers,
//! names as text.
//!
//! A column that holds something else is damage, and is reported as such.

use std::sync::Arc;

use lope_model::{
    Digest, Epoch, Priority, QueueName, Realm, RunId, RunnerId, Timestamp, VersionId,
};
use lope_store::StoreError;
use lope_store::runs::{ClaimedRun, JournalRow, LiveStatus, Mail, Snapshot};
use rusqlite::types::ValueRef;
use rusqlite::{Error, Row};

use crate::failure::{SqliteFault, Worked};

/// How long an id is.
pub(crate) const ID_BYTES: usize = 16;

pub(crate) fn run(row: &Row<'_>, column: usize) -> Worked<RunId> {
    Ok(RunId::from_bytes(row.get(column)?))
}

pub(crate) fn runner(row: &Row<'_>, column: usize) -> Worked<RunnerId> {
    Ok(RunnerId::from_bytes(row.get(column)?))
}

/// Who owns a run. An owner that cannot be read is nobody.
pub(crate) fn owner(row: &Row<'_>, column: usize) -> Worked<Option<RunnerId>> {
    let owner: Option<Vec<u8>> = row.get(column)?;
    let bytes: Option<[u8; 16]> = owner.and_then(|owner| owner.try_into().ok());
    Ok(bytes.map(RunnerId::from_bytes))
}

/// The bytes of a text, whatever became of them: SQLite keeps any bytes as text.
pub(crate) fn text_bytes<'a>(row: &'a Row<'_>, column: usize) -> Worked<&'a [u8]> {
    let value = row.get_ref(column)?;
    Ok(value.as_bytes().map_err(StoreError::corrupt)?)
}

pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> Worked<&'a str> {
    let text = std::str::from_utf8(text_bytes(row, column)?);
    Ok(text.map_err(|error| Error::Utf8Error(column, error))?)
}

/// A text for people, whatever became of it.
pub(crate) fn text_lossy(row: &Row<'_>, column: usize) -> Worked<String> {
    Ok(String::from_utf8_lossy(text_bytes(row, column)?).into_owned())
}

/// A column that does not hold what it should is named.
pub(crate) fn naming_column(row: &Row<'_>, fault: SqliteFault) -> SqliteFault {
    let column = match &fault {
        SqliteFault::Sqlite(
            Error::FromSqlConversionFailure(column, ..)
            | Error::InvalidColumnType(column, ..)
            | Error::Utf8Error(column, _),
        ) => row.as_ref().column_name(*column).ok(),
        SqliteFault::Sqlite(_) | SqliteFault::Store(_) => None,
    };
    match column {
        Some(column) => StoreError::corrupt(format!("its {column} cannot be read")).into(),
        None => fault,
    }
}

/// An id as it is written everywhere, whatever became of it.
pub(crate) fn written(bytes: &[u8]) -> String {
    match <[u8; 16]>::try_from(bytes) {
        Ok(id) => RunId::from_bytes(id).to_string(),
        Err(_) => hex(bytes),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn version(row: &Row<'_>, column: usize) -> Worked<VersionId> {
    Ok(VersionId(Digest::from_bytes(row.get(column)?)))
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Worked<Timestamp> {
    Ok(Timestamp::from_millis(row.get(column)?))
}

pub(crate) fn maybe_time(row: &Row<'_>, column: usize) -> Worked<Option<Timestamp>> {
    Ok(row
        .get::<_, Option<i64>>(column)?
        .map(Timestamp::from_millis))
}

pub(crate) fn count(row: &Row<'_>, column: usize) -> Worked<u64> {
    let number = row.get::<_, i64>(column)?;
    let negative = |_| StoreError::corrupt(format!("{number} where something is counted"));
    Ok(u64::try_from(number).map_err(negative)?)
}

pub(crate) fn epoch(row: &Row<'_>, column: usize) -> Worked<Epoch> {
    count(row, column).map(Epoch)
}

pub(crate) fn priority(row: &Row<'_>, column: usize) -> Worked<Priority> {
    Ok(Priority::new(row.get(column)?).map_err(StoreError::corrupt)?)
}

pub(crate) fn queue(row: &Row<'_>, column: usize) -> Worked<QueueName> {
    Ok(QueueName::parse(text(row, column)?).map_err(StoreError::corrupt)?)
}

pub(crate) fn realm(row: &Row<'_>, column: usize) -> Worked<Realm> {
    Ok(Realm::parse(text(row, column)?).map_err(StoreError::corrupt)?)
}

pub(crate) fn live_status(row: &Row<'_>, column: usize) -> Worked<LiveStatus> {
    let text = text(row, column)?;
    Ok(LiveStatus::parse(text)
        .ok_or_else(|| StoreError::corrupt(format!("'{text}' is no live run's status")))?)
}

/// `seq, at, event, body`.
pub(crate) fn journal_row(row: &Row<'_>) -> Worked<JournalRow> {
    let event: Arc<str> = text(row, 2)?.into();
    Ok(JournalRow {
        seq: count(row, 0)?,
        at: time(row, 1)?,
        event,
        body: row.get(3)?,
    })
}

/// `seq, law, body`.
pub(crate) fn snapshot(row: &Row<'_>) -> Worked<Snapshot> {
    Ok(Snapshot {
        seq: count(row, 0)?,
        law: row.get(1)?,
        body: row.get(2)?,
    })
}

/// `number, id, kind, body, at`.
pub(crate) fn mail(row: &Row<'_>) -> Worked<Mail> {
    Ok(Mail {
        number: count(row, 0)?,
        id: row.get(1)?,
        kind: row.get(2)?,
        body: row.get(3)?,
        at: time(row, 4)?,
    })
}

/// `run_id, epoch, version, queue, priority, realm, law, weight, mail, due, head, taken`: the last two
/// are there for whoever commits.
pub(crate) fn claimed_run(row: &Row<'_>) -> Worked<ClaimedRun> {
    if row.get_ref(2)? == ValueRef::Null {
        return Err(StoreError::corrupt("it has no record").into());
    }
    for (column, name) in [(1, "epoch"), (8, "mail"), (10, "head"), (11, "taken")] {
        count(row, column)
            .map_err(|_| StoreError::corrupt(format!("its {name} cannot be read")))?;
    }
    Ok(ClaimedRun {
        run: run(row, 0)?,
        epoch: epoch(row, 1)?,
        version: version(row, 2)?,
        queue: queue(row, 3)?,
        priority: priority(row, 4)?,
        realm: realm(row, 5)?,
        law: row.get(6)?,
        weight: row.get(7)?,
        mail: count(row, 8)?,
        due: time(row, 9)?,
    })
}
