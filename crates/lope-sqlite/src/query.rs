//! Queries about one run: its record, what is needed to go on with it, its journal, its large
//! values, its mail.

use std::collections::BTreeMap;

use lope_model::{Digest, RunId, limit};
use lope_store::StoreError;
use lope_store::runs::{
    FinalStatus, JournalRow, Loaded, Mail, Parent, ResultHead, RunRecord, RunStatus, Snapshot,
};
use rusqlite::{OptionalExtension, Row, params};

use crate::columns;
use crate::failure::{SqliteFault, Worked};
use crate::tx::Tx;

/// A run's record with its result; what its queue row says while it has one.
const RECORD: &str = "SELECT r.run_id, r.workflow, r.version, r.key, r.status, q.status, r.queue, r.priority, r.realm,
       coalesce(q.law, r.law), r.tags, r.parent_run, r.parent_execution, r.created_at, r.finished_at, q.due, q.owner,
       coalesce(q.epoch, r.epoch), coalesce(q.head, r.head), coalesce(q.mail, r.mail), q.parked, r.result, r.error, q.taken,
       coalesce(q.started_at, r.started_at)
     FROM runs AS r LEFT JOIN queue AS q ON q.run_id = r.run_id WHERE r.run_id = ?1";
/// The same without the result, and without an error that is too long for a list.
const LISTED: &str = "SELECT r.run_id, r.workflow, r.version, r.key, r.status, q.status, r.queue, r.priority, r.realm,
       coalesce(q.law, r.law), r.tags, r.parent_run, r.parent_execution, r.created_at, r.finished_at, q.due, q.owner,
       coalesce(q.epoch, r.epoch), coalesce(q.head, r.head), coalesce(q.mail, r.mail), q.parked, NULL,
       CASE WHEN length(r.error) <= 8192 THEN r.error END, q.taken,
       coalesce(q.started_at, r.started_at)
     FROM runs AS r LEFT JOIN queue AS q ON q.run_id = r.run_id WHERE r.run_id = ?1";
/// Every run in the queue as a claim reads it.
const QUEUED: &str = "SELECT q.run_id, q.epoch, r.version, q.queue, q.priority, q.realm, q.law, q.weight, q.mail, q.due, q.head,
     q.taken FROM queue AS q JOIN runs AS r ON r.run_id = q.run_id";
const RESULT: &str = "SELECT substr(result, 1, ?2), length(result) FROM runs WHERE run_id = ?1 AND result IS NOT NULL";
const SNAPSHOT: &str = "SELECT seq, law, body FROM snapshots WHERE run_id = ?1";
const JOURNAL: &str =
    "SELECT seq, at, event, body FROM journal WHERE run_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
const MAIL: &str = "SELECT number, id, kind, body, at FROM mail INDEXED BY mail_waiting
     WHERE run_id = ?1 AND taken = 0 ORDER BY number";
const BLOB: &str = "SELECT bytes FROM blobs WHERE run_id = ?1 AND digest = ?2";

pub(crate) fn run(tx: &Tx<'_>, run: RunId) -> Worked<Option<RunRecord>> {
    find(tx, RECORD, run).map(|found| found.map(|(record, _)| record))
}

/// A run's record without its result.
pub(crate) fn listed(tx: &Tx<'_>, run: RunId) -> Worked<Option<RunRecord>> {
    find(tx, LISTED, run).map(|found| found.map(|(record, _)| record))
}

/// The beginning of a run's result. What is behind it is not copied.
pub(crate) fn result(tx: &Tx<'_>, run: RunId, most: usize) -> Worked<Option<ResultHead>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut statement = tx.statement(RESULT)?;
    let mut rows = statement.query(params![run.as_bytes(), most])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(ResultHead {
        bytes: row.get(0)?,
        total: columns::count(row, 1)?,
    }))
}

pub(crate) fn load(tx: &Tx<'_>, runs: &[RunId]) -> Worked<Vec<Option<Loaded>>> {
    runs.iter().map(|run| load_one(tx, *run)).collect()
}

fn load_one(tx: &Tx<'_>, run: RunId) -> Worked<Option<Loaded>> {
    let Some((record, waiting)) = find(tx, RECORD, run)? else {
        return Ok(None);
    };
    let snapshot = snapshot(tx, run)?;
    let behind = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
    let rows = if behind < record.head {
        // No more than there are: what stands behind the last one may be a page that cannot be read.
        let count = i64::try_from(record.head - behind).unwrap_or(i64::MAX);
        rows_after(tx, run, behind, count)?
    } else {
        Vec::new()
    };
    let mail = if waiting > 0 {
        waiting_mail(tx, run)?
    } else {
        Vec::new()
    };
    Ok(Some(Loaded {
        record,
        snapshot,
        rows,
        mail,
    }))
}

fn snapshot(tx: &Tx<'_>, run: RunId) -> Worked<Option<Snapshot>> {
    let mut statement = tx.statement(SNAPSHOT)?;
    let mut rows = statement.query([run.as_bytes()])?;
    rows.next()?.map(columns::snapshot).transpose()
}

pub(crate) fn journal(
    tx: &Tx<'_>,
    run: RunId,
    after: u64,
    limit: usize,
) -> Worked<Vec<JournalRow>> {
    rows_after(tx, run, after, limit.min(limit::PAGE_MAX) as i64)
}

fn rows_after(tx: &Tx<'_>, run: RunId, after: u64, limit: i64) -> Worked<Vec<JournalRow>> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut statement = tx.statement(JOURNAL)?;
    let mut rows = statement.query(params![run.as_bytes(), after, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(columns::journal_row(row)?);
    }
    Ok(found)
}

pub(crate) fn waiting_mail(tx: &Tx<'_>, run: RunId) -> Worked<Vec<Mail>> {
    let mut statement = tx.statement(MAIL)?;
    let mut rows = statement.query([run.as_bytes()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(columns::mail(row)?);
    }
    Ok(found)
}

pub(crate) fn blobs(tx: &Tx<'_>, run: RunId, digests: &[Digest]) -> Worked<Vec<Option<Vec<u8>>>> {
    let mut statement = tx.statement(BLOB)?;
    let mut found = Vec::with_capacity(digests.len());
    for digest in digests {
        found.push(
            statement
                .query_row(params![run.as_bytes(), digest.as_bytes()], |row| row.get(0))
                .optional()?,
        );
    }
    Ok(found)
}

/// The record, and how much mail waits for the run.
fn find(tx: &Tx<'_>, sql: &str, run: RunId) -> Worked<Option<(RunRecord, u64)>> {
    let mut statement = tx.statement(sql)?;
    let mut rows = statement.query([run.as_bytes()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let record = record(row)?;
    let taken: Option<i64> = row.get(23)?;
    let waiting = taken.map_or(0, |taken| record.mail.saturating_sub(taken.cast_unsigned()));
    Ok(Some((record, waiting)))
}

/// Runs of which something cannot be read that a runner or a list reads, and why.
pub(crate) fn unreadable(tx: &Tx<'_>) -> Worked<BTreeMap<String, StoreError>> {
    let every = LISTED.trim_end_matches(" WHERE r.run_id = ?1");
    let mut unreadable = BTreeMap::new();
    let mut statement = tx.db.prepare(every)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        unreadable.extend(fault_of(row, record(row).err())?);
    }
    let mut statement = tx.db.prepare(QUEUED)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let fault = columns::claimed_run(row).err();
        let fault = fault.map(|fault| columns::naming_column(row, fault));
        unreadable.extend(fault_of(row, fault)?);
    }
    Ok(unreadable)
}

fn fault_of(row: &Row<'_>, fault: Option<SqliteFault>) -> Worked<Option<(String, StoreError)>> {
    let run = columns::written(columns::text_bytes(row, 0)?);
    Ok(fault.map(|fault| (run, fault.into())))
}

fn record(row: &Row<'_>) -> Worked<RunRecord> {
    read_record(row).map_err(|fault| columns::naming_column(row, fault))
}

fn read_record(row: &Row<'_>) -> Worked<RunRecord> {
    let owner = columns::owner(row, 16)?;
    let tags = serde_json::from_str(columns::text(row, 10)?);
    Ok(RunRecord {
        run: columns::run(row, 0)?,
        workflow: row.get(1)?,
        version: columns::version(row, 2)?,
        key: row.get(3)?,
        status: status(row, owner.is_some())?,
        queue: columns::queue(row, 6)?,
        priority: columns::priority(row, 7)?,
        realm: columns::realm(row, 8)?,
        law: row.get(9)?,
        tags: tags
            .map_err(|error| StoreError::corrupt(format!("its tags cannot be read: {error}")))?,
        parent: parent(row)?,
        created_at: columns::time(row, 13)?,
        started_at: columns::maybe_time(row, 24)?,
        finished_at: columns::maybe_time(row, 14)?,
        due: columns::maybe_time(row, 15)?,
        owner,
        epoch: columns::epoch(row, 17)?,
        head: columns::count(row, 18)?,
        mail: columns::count(row, 19)?,
        parked: row.get(20)?,
        result: row.get(21)?,
        error: row.get(22)?,
    })
}

fn status(row: &Row<'_>, owned: bool) -> Worked<RunStatus> {
    let text = columns::text(row, 4)?;
    if text == "live" {
        return Ok(RunStatus::of_live(columns::live_status(row, 5)?, owned));
    }
    let ended = FinalStatus::parse(text).map(RunStatus::Final);
    Ok(ended.ok_or_else(|| StoreError::corrupt(format!("'{text}' is no run's status")))?)
}

fn parent(row: &Row<'_>) -> Worked<Option<Parent>> {
    let run: Option<[u8; 16]> = row.get(11)?;
    let execution: Option<String> = row.get(12)?;
    Ok(run.zip(execution).map(|(run, execution)| Parent {
        run: RunId::from_bytes(run),
        execution,
    }))
}
