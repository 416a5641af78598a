//! The door *Tables*: batches of guards and writes over rows of one table, all of it in the writer's transaction.
//!
//! A batch's guards are looked at before its writes. A `Create` that meets a key takes back what the batch wrote before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use lope_model::{Digest, limit};
use lope_store::StoreError;
use lope_store::tables::{
    Append, Applied, At, Batch, BatchReply, Conflict, Direction, Guard, Manifest, Range, Row, Scope, TableId,
    TableSpec, Write,
};
use rusqlite::{OptionalExtension, params};

use crate::desk::Desk;
use crate::failure::Worked;

const MANIFEST: &str = "SELECT idx, name, scope FROM table_manifest ORDER BY idx";
const ADD_TABLE: &str = "INSERT INTO table_manifest (idx, name, scope) VALUES (?1, ?2, ?3)";
const VALUE: &str = "SELECT value FROM table_rows WHERE tbl = ?1 AND key = ?2";
const THERE: &str = "SELECT 1 FROM table_rows WHERE tbl = ?1 AND key = ?2";
const PUT: &str = "INSERT INTO table_rows (tbl, key, value) VALUES (?1, ?2, ?3)
     ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value";
const CREATE: &str = "INSERT INTO table_rows (tbl, key, value) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
const DELETE: &str = "DELETE FROM table_rows WHERE tbl = ?1 AND key = ?2";
const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM table_rows WHERE tbl = ?1 AND key >= ?2 LIMIT ?3)";
const COUNT_TO: &str =
    "SELECT count(*) FROM (SELECT 1 FROM table_rows WHERE tbl = ?1 AND key >= ?2 AND key < ?4 LIMIT ?3)";
const FORWARD: &str = "SELECT key, value FROM table_rows WHERE tbl = ?1 AND key >= ?2 ORDER BY key LIMIT ?3";
const FORWARD_TO: &str =
    "SELECT key, value FROM table_rows WHERE tbl = ?1 AND key >= ?2 AND key < ?4 ORDER BY key LIMIT ?3";
const BACKWARD: &str = "SELECT key, value FROM table_rows WHERE tbl = ?1 AND key >= ?2 ORDER BY key DESC LIMIT ?3";
const BACKWARD_TO: &str =
    "SELECT key, value FROM table_rows WHERE tbl = ?1 AND key >= ?2 AND key < ?4 ORDER BY key DESC LIMIT ?3";
const NEXT: &str = "INSERT INTO table_sequences (name, next) VALUES (?1, 2)
     ON CONFLICT (name) DO UPDATE SET next = next + 1 RETURNING next - 1";
const SCOPE: &str = "SELECT version FROM table_scopes WHERE tbl = ?1 AND scope = ?2";
const TOUCH: &str = "INSERT INTO table_scopes (tbl, scope, version) VALUES (?1, ?2, 1)
     ON CONFLICT (tbl, scope) DO UPDATE SET version = version + 1";

/// About how many rows a batch writes.
pub(crate) fn rows(batch: &Batch) -> usize {
    1 + batch.guards.len() + batch.writes.len()
}

pub(crate) fn open(desk: &Desk<'_>, wanted: &Manifest) -> Worked<()> {
    let stored = read_manifest(desk)?;
    for spec in stored.missing_from(wanted)? {
        desk.statement(ADD_TABLE)?.execute(params![spec.index, spec.name, spec.scope.map(scope_text)])?;
    }
    Ok(())
}

/// The manifest in the file.
pub(crate) fn read_manifest(desk: &Desk<'_>) -> Worked<Manifest> {
    let mut statement = desk.statement(MANIFEST)?;
    let mut rows = statement.query([])?;
    let mut specs = Vec::new();
    while let Some(row) = rows.next()? {
        let scope: Option<String> = row.get(2)?;
        let scope = scope.map(|text| parse_scope(&text)).transpose()?;
        specs.push(TableSpec { index: row.get(0)?, name: row.get(1)?, scope });
    }
    Ok(Manifest::new(specs).map_err(StoreError::corrupt)?)
}

fn scope_text(scope: Scope) -> String {
    match scope {
        Scope::Table => "table".to_owned(),
        Scope::Prefix(length) => format!("prefix:{length}"),
    }
}

fn parse_scope(text: &str) -> Worked<Scope> {
    let prefix = text.strip_prefix("prefix:").and_then(|length| length.parse().ok()).map(Scope::Prefix);
    let scope = prefix.or((text == "table").then_some(Scope::Table));
    Ok(scope.ok_or_else(|| StoreError::corrupt(format!("'{text}' is no scope of a table")))?)
}

/// A manifest that has all these tables: the one we know, or the one in the file if another process has added to it.
fn manifest_with(desk: &Desk<'_>, mut tables: impl Iterator<Item = TableId>) -> Worked<Arc<Manifest>> {
    let known = desk.house.manifest.read().expect("nobody panics while holding the manifest").clone();
    if let Some(known) = known
        && tables.all(|table| usize::from(table.0) < known.specs().len())
    {
        return Ok(known);
    }
    let stored = Arc::new(read_manifest(desk)?);
    *desk.house.manifest.write().expect("nobody panics while holding the manifest") = Some(Arc::clone(&stored));
    Ok(stored)
}

pub(crate) fn get(desk: &Desk<'_>, keys: &[At]) -> Worked<Vec<Option<Vec<u8>>>> {
    let manifest = manifest_with(desk, keys.iter().map(|at| at.table))?;
    keys.iter().try_for_each(|at| manifest.table(at.table).map(|_| ()))?;
    keys.iter().map(|at| value(desk, at)).collect()
}

fn value(desk: &Desk<'_>, at: &At) -> Worked<Option<Vec<u8>>> {
    Ok(desk.statement(VALUE)?.query_row(params![at.table.0, at.key], |row| row.get(0)).optional()?)
}

pub(crate) fn range(desk: &Desk<'_>, range: &Range) -> Worked<Vec<Row>> {
    manifest_with(desk, std::iter::once(range.table))?.table(range.table)?;
    let limit = range.limit.min(limit::PAGE_MAX) as i64;
    let sql = match (range.direction, &range.to) {
        (Direction::Forward, None) => FORWARD,
        (Direction::Forward, Some(_)) => FORWARD_TO,
        (Direction::Backward, None) => BACKWARD,
        (Direction::Backward, Some(_)) => BACKWARD_TO,
    };
    let mut statement = desk.statement(sql)?;
    let mut rows = match &range.to {
        None => statement.query(params![range.table.0, range.from, limit])?,
        Some(to) => statement.query(params![range.table.0, range.from, limit, to])?,
    };
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Row { key: row.get(0)?, value: row.get(1)? });
    }
    Ok(found)
}

pub(crate) fn count(desk: &Desk<'_>, range: &Range) -> Worked<u64> {
    manifest_with(desk, std::iter::once(range.table))?.table(range.table)?;
    let (table, limit) = (range.table.0, i64::try_from(range.limit).unwrap_or(i64::MAX));
    let rows: i64 = match &range.to {
        None => desk.statement(COUNT)?.query_row(params![table, range.from, limit], |row| row.get(0))?,
        Some(to) => desk.statement(COUNT_TO)?.query_row(params![table, range.from, limit, to], |row| row.get(0))?,
    };
    Ok(rows.cast_unsigned())
}

pub(crate) fn scope_version(desk: &Desk<'_>, scope: &At) -> Worked<u64> {
    let manifest = manifest_with(desk, std::iter::once(scope.table))?;
    let spec = manifest.table(scope.table)?;
    let undeclared = || StoreError::refused(format!("table '{}' declares no scope", spec.name));
    let scope = manifest.scope_of(scope).ok_or_else(undeclared)?;
    version_of(desk, &scope)
}

fn version_of(desk: &Desk<'_>, scope: &At) -> Worked<u64> {
    let version: Option<i64> =
        desk.statement(SCOPE)?.query_row(params![scope.table.0, scope.key], |row| row.get(0)).optional()?;
    Ok(version.unwrap_or(0).cast_unsigned())
}

pub(crate) fn commit(desk: &Desk<'_>, batches: &[Batch]) -> Worked<Vec<BatchReply>> {
    let guarded = batches.iter().flat_map(|batch| batch.guards.iter().map(|guard| guard.at().table));
    let written = batches.iter().flat_map(|batch| batch.writes.iter().map(Write::table));
    let manifest = manifest_with(desk, guarded.chain(written))?;
    batches.iter().try_for_each(|batch| batch.check(&manifest))?;
    batches.iter().map(|batch| apply(desk, &manifest, batch)).collect()
}

fn apply(desk: &Desk<'_>, manifest: &Manifest, batch: &Batch) -> Worked<BatchReply> {
    for (index, guard) in batch.guards.iter().enumerate() {
        if !holds(desk, manifest, guard)? {
            return Ok(Err(Conflict { index, at: guard.at().clone() }));
        }
    }
    let may_be_taken_back = batch.writes.iter().skip(1).any(|write| matches!(write, Write::Create(..)));
    let reply =
        if may_be_taken_back { write_or_take_back(desk, manifest, batch)? } else { write_all(desk, manifest, batch)? };
    if reply.is_ok() {
        desk.wrote_tables();
    }
    Ok(reply)
}

fn holds(desk: &Desk<'_>, manifest: &Manifest, guard: &Guard) -> Worked<bool> {
    Ok(match guard {
        Guard::Absent(at) => !is_there(desk, at)?,
        Guard::Equals(at, wanted) => value(desk, at)?.as_ref() == Some(wanted),
        Guard::Unchanged(at, digest) => value(desk, at)?.is_some_and(|value| Digest::of(&value) == *digest),
        Guard::ScopeUnchanged(at, version) => match manifest.scope_of(at) {
            Some(scope) => version_of(desk, &scope)? == *version,
            None => *version == 0,
        },
    })
}

fn is_there(desk: &Desk<'_>, at: &At) -> Worked<bool> {
    Ok(desk.statement(THERE)?.exists(params![at.table.0, at.key])?)
}

fn write_or_take_back(desk: &Desk<'_>, manifest: &Manifest, batch: &Batch) -> Worked<BatchReply> {
    desk.statement("SAVEPOINT batch")?.execute([])?;
    let reply = write_all(desk, manifest, batch)?;
    if reply.is_err() {
        desk.statement("ROLLBACK TO batch")?.execute([])?;
    }
    desk.statement("RELEASE batch")?.execute([])?;
    Ok(reply)
}

fn write_all(desk: &Desk<'_>, manifest: &Manifest, batch: &Batch) -> Worked<BatchReply> {
    let mut applied = Applied::default();
    let mut touched: BTreeSet<At> = BTreeSet::new();
    for (index, write) in batch.writes.iter().enumerate() {
        match write {
            Write::Put(at, value) => {
                desk.statement(PUT)?.execute(params![at.table.0, at.key, value])?;
            }
            Write::Create(at, value) => {
                if desk.statement(CREATE)?.execute(params![at.table.0, at.key, value])? == 0 {
                    return Ok(Err(Conflict { index: batch.guards.len() + index, at: at.clone() }));
                }
            }
            Write::Delete(at) => {
                desk.statement(DELETE)?.execute(params![at.table.0, at.key])?;
            }
            Write::Append { table, prefix, sequence, value } => {
                let (number, at) = append(desk, At::new(*table, prefix.as_slice()), sequence, value)?;
                applied.appended.push(number);
                touched.extend(manifest.scope_of(&at));
            }
        }
        touched.extend(write.at().and_then(|at| manifest.scope_of(at)));
    }
    for scope in touched {
        desk.statement(TOUCH)?.execute(params![scope.table.0, scope.key])?;
    }
    Ok(Ok(applied))
}

/// A message of a run's commit.
pub(crate) fn post(desk: &Desk<'_>, post: &Append) -> Worked<()> {
    append(desk, At::new(post.table, post.prefix.as_slice()), &post.sequence, &post.value)?;
    desk.wrote_tables();
    Ok(())
}

/// The next number of the sequence whose key is not there.
fn append(desk: &Desk<'_>, prefix: At, sequence: &[u8], value: &[u8]) -> Worked<(u64, At)> {
    let mut next = desk.statement(NEXT)?;
    loop {
        let number: i64 = next.query_row([sequence], |row| row.get(0))?;
        let number = number.cast_unsigned();
        let at = At::new(prefix.table, [prefix.key.as_slice(), &number.to_be_bytes()].concat());
        if desk.statement(CREATE)?.execute(params![at.table.0, at.key, value])? > 0 {
            return Ok((number, at));
        }
    }
}
