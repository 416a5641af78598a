//! Locks between processes: a turnstile that queues writers, and a file that one process at a time holds.
//!
//! They are locks of the operating system on open files: whoever dies lets go.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use lope_store::{StoreError, StoreResult};

use crate::failure;
use crate::place::{Place, open_private};

/// First wait for a lock that another process holds; doubled up to `WAIT_MOST`.
const WAIT_FIRST: Duration = Duration::from_micros(50);
const WAIT_MOST: Duration = Duration::from_millis(1);
/// No look at a lock file takes longer than this.
const LOOK_MOST: Duration = Duration::from_millis(500);

/// Where writers of all processes queue up before they begin a transaction. Whoever waits for the lock holds the place at the
/// gate meanwhile, so that a writer that has just finished cannot overtake.
#[derive(Debug)]
pub(crate) struct Turnstile {
    gate: File,
    lock: File,
    patience: Duration,
}

/// The right to write; given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a File);

impl Turnstile {
    pub(crate) fn open(place: &Place, patience: Duration) -> StoreResult<Self> {
        let open = |suffix| {
            let path = place.beside(suffix);
            open_private(&path).map_err(|error| failure::file(&path, error))
        };
        Ok(Self { gate: open("-writer.gate")?, lock: open("-writer.lock")?, patience })
    }

    /// Wait for our turn, as long as patience lasts.
    pub(crate) fn enter(&self) -> StoreResult<Turn<'_>> {
        let until = Instant::now() + self.patience;
        wait(&self.gate, until)?;
        let entered = wait(&self.lock, until);
        let left = self.gate.unlock().map_err(StoreError::unavailable);
        entered.and(left).map(|()| Turn(&self.lock))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::error!(%error, "the writers' lock could not be given back");
        }
    }
}

/// Polling rather than blocking: a blocked process could not give up when its patience ends.
fn wait(file: &File, until: Instant) -> StoreResult<()> {
    let mut pause = WAIT_FIRST;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(StoreError::unavailable(error)),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(StoreError::unavailable("another process did not give back the writers' lock in time"));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(WAIT_MOST);
    }
}

/// Take a lock file for ourselves, if nobody has it.
pub(crate) fn try_hold(path: &Path) -> StoreResult<Option<File>> {
    let file = open_private(path).map_err(|error| failure::file(path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failure::file(path, error)),
    }
}

/// Take a lock file for ourselves; whoever merely looks at it lets go at once, whoever has it keeps it.
pub(crate) fn hold(path: &Path) -> StoreResult<File> {
    let file = open_private(path).map_err(|error| failure::file(path, error))?;
    let held = wait(&file, Instant::now() + LOOK_MOST);
    held.map_err(|_| StoreError::refused(format!("{} is held by another process", path.display())))?;
    Ok(file)
}

/// Does some process hold this lock file? One that is gone is held by nobody.
pub(crate) fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_given_back_and_waiting_ends() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::find(&folder.path().join("a.db")).unwrap();
        let first = Turnstile::open(&place, Duration::from_millis(20)).unwrap();
        let second = Turnstile::open(&place, Duration::from_millis(20)).unwrap();
        let turn = first.enter().unwrap();
        assert!(matches!(second.enter(), Err(StoreError::Unavailable { .. })));
        drop(turn);
        assert!(second.enter().is_ok());
        assert!(first.enter().is_ok(), "the gate was left open");
    }

    #[test]
    fn a_held_file_is_seen_and_a_free_or_missing_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.lock");
        assert!(!is_held(&path));
        let held = hold(&path).unwrap();
        assert!(is_held(&path));
        assert!(try_hold(&path).unwrap().is_none());
        assert!(matches!(hold(&path), Err(StoreError::Refused { .. })));
        drop(held);
        assert!(!is_held(&path));
        assert!(try_hold(&path).unwrap().is_some());
    }
}
