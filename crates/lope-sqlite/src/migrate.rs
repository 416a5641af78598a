//! The schema's version: numbered SQL files, applied forward only, in one transaction, under the
//! writers' lock.
//!
//! A file of another version is never touched by accident: opening it is refused with the command
//! that mends it.

use std::path::Path;
use std::time::Duration;

use lope_store::{Migrated, StoreError, StoreResult};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::connection::{self, APPLICATION_ID};
use crate::failure::{self, Worked};
use crate::files::StoreFiles;
use crate::locks::{self, WriterLock};

/// Every migration, in order; its place is its number.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_ground.sql")];
/// The version this program works with.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;
/// The schema that all migrations together give.
pub const GOLDEN_SCHEMA: &str = include_str!("../schema.sql");
/// What a schema's text begins with.
const SCHEMA_HEADER: &str =
    "-- The schema of a store in SQLite, as all migrations together give it.\n\n";
/// How long migrating waits for other processes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bring the store at `path` to this program's version. Refused while runners work on it, and for a
/// newer store.
pub fn migrate(path: &Path) -> StoreResult<Migrated> {
    connection::check_library()?;
    let files = StoreFiles::find(path)?;
    if files.is_empty() {
        return Err(missing(&files));
    }
    refuse_runners(&files)?;
    let mut db = connection::writer(&files, PATIENCE)?;
    let from = version(&db)?.ok_or_else(|| missing(&files))?;
    if from > SCHEMA_VERSION {
        return Err(other_version(from));
    }
    bring_up(&mut db, &WriterLock::open(&files, PATIENCE)?)?;
    Ok(Migrated {
        from,
        to: SCHEMA_VERSION,
    })
}

/// The schema version of the store at `path`.
pub fn schema_version(path: &Path) -> StoreResult<i64> {
    let files = StoreFiles::find(path)?;
    if files.is_empty() {
        return Err(missing(&files));
    }
    let db = connection::read_only(&files, PATIENCE)?;
    version(&db)?.ok_or_else(|| missing(&files))
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
pub(crate) fn bring_up(db: &mut Connection, writers: &WriterLock) -> StoreResult<()> {
    let _turn = writers.enter_alone()?;
    keep_log(db).map_err(StoreError::from)?;
    let have = version(db)?.unwrap_or(0);
    if have < SCHEMA_VERSION {
        apply(db, have, &MIGRATIONS).map_err(StoreError::from)?;
    }
    Ok(())
}

pub(crate) fn missing(files: &StoreFiles) -> StoreError {
    StoreError::Missing {
        message: format!("{} does not exist or is empty", files.database().display()),
    }
}

/// The schema as it is in the file, one statement after the other, in an order that depends on
/// names alone.
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
    Err(StoreError::refused(format!(
        "this file system does not support a write-ahead log (journal mode '{mode}')"
    ))
    .into())
}

/// All in one transaction: nobody sees a store of a version in between.
fn apply(db: &mut Connection, have: i64, migrations: &[&str]) -> Worked<()> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    migrations
        .iter()
        .skip(have as usize)
        .try_for_each(|migration| change.execute_batch(migration))?;
    change.pragma_update(None, "application_id", APPLICATION_ID)?;
    change.execute(
        "INSERT INTO meta (key, value) VALUES ('schema_version', ?1)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [migrations.len().to_string()],
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
        return Err(StoreError::refused(
            "the file is a database of another program, not a store of Lope's",
        )
        .into());
    }
    let text: Option<String> = db
        .query_row(
            "SELECT value FROM meta WHERE key = 'schema_version'",
            [],
            |row| row.get(0),
        )
        .optional()?;
    let number = text.as_deref().and_then(|text| text.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| StoreError::corrupt("the schema version is missing or no number").into())
}

fn other_version(found: i64) -> StoreError {
    StoreError::other_version(found, SCHEMA_VERSION)
}

fn refuse_runners(files: &StoreFiles) -> StoreResult<()> {
    let folder = files.runners();
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failure::file(&folder, error)),
    };
    let locks = entries.filter_map(Result::ok).map(|entry| entry.path());
    let held = locks
        .filter(|path| path.extension().is_some_and(|ext| ext == "lock") && locks::is_held(path))
        .count();
    if held > 0 {
        return Err(StoreError::refused(format!(
            "{held} runners work on the store: stop them first"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of long ago, with something in it, and what a later program makes of it.
    const OLD: [&str; 1] = [
        "CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
         CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);",
    ];
    const GROWN: [&str; 3] = [
        OLD[0],
        "ALTER TABLE notes ADD COLUMN words INTEGER NOT NULL DEFAULT 0;
         UPDATE notes SET words = length(text) - length(replace(text, ' ', '')) + 1;",
        "ALTER TABLE notes RENAME TO remarks;",
    ];

    fn old_store() -> Connection {
        let mut db = Connection::open_in_memory().unwrap();
        apply(&mut db, 0, &OLD).unwrap();
        let rows = "INSERT INTO notes (text) VALUES ('one'), ('two words')";
        db.execute_batch(rows).unwrap();
        db
    }

    #[test]
    fn an_older_store_keeps_what_it_holds() {
        let mut db = old_store();
        assert_eq!(version(&db).unwrap(), Some(1));
        apply(&mut db, 1, &GROWN).unwrap();
        assert_eq!(version(&db).unwrap(), Some(3));
        let mut statement = db
            .prepare("SELECT text, words FROM remarks ORDER BY id")
            .unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let rows: Vec<(String, i64)> = rows.unwrap().map(Result::unwrap).collect();
        assert_eq!(rows, [("one".to_owned(), 1), ("two words".to_owned(), 2)]);
    }

    #[test]
    fn a_migration_that_fails_leaves_the_older_store_as_it_was() {
        let mut db = old_store();
        let broken = [GROWN[0], GROWN[1], "ALTER TABLE nothing ADD COLUMN x TEXT;"];
        assert!(apply(&mut db, 1, &broken).is_err());
        assert_eq!(version(&db).unwrap(), Some(1));
        let columns = "SELECT count(*) FROM pragma_table_info('notes')";
        let columns: i64 = db.query_row(columns, [], |row| row.get(0)).unwrap();
        assert_eq!(columns, 2);
    }
}
