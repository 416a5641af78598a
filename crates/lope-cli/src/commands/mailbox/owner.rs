//! The names under which workers of this machine hold leases: one file each in the home folder,
//! locked as long as its process lives and remembered after it. A worker that was killed and is
//! started again gets its old name, and with it what it held, at once; two that live at the same
//! time never share one.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use lope::mailbox::key::WorkerId;
use lope::mailbox::record::Owner;

use crate::error::{CliError, CliResult, Exit};

/// Most workers of one inbox that one home folder names.
const SLOTS_MAX: usize = 1_000;

/// A name, held as long as this value lives.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) owner: Owner,
    _lock: Option<File>,
}

/// The first free name of a worker. Where no file can be written the name is a fresh one: it is as
/// good, but a restart has to wait for the old one's leases to end.
pub(super) fn take(home: &Path, worker: WorkerId) -> CliResult<Named> {
    let folder = home.join("mailbox");
    let found = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .and_then(|()| slot(&folder, worker));
    let (name, lock) = match found {
        Ok((name, lock)) => (name, Some(lock)),
        Err(_) => (format!("{worker}/{}", fresh()), None),
    };
    let owner = Owner::new(name).map_err(|error| CliError::new(Exit::Bug, error.to_string()))?;
    Ok(Named { owner, _lock: lock })
}

fn slot(folder: &Path, worker: WorkerId) -> io::Result<(String, File)> {
    for number in 0..SLOTS_MAX {
        let path = folder.join(format!("worker-{worker}.{number}"));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        if file.try_lock().is_err() {
            continue;
        }
        let mut name = String::new();
        file.read_to_string(&mut name)?;
        if name.trim().is_empty() {
            name = format!("{worker}.{number}/{}", fresh());
            file.write_all(name.as_bytes())?;
        }
        return Ok((name.trim().to_owned(), file));
    }
    Err(io::Error::other("every name is taken"))
}

/// Names are unique over machines.
fn fresh() -> String {
    uuid::Uuid::now_v7().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_have_different_names_and_the_dead_leave_theirs() {
        let home = tempfile::tempdir().unwrap();
        let seven = WorkerId::new(7).unwrap();
        let (first, second) = (
            take(home.path(), seven).unwrap(),
            take(home.path(), seven).unwrap(),
        );
        assert_ne!(first.owner, second.owner);
        let name = first.owner.clone();
        drop(first);
        assert_eq!(take(home.path(), seven).unwrap().owner, name);
        assert_ne!(
            take(home.path(), WorkerId::new(8).unwrap()).unwrap().owner,
            name
        );
    }

    #[test]
    fn where_nothing_can_be_written_names_are_fresh() {
        let home = tempfile::NamedTempFile::new().unwrap();
        let seven = WorkerId::new(7).unwrap();
        let (first, second) = (
            take(home.path(), seven).unwrap(),
            take(home.path(), seven).unwrap(),
        );
        assert_ne!(first.owner, second.owner);
    }
}
