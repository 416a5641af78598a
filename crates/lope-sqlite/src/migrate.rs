//! The schema's version: numbered SQL files, applied forward only, in one transaction, under the writers' lock.
//!
//! A file of another version is never touched by accident: opening it is refused with the command that mends it.

use std::path::Path;
use std::time::Duration;

use lope_store::{StoreError, StoreResult};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::connection::{self, APPLICATION_ID};
use crate::failure::{self, Worked};
use crate::locks::{self, Turnstile};
use crate::place::Place;

/// Every migration, in order; its place is its number.
const MIGRATIONS: [&str; 3] = [
    include_str!("../migrations/0001_ground.sql"),
    include_str!("../migrations/0002_serves.sql"),
    include_str!("../migrations/0003_schedules.sql"),
];
/// The version this program works with.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;
/// The schema that all migrations together give.
pub const GOLDEN_SCHEMA: &str = include_str!("../schema.sql");
/// What a schema's text begins with.
const SCHEMA_HEADER: &str = "-- The schema of a store in SQLite, as all migrations together give it.\n\n";
/// How long migrating waits for other processes.
const PATIENCE: Duration = Duration::from_secs(30);

/// From which version to which a store was brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migrated {
    pub from: i64,
    pub to: i64,
}

/// Bring the store at `path` to this program's version. Refused while runners work on it, and for a newer store.
pub fn migrate(path: &Path) -> StoreResult<Migrated> {
    connection::check_library()?;
    let place = Place::find(path)?;
    if place.is_empty() {
        return Err(missing(&place));
    }
    refuse_runners(&place)?;
    let mut db = connection::writer(&place, PATIENCE)?;
    let from = version(&db)?.ok_or_else(|| missing(&place))?;
    if from > SCHEMA_VERSION {
        return Err(other_version(from));
    }
    bring_up(&mut db, &Turnstile::open(&place, PATIENCE)?)?;
    Ok(Migrated { from, to: SCHEMA_VERSION })
}

/// The schema version of the store at `path`.
pub fn schema_version(path: &Path) -> StoreResult<i64> {
    let place = Place::find(path)?;
    if place.is_empty() {
        return Err(missing(&place));
    }
    let db = connection::looker(&place, PATIENCE)?;
    version(&db)?.ok_or_else(|| missing(&place))
}

/// Is the store one that this program works with? `None`: nothing is in the file yet.
pub(crate) fn check_version(db: &Connection) -> StoreResult<Option<()>> {
    match version(db)? {
        None => Ok(None),
        Some(SCHEMA_VERSION) => Ok(Some(())),
        Some(found) => Err(other_version(found)),
    }
}

/// Apply what is missing. Of two processes that do so at once, the second finds nothing left.
pub(crate) fn bring_up(db: &mut Connection, writers: &Turnstile) -> StoreResult<()> {
    let _turn = writers.enter()?;
    keep_log(db).map_err(StoreError::from)?;
    let have = version(db)?.unwrap_or(0);
    if have < SCHEMA_VERSION {
        apply(db, have).map_err(StoreError::from)?;
    }
    Ok(())
}

pub(crate) fn missing(place: &Place) -> StoreError {
    StoreError::Missing { message: format!("{} does not exist or is empty", place.database().display()) }
}

/// The schema as it is in the file, one statement after the other, in an order that depends on names alone.
pub(crate) fn schema_text(db: &Connection) -> Worked<String> {
    let mut statement = db.prepare(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 ELSE 2 END, name",
    )?;
    let statements = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut text = String::from(SCHEMA_HEADER);
    for statement in statements {
        text.push_str(&statement?);
        text.push_str(";\n\n");
    }
    Ok(text)
}

fn keep_log(db: &Connection) -> Worked<()> {
    let mode: String = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(StoreError::refused(format!("this file system does not support a write-ahead log (journal mode '{mode}')"))
        .into())
}

/// All in one transaction: nobody sees a store of a version in between.
fn apply(db: &mut Connection, have: i64) -> Worked<()> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    MIGRATIONS.iter().skip(have as usize).try_for_each(|migration| change.execute_batch(migration))?;
    change.pragma_update(None, "application_id", APPLICATION_ID)?;
    change.execute(
        "INSERT INTO meta (key, value) VALUES ('schema_version', ?1)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [SCHEMA_VERSION.to_string()],
    )?;
    change.commit()?;
    Ok(())
}

/// The version in the file; nothing if the file is an empty database.
fn version(db: &Connection) -> StoreResult<Option<i64>> {
    read_version(db).map_err(StoreError::from)
}

fn read_version(db: &Connection) -> Worked<Option<i64>> {
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(None);
    }
    let id: i32 = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if id != APPLICATION_ID {
        return Err(StoreError::refused("the file is a database of another program, not a store of Lope's").into());
    }
    let text: Option<String> =
        db.query_row("SELECT value FROM meta WHERE key = 'schema_version'", [], |row| row.get(0)).optional()?;
    let number = text.as_deref().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| StoreError::corrupt("the schema version is missing or no number").into())
}

fn other_version(found: i64) -> StoreError {
    let hint = if found > SCHEMA_VERSION {
        "the store was written by a newer lope: use that one, or a newer one still".to_owned()
    } else {
        "run `lope store migrate` to bring the store to this version".to_owned()
    };
    StoreError::Version { found, needed: SCHEMA_VERSION, hint }
}

fn refuse_runners(place: &Place) -> StoreResult<()> {
    let folder = place.runners();
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failure::file(&folder, error)),
    };
    let locks = entries.filter_map(Result::ok).map(|entry| entry.path());
    let held = locks.filter(|path| path.extension().is_some_and(|ext| ext == "lock") && locks::is_held(path)).count();
    if held > 0 {
        return Err(StoreError::refused(format!("{held} runners work on the store: stop them first")));
    }
    Ok(())
}
