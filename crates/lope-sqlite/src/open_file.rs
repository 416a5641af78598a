//! Are the database, its log and the index of its log still the files that were opened? What is
//! written into one that was removed, replaced or cut short is lost: it is refused before anything is
//! acknowledged. In: the connection and the files; out: nothing, or what became of a file.
//!
//! The files are only looked at by name: opening and closing one here would drop SQLite's locks.

use std::path::{Path, PathBuf};

use lope_store::{StoreError, StoreResult};
use rusqlite::Connection;

use crate::files::{FileId, StoreFiles};

/// The files that a connection has open.
#[derive(Debug)]
pub(crate) struct OpenFile {
    id: Option<FileId>,
    /// The log and its index, which SQLite makes when it first needs them.
    beside: [(PathBuf, Option<FileId>); 2],
    /// How long it was when it was last looked at. It becomes shorter when it is rebuilt and at no
    /// other time: checkpoints only fill it.
    length: u64,
    /// What a rebuilding (`VACUUM`) raises.
    rebuilt: i64,
}

impl OpenFile {
    pub(crate) fn of(db: &Connection, files: &StoreFiles) -> Self {
        Self {
            id: files.file(),
            beside: ["-wal", "-shm"].map(|suffix| {
                let path = files.beside(suffix);
                let id = FileId::at(&path);
                (path, id)
            }),
            length: files.length(),
            rebuilt: rebuilt(db),
        }
    }

    /// Is it there, whole?
    pub(crate) fn check(&mut self, db: &Connection, files: &StoreFiles) -> StoreResult<()> {
        if self.id.is_none() || files.file() != self.id {
            return Err(gone(files.database(), "removed or replaced"));
        }
        for (path, known) in &mut self.beside {
            let found = FileId::at(path);
            if known.is_some() && found != *known {
                return Err(gone(path, "removed or replaced"));
            }
            *known = found;
        }
        let length = files.length();
        if length < self.length {
            let rebuilt = rebuilt(db);
            if rebuilt <= self.rebuilt {
                return Err(gone(files.database(), "cut short"));
            }
            self.rebuilt = rebuilt;
        }
        self.length = length;
        Ok(())
    }
}

/// Nothing of a file that cannot be read was rebuilt.
fn rebuilt(db: &Connection) -> i64 {
    db.query_row("PRAGMA schema_version", [], |row| row.get(0))
        .unwrap_or(0)
}

fn gone(path: &Path, how: &str) -> StoreError {
    let message = format!("{} was {how} while it was open", path.display());
    StoreError::Missing { message }
}
