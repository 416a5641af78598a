//! `admit`: a run's record, first journal rows and queue row are written together.

use std::collections::BTreeMap;

use lope_model::{Digest, RunId, RunnerId, VersionId};
use lope_store::StoreError;
use lope_store::runs::{Admit, Admitted, Blob, JournalRow, LiveStatus, Snapshot};
use lope_store::verdict::{self, AdmitFacts, Birth};
use rusqlite::{OptionalExtension, Params, params};

use crate::columns;
use crate::failure::Worked;
use crate::session;
use crate::tx::Tx;

const EXISTING: &str = "SELECT run_id, workflow FROM runs WHERE run_id = ?1";
const EXISTING_KEY: &str = "SELECT run_id, workflow FROM runs WHERE key = ?1";
const KNOWN_VERSION: &str = "SELECT 1 FROM workflows WHERE version = ?1";
const INSERT_RUN: &str =
    "INSERT INTO runs (run_id, workflow, version, key, status, queue, priority, realm, law, weight, tags,
     parent_run, parent_execution, created_at, epoch, head, mail)
     VALUES (?1, ?2, ?3, ?4, 'live', ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0, 0, 0)";
const INSERT_QUEUED: &str =
    "INSERT INTO queue (run_id, queue, realm, priority, due, owner, epoch, head, mail, taken, law, weight,
     status, created_at, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, ?9, ?10, ?11, ?12, ?13)";
const INSERT_TAG: &str =
    "INSERT INTO run_tags (tag, value, created_at, run_id) VALUES (?1, ?2, ?3, ?4)";
const INSERT_ROW: &str =
    "INSERT INTO journal (run_id, seq, at, event, body) VALUES (?1, ?2, ?3, ?4, ?5)";
const INSERT_BLOB: &str =
    "INSERT INTO blobs (run_id, digest, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
const PUT_SNAPSHOT: &str =
    "INSERT OR REPLACE INTO snapshots (run_id, seq, law, body) VALUES (?1, ?2, ?3, ?4)";

/// About how many rows an admission writes.
pub(crate) fn rows(admit: &Admit) -> usize {
    2 + admit.rows.len() + admit.blobs.len() + admit.tags.len()
}

pub(crate) fn admit(tx: &Tx<'_>, admits: &[Admit]) -> Worked<Vec<Admitted>> {
    admits.iter().map(|admit| one(tx, admit)).collect()
}

/// Whatever stands against the admission is found before anything is written.
pub(crate) fn one(tx: &Tx<'_>, admit: &Admit) -> Worked<Admitted> {
    let session_held = match admit.claimed_by {
        Some(runner) => session::is_held(tx, runner)?,
        None => false,
    };
    let facts = AdmitFacts {
        existing: existing(tx, admit)?,
        version_known: is_deployed(tx, admit.version)?,
        session_held,
    };
    let birth = match verdict::admit(admit, facts, tx.now) {
        Ok(birth) => birth,
        Err(refusal) => return Ok(refusal),
    };
    insert(tx, admit, &birth)?;
    if birth.owner.is_none() {
        tx.made_work();
    }
    Ok(Admitted::created(birth.owner.is_some()))
}

/// The run that is there already under this id or key, and its workflow.
pub(crate) fn existing(tx: &Tx<'_>, admit: &Admit) -> Worked<Option<(RunId, String)>> {
    let found = named_run(tx, EXISTING, [admit.run.as_bytes()])?;
    match &admit.key {
        Some(key) if found.is_none() => named_run(tx, EXISTING_KEY, [key]),
        Some(_) | None => Ok(found),
    }
}

pub(crate) fn find_key(tx: &Tx<'_>, key: &str) -> Worked<Option<RunId>> {
    let found: Option<[u8; 16]> = tx
        .statement(EXISTING_KEY)?
        .query_row([key], |row| row.get(0))
        .optional()?;
    Ok(found.map(RunId::from_bytes))
}

fn named_run(tx: &Tx<'_>, sql: &str, given: impl Params) -> Worked<Option<(RunId, String)>> {
    let mut statement = tx.statement(sql)?;
    let mut rows = statement.query(given)?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let run = columns::run(row, 0)?;
    let workflow = columns::text(row, 1).map_err(|fault| {
        let fault = columns::naming_column(row, fault);
        StoreError::from(fault).in_run(run)
    });
    Ok(Some((run, workflow?.to_owned())))
}

pub(crate) fn is_deployed(tx: &Tx<'_>, version: VersionId) -> Worked<bool> {
    Ok(tx
        .statement(KNOWN_VERSION)?
        .exists([version.0.as_bytes()])?)
}

fn insert(tx: &Tx<'_>, admit: &Admit, birth: &Birth) -> Worked<()> {
    insert_run(tx, admit)?;
    insert_queued(tx, admit, birth)?;
    for (tag, value) in &admit.tags {
        tx.statement(INSERT_TAG)?.execute(params![
            tag,
            value,
            tx.now.millis(),
            admit.run.as_bytes()
        ])?;
    }
    append(tx, admit.run, &admit.rows)?;
    keep_blobs(tx, admit.run, &admit.blobs)?;
    admit
        .snapshot
        .iter()
        .try_for_each(|snapshot| put_snapshot(tx, admit.run, snapshot))
}

fn insert_run(tx: &Tx<'_>, admit: &Admit) -> Worked<()> {
    tx.statement(INSERT_RUN)?.execute(params![
        admit.run.as_bytes(),
        admit.workflow,
        admit.version.0.as_bytes(),
        admit.key,
        admit.queue.as_str(),
        admit.priority.level(),
        admit.realm.as_str(),
        admit.law,
        admit.weight,
        tags_text(&admit.tags)?,
        admit.parent.as_ref().map(|parent| parent.run.as_bytes()),
        admit.parent.as_ref().map(|parent| &parent.execution),
        tx.now.millis(),
    ])?;
    Ok(())
}

fn insert_queued(tx: &Tx<'_>, admit: &Admit, birth: &Birth) -> Worked<()> {
    tx.statement(INSERT_QUEUED)?.execute(params![
        admit.run.as_bytes(),
        admit.queue.as_str(),
        admit.realm.as_str(),
        admit.priority.level(),
        birth.due.millis(),
        birth.owner.as_ref().map(RunnerId::as_bytes),
        birth.epoch.0.cast_signed(),
        birth.head.cast_signed(),
        admit.law,
        admit.weight,
        LiveStatus::Queued.as_str(),
        tx.now.millis(),
        birth.owner.map(|_| tx.now.millis()),
    ])?;
    Ok(())
}

fn tags_text(tags: &BTreeMap<String, String>) -> Worked<std::borrow::Cow<'static, str>> {
    if tags.is_empty() {
        return Ok("{}".into());
    }
    Ok(serde_json::to_string(tags)
        .map_err(StoreError::corrupt)?
        .into())
}

/// Journal rows behind the head; that they follow it was checked before.
pub(crate) fn append(tx: &Tx<'_>, run: RunId, rows: &[JournalRow]) -> Worked<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut insert = tx.statement(INSERT_ROW)?;
    for row in rows {
        insert.execute(params![
            run.as_bytes(),
            row.seq.cast_signed(),
            row.at.millis(),
            &*row.event,
            row.body
        ])?;
    }
    Ok(())
}

pub(crate) fn keep_blobs(tx: &Tx<'_>, run: RunId, blobs: &[Blob]) -> Worked<()> {
    for blob in blobs {
        tx.statement(INSERT_BLOB)?.execute(params![
            run.as_bytes(),
            Digest::as_bytes(&blob.digest),
            blob.bytes
        ])?;
    }
    Ok(())
}

pub(crate) fn put_snapshot(tx: &Tx<'_>, run: RunId, snapshot: &Snapshot) -> Worked<()> {
    let mut put = tx.statement(PUT_SNAPSHOT)?;
    put.execute(params![
        run.as_bytes(),
        snapshot.seq.cast_signed(),
        snapshot.law,
        snapshot.body
    ])?;
    Ok(())
}
