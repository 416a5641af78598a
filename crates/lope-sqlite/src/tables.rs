//! The door *Tables*: batches of guards and writes over rows of one table, all of it in the
//! writer's transaction.
//!
//! A batch's guards are looked at before its writes. A `Create` that meets a key takes back what
//! the batch wrote before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use lope_model::limit;
use lope_store::StoreError;
use lope_store::tables::{
    Append, Applied, At, Batch, BatchReply, Direction, Manifest, Range, Row, ScopeRule, TableId,
    TableSpec, Write,
};
use lope_store::verdict::{self, RowFacts, TableFacts};
use rusqlite::{OptionalExtension, params};

use crate::failure::{SqliteFault, Worked};
use crate::tx::Tx;

const MANIFEST: &str = "SELECT idx, name, scope FROM table_manifest ORDER BY idx";
const ADD_TABLE: &str = "INSERT INTO table_manifest (idx, name, scope) VALUES (?1, ?2, ?3)";
const VALUE: &str = "SELECT value FROM table_rows WHERE tbl = ?1 AND key = ?2";
const THERE: &str = "SELECT 1 FROM table_rows WHERE tbl = ?1 AND key = ?2";
const PUT: &str = "INSERT INTO table_rows (tbl, key, value) VALUES (?1, ?2, ?3)
     ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value";
const CREATE: &str =
    "INSERT INTO table_rows (tbl, key, value) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
const DELETE: &str = "DELETE FROM table_rows WHERE tbl = ?1 AND key = ?2";
const COUNT: &str =
    "SELECT count(*) FROM (SELECT 1 FROM table_rows WHERE tbl = ?1 AND key >= ?2 LIMIT ?3)";
const COUNT_TO: &str = "SELECT count(*) FROM (SELECT 1 FROM table_rows WHERE tbl = ?1 AND key >= ?2 AND key < ?4 LIMIT ?3)";
const FORWARD: &str =
    "SELECT key, value FROM table_rows WHERE tbl = ?1 AND key >= ?2 ORDER BY key LIMIT ?3";
const FORWARD_TO: &str = "SELECT key, value FROM table_rows WHERE tbl = ?1 AND key >= ?2 AND key < ?4 ORDER BY key LIMIT ?3";
const BACKWARD: &str =
    "SELECT key, value FROM table_rows WHERE tbl = ?1 AND key >= ?2 ORDER BY key DESC LIMIT ?3";
const BACKWARD_TO: &str = "SELECT key, value FROM table_rows WHERE tbl = ?1 AND key >= ?2 AND key < ?4 ORDER BY key DESC LIMIT ?3";
/// The index holds what `TIMER_WORKER` names.
pub(crate) const TIMERS_FORWARD: &str =
    "SELECT key, value FROM table_rows INDEXED BY table_rows_timers
     WHERE tbl = 4 AND substr(value, 17, 8) = ?1 AND key >= ?2 AND (?4 IS NULL OR key < ?4) ORDER BY key LIMIT ?3";
pub(crate) const TIMERS_BACKWARD: &str =
    "SELECT key, value FROM table_rows INDEXED BY table_rows_timers
     WHERE tbl = 4 AND substr(value, 17, 8) = ?1 AND key >= ?2 AND (?4 IS NULL OR key < ?4) ORDER BY key DESC LIMIT ?3";
const NEXT: &str = "INSERT INTO table_sequences (name, next) VALUES (?1, 2)
     ON CONFLICT (name) DO UPDATE SET next = next + 1 RETURNING next - 1";
const SCOPE: &str = "SELECT version FROM table_scopes WHERE tbl = ?1 AND scope = ?2";
const TOUCH: &str = "INSERT INTO table_scopes (tbl, scope, version) VALUES (?1, ?2, 1)
     ON CONFLICT (tbl, scope) DO UPDATE SET version = version + 1";

/// About how many rows a batch writes.
pub(crate) fn rows(batch: &Batch) -> usize {
    1 + batch.guards.len() + batch.writes.len()
}

pub(crate) fn open(tx: &Tx<'_>, wanted: &Manifest) -> Worked<()> {
    let stored = read_manifest(tx)?;
    for spec in stored.missing_from(wanted)? {
        tx.statement(ADD_TABLE)?.execute(params![
            spec.index,
            spec.name,
            spec.scope.map(scope_text)
        ])?;
    }
    Ok(())
}

/// The manifest in the file.
pub(crate) fn read_manifest(tx: &Tx<'_>) -> Worked<Manifest> {
    let mut statement = tx.statement(MANIFEST)?;
    let mut rows = statement.query([])?;
    let mut specs = Vec::new();
    while let Some(row) = rows.next()? {
        let scope: Option<String> = row.get(2)?;
        let scope = scope.map(|text| parse_scope(&text)).transpose()?;
        specs.push(TableSpec {
            index: row.get(0)?,
            name: row.get(1)?,
            scope,
        });
    }
    Ok(Manifest::new(specs).map_err(StoreError::corrupt)?)
}

fn scope_text(scope: ScopeRule) -> String {
    match scope {
        ScopeRule::Table => "table".to_owned(),
        ScopeRule::Prefix(length) => format!("prefix:{length}"),
    }
}

fn parse_scope(text: &str) -> Worked<ScopeRule> {
    let prefix = text
        .strip_prefix("prefix:")
        .and_then(|length| length.parse().ok())
        .map(ScopeRule::Prefix);
    let scope = prefix.or((text == "table").then_some(ScopeRule::Table));
    Ok(scope.ok_or_else(|| StoreError::corrupt(format!("'{text}' is no scope of a table")))?)
}

/// A manifest that has all these tables: the one we know, or the one in the file if another process
/// has added to it.
fn manifest_with(tx: &Tx<'_>, mut tables: impl Iterator<Item = TableId>) -> Worked<Arc<Manifest>> {
    let known = tx
        .inner
        .manifest
        .read()
        .expect("nobody panics while holding the manifest")
        .clone();
    if let Some(known) = known
        && tables.all(|table| usize::from(table.0) < known.specs().len())
    {
        return Ok(known);
    }
    let stored = Arc::new(read_manifest(tx)?);
    *tx.inner
        .manifest
        .write()
        .expect("nobody panics while holding the manifest") = Some(Arc::clone(&stored));
    Ok(stored)
}

pub(crate) fn get(tx: &Tx<'_>, keys: &[At]) -> Worked<Vec<Option<Vec<u8>>>> {
    let manifest = manifest_with(tx, keys.iter().map(|at| at.table))?;
    keys.iter()
        .try_for_each(|at| manifest.table(at.table).map(|_| ()))?;
    keys.iter().map(|at| value(tx, at)).collect()
}

fn value(tx: &Tx<'_>, at: &At) -> Worked<Option<Vec<u8>>> {
    Ok(tx
        .statement(VALUE)?
        .query_row(params![at.table.0, at.key], |row| row.get(0))
        .optional()?)
}

pub(crate) fn range(tx: &Tx<'_>, range: &Range) -> Worked<Vec<Row>> {
    manifest_with(tx, std::iter::once(range.table))?.table(range.table)?;
    let limit = range.limit.min(limit::PAGE_MAX) as i64;
    let sql = match (range.direction, &range.to) {
        (Direction::Forward, None) => FORWARD,
        (Direction::Forward, Some(_)) => FORWARD_TO,
        (Direction::Backward, None) => BACKWARD,
        (Direction::Backward, Some(_)) => BACKWARD_TO,
    };
    let mut statement = tx.statement(sql)?;
    let mut rows = match &range.to {
        None => statement.query(params![range.table.0, range.from, limit])?,
        Some(to) => statement.query(params![range.table.0, range.from, limit, to])?,
    };
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Row {
            key: row.get(0)?,
            value: row.get(1)?,
        });
    }
    Ok(found)
}

pub(crate) fn timers_of(tx: &Tx<'_>, worker: &[u8], range: &Range) -> Worked<Vec<Row>> {
    let limit = range.limit.min(limit::PAGE_MAX) as i64;
    let mut statement = tx.statement(match range.direction {
        Direction::Forward => TIMERS_FORWARD,
        Direction::Backward => TIMERS_BACKWARD,
    })?;
    let mut rows = statement.query(params![worker, range.from, limit, range.to])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Row {
            key: row.get(0)?,
            value: row.get(1)?,
        });
    }
    Ok(found)
}

pub(crate) fn count(tx: &Tx<'_>, range: &Range) -> Worked<u64> {
    manifest_with(tx, std::iter::once(range.table))?.table(range.table)?;
    let table = range.table.0;
    let limit = i64::try_from(range.limit).unwrap_or(i64::MAX);
    let rows: i64 = match &range.to {
        None => tx
            .statement(COUNT)?
            .query_row(params![table, range.from, limit], |row| row.get(0))?,
        Some(to) => tx
            .statement(COUNT_TO)?
            .query_row(params![table, range.from, limit, to], |row| row.get(0))?,
    };
    Ok(rows.cast_unsigned())
}

pub(crate) fn scope_version(tx: &Tx<'_>, scope: &At) -> Worked<u64> {
    let manifest = manifest_with(tx, std::iter::once(scope.table))?;
    let spec = manifest.table(scope.table)?;
    let undeclared = || StoreError::refused(format!("table '{}' declares no scope", spec.name));
    let scope = manifest.scope_of(scope).ok_or_else(undeclared)?;
    version_of(tx, &scope)
}

fn version_of(tx: &Tx<'_>, scope: &At) -> Worked<u64> {
    let version: Option<i64> = tx
        .statement(SCOPE)?
        .query_row(params![scope.table.0, scope.key], |row| row.get(0))
        .optional()?;
    Ok(version.unwrap_or(0).cast_unsigned())
}

pub(crate) fn commit(tx: &Tx<'_>, batches: &[Batch]) -> Worked<Vec<BatchReply>> {
    let guarded = batches
        .iter()
        .flat_map(|batch| batch.guards.iter().map(|guard| guard.at().table));
    let written = batches
        .iter()
        .flat_map(|batch| batch.writes.iter().map(Write::table));
    let manifest = manifest_with(tx, guarded.chain(written))?;
    batches
        .iter()
        .try_for_each(|batch| batch.validate(&manifest))?;
    batches
        .iter()
        .map(|batch| apply(tx, &manifest, batch))
        .collect()
}

fn apply(tx: &Tx<'_>, manifest: &Manifest, batch: &Batch) -> Worked<BatchReply> {
    if let Err(conflict) = verdict::guards(batch, manifest, &mut StoredRows(tx))? {
        return Ok(Err(conflict));
    }
    let may_be_taken_back = batch
        .writes
        .iter()
        .skip(1)
        .any(|write| matches!(write, Write::Create(..)));
    let reply = if may_be_taken_back {
        write_or_take_back(tx, manifest, batch)?
    } else {
        write_all(tx, manifest, batch)?
    };
    if reply.is_ok() {
        tx.wrote_tables();
    }
    Ok(reply)
}

/// What is in the file, asked for by guards.
struct StoredRows<'a>(&'a Tx<'a>);

impl TableFacts for StoredRows<'_> {
    type Fault = SqliteFault;

    fn is_there(&mut self, at: &At) -> Worked<bool> {
        is_there(self.0, at)
    }

    fn row(&mut self, at: &At) -> Worked<RowFacts<'_>> {
        let value = value(self.0, at)?;
        Ok(value.map_or(RowFacts::Absent, |value| RowFacts::Value(value.into())))
    }

    fn scope_version(&mut self, scope: &At) -> Worked<u64> {
        version_of(self.0, scope)
    }
}

fn is_there(tx: &Tx<'_>, at: &At) -> Worked<bool> {
    Ok(tx.statement(THERE)?.exists(params![at.table.0, at.key])?)
}

fn write_or_take_back(tx: &Tx<'_>, manifest: &Manifest, batch: &Batch) -> Worked<BatchReply> {
    tx.statement("SAVEPOINT batch")?.execute([])?;
    let reply = write_all(tx, manifest, batch)?;
    if reply.is_err() {
        tx.statement("ROLLBACK TO batch")?.execute([])?;
    }
    tx.statement("RELEASE batch")?.execute([])?;
    Ok(reply)
}

fn write_all(tx: &Tx<'_>, manifest: &Manifest, batch: &Batch) -> Worked<BatchReply> {
    let mut applied = Applied::default();
    let mut touched: BTreeSet<At> = BTreeSet::new();
    for (index, write) in batch.writes.iter().enumerate() {
        match write {
            Write::Put(at, value) => {
                tx.statement(PUT)?
                    .execute(params![at.table.0, at.key, value])?;
            }
            Write::Create(at, value) => {
                let made = tx
                    .statement(CREATE)?
                    .execute(params![at.table.0, at.key, value])?;
                if let Err(conflict) = verdict::create(batch, index, at, made == 0) {
                    return Ok(Err(conflict));
                }
            }
            Write::Delete(at) => {
                tx.statement(DELETE)?.execute(params![at.table.0, at.key])?;
            }
            Write::Append {
                table,
                prefix,
                sequence,
                value,
            } => {
                let (number, at) = append(tx, At::new(*table, prefix.as_slice()), sequence, value)?;
                applied.appended.push(number);
                touched.extend(manifest.scope_of(&at));
            }
        }
        touched.extend(write.at().and_then(|at| manifest.scope_of(at)));
    }
    for scope in touched {
        tx.statement(TOUCH)?
            .execute(params![scope.table.0, scope.key])?;
    }
    Ok(Ok(applied))
}

/// A message of a run's commit.
pub(crate) fn send(tx: &Tx<'_>, send: &Append) -> Worked<()> {
    append(
        tx,
        At::new(send.table, send.prefix.as_slice()),
        &send.sequence,
        &send.value,
    )?;
    tx.wrote_tables();
    Ok(())
}

/// The next number of the sequence whose key is not there.
fn append(tx: &Tx<'_>, prefix: At, sequence: &[u8], value: &[u8]) -> Worked<(u64, At)> {
    let mut next = tx.statement(NEXT)?;
    loop {
        let number: i64 = next.query_row([sequence], |row| row.get(0))?;
        let number = number.cast_unsigned();
        let at = At::new(
            prefix.table,
            [prefix.key.as_slice(), &number.to_be_bytes()].concat(),
        );
        if tx
            .statement(CREATE)?
            .execute(params![at.table.0, at.key, value])?
            > 0
        {
            return Ok((number, at));
        }
    }
}
