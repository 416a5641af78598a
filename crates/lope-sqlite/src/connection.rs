//! Connections to the database file, one kind for each use, with the settings that keep it sound
//! and quick.
//!
//! No connection checkpoints by itself, not even when it is closed; see `checkpoint`.

use std::fmt::Write as _;
use std::time::Duration;

use lope_store::{StoreError, StoreResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::failure::{self, Worked};
use crate::files::StoreFiles;

/// Older versions can lose the write-ahead log when several processes reset it at once.
const VERSION_NEEDED: i32 = 3_051_003;
/// "Lope", in the header of the file.
pub(crate) const APPLICATION_ID: i32 = 0x4c6f_7065;
/// Memory that the writer keeps pages in, in kB.
const WRITER_CACHE: i64 = 64 * 1024;
/// Memory that each reader keeps pages in, in kB.
const READER_CACHE: i64 = 8 * 1024;
/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 160;
/// To this size the log is cut when it starts over.
const LOG_KEPT: i64 = 64 * 1024 * 1024;

/// Refuse to work on top of an SQLite that is too old.
pub(crate) fn check_library() -> StoreResult<()> {
    if rusqlite::version_number() < VERSION_NEEDED {
        let found = rusqlite::version();
        return Err(StoreError::refused(format!(
            "SQLite {found} is too old: 3.51.3 or newer is needed"
        )));
    }
    Ok(())
}

/// The connection that writes.
pub(crate) fn writer(files: &StoreFiles, patience: Duration) -> StoreResult<Connection> {
    let db = open(files, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_up(&db, WRITER_CACHE, patience)?;
    Ok(db)
}

/// Keep the database from growing beyond so many pages.
pub(crate) fn bound(db: &Connection, pages: u32) -> StoreResult<()> {
    db.pragma_update(None, "max_page_count", pages)
        .map_err(failure::sqlite)
}

/// A connection that only reads, of a process that also writes.
pub(crate) fn reader(files: &StoreFiles, patience: Duration) -> StoreResult<Connection> {
    let db = open(files, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_up(&db, READER_CACHE, patience)?;
    db.pragma_update(None, "query_only", true)
        .map_err(failure::sqlite)?;
    Ok(db)
}

/// A connection that cannot write. Where the log does not exist and its folder may not be written,
/// nobody else can be writing: the file is then read as it is.
pub(crate) fn read_only(files: &StoreFiles, patience: Duration) -> StoreResult<Connection> {
    let db = open(files, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    match set_up(&db, READER_CACHE, patience) {
        Err(StoreError::Unavailable { .. } | StoreError::ReadOnly { .. })
            if !files.beside("-wal").exists() =>
        {
            let db = open_frozen(files)?;
            set_up(&db, READER_CACHE, patience)?;
            Ok(db)
        }
        Err(error) => Err(error),
        Ok(()) => Ok(db),
    }
}

fn open(files: &StoreFiles, access: OpenFlags) -> StoreResult<Connection> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(files.database(), flags).map_err(failure::sqlite)
}

fn open_frozen(files: &StoreFiles) -> StoreResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let mut uri = String::from("file:");
    for byte in files.database().as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte));
            }
            other => write!(uri, "%{other:02x}").expect("a string takes whatever is written to it"),
        }
    }
    uri.push_str("?immutable=1");
    Connection::open_with_flags(uri, flags).map_err(failure::sqlite)
}

fn set_up(db: &Connection, cache: i64, patience: Duration) -> StoreResult<()> {
    apply(db, cache, patience).map_err(StoreError::from)
}

fn apply(db: &Connection, cache: i64, patience: Duration) -> Worked<()> {
    db.busy_timeout(patience.min(Duration::from_hours(1)))?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Plans depend on the statement alone, so that binding other values never makes SQLite plan
    // again.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.pragma_update(None, "journal_size_limit", LOG_KEPT)?;
    db.pragma_update(None, "cache_size", -cache)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "cell_size_check", true)?;
    // The first read proves that the file is a database and can be read.
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(())
}
