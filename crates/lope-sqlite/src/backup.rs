//! Copying the store, online, into a new file: one snapshot, private to the user, on disk when the
//! call returns.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use lope_store::{StoreError, StoreResult};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::failure::{self, Worked};
use crate::tx::Tx;

/// A file that is there already is never touched; one that could not be finished is taken away.
pub(crate) fn backup(tx: &Tx<'_>, to: &Path) -> Worked<()> {
    create(to)?;
    let copied = copy(tx, to).and_then(|()| Ok(sync(to)?));
    if copied.is_err() {
        let _ = std::fs::remove_file(to);
    }
    copied
}

fn create(to: &Path) -> StoreResult<()> {
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)
    {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(StoreError::refused(format!(
                "{} is there already; a backup never overwrites",
                to.display()
            )))
        }
        Err(error) => Err(failure::file(to, error)),
    }
}

/// All pages in one step: other processes may write meanwhile without making the copy start over.
fn copy(tx: &Tx<'_>, to: &Path) -> Worked<()> {
    let mut copy = Connection::open(to)?;
    let backup = Backup::new(tx.db, &mut copy)?;
    match backup.step(-1)? {
        StepResult::Done => Ok(()),
        StepResult::More | StepResult::Busy | StepResult::Locked => {
            Err(StoreError::unavailable("the copy could not be finished").into())
        }
        other => Err(StoreError::unavailable(format!("the copy ended as {other:?}")).into()),
    }
}

fn sync(to: &Path) -> StoreResult<()> {
    let folder = to
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let synced = File::open(to)
        .and_then(|file| file.sync_all())
        .and_then(|()| File::open(folder)?.sync_all());
    synced.map_err(|error| failure::file(to, error))
}
