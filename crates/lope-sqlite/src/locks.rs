//! Locks between processes: a queue of writers, and a file that one process at a time
//! holds.
//!
//! They are locks of the operating system on open files: whoever dies lets go.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lope_store::{StoreError, StoreResult};

use crate::failure;
use crate::files::{StoreFiles, open_private};

/// First wait for a lock that another process holds; doubled up to `WAIT_MOST`.
const WAIT_FIRST: Duration = Duration::from_micros(50);
const WAIT_MOST: Duration = Duration::from_millis(1);
/// No look at a lock file takes longer than this.
const POLL_MOST: Duration = Duration::from_millis(500);
/// How long a writer waits in the queue before it passes by: whoever is before it may stand still,
/// and SQLite's own lock is what keeps two writers apart.
const QUEUE_MOST: Duration = Duration::from_secs(1);

/// Where writers of all processes queue up before they begin a transaction. Whoever waits for the
/// lock holds the gate file meanwhile, so that a writer that has just finished cannot
/// overtake.
#[derive(Debug)]
pub(crate) struct WriterLock {
    gate: LockQueue,
    lock: LockQueue,
    patience: Duration,
}

/// One lock file, and whether it was found not to move.
#[derive(Debug)]
struct LockQueue {
    file: File,
    /// Whoever had it when we last wanted it did not let go: the next time we only look.
    stands: AtomicBool,
}

/// A turn to write; given back when dropped. Whoever passed by the queue has none to give back.
#[derive(Debug)]
pub(crate) struct WriteGuard<'a>(Option<&'a File>);

impl WriterLock {
    pub(crate) fn open(files: &StoreFiles, patience: Duration) -> StoreResult<Self> {
        let open = |suffix| {
            let path = files.beside(suffix);
            let file = open_private(&path).map_err(|error| failure::file(&path, error))?;
            let stands = AtomicBool::new(false);
            StoreResult::Ok(LockQueue { file, stands })
        };
        Ok(Self {
            gate: open("-writer.gate")?,
            lock: open("-writer.lock")?,
            patience,
        })
    }

    /// Wait for our turn before a transaction, but not for ever: a process that was stopped in the
    /// queue, or between two transactions, is passed by.
    pub(crate) fn enter(&self) -> StoreResult<WriteGuard<'_>> {
        let is_next = self.gate.pass(QUEUE_MOST.min(self.patience))?;
        let entered = self.lock.pass(QUEUE_MOST.min(self.patience));
        self.leave_gate(is_next)?;
        Ok(WriteGuard(entered?.then_some(&self.lock.file)))
    }

    /// Wait until no other process is about to write, as long as patience lasts. For what is more
    /// than one transaction.
    pub(crate) fn enter_alone(&self) -> StoreResult<WriteGuard<'_>> {
        let until = Instant::now() + self.patience;
        let is_next = wait(&self.gate.file, until)?;
        let entered = wait(&self.lock.file, until);
        self.leave_gate(is_next)?;
        if !entered? {
            let message = "another process did not give back the writers' lock in time";
            return Err(StoreError::unavailable(message));
        }
        Ok(WriteGuard(Some(&self.lock.file)))
    }

    fn leave_gate(&self, is_held: bool) -> StoreResult<()> {
        if is_held {
            self.gate.file.unlock().map_err(StoreError::unavailable)?;
        }
        Ok(())
    }
}

impl LockQueue {
    /// Is it ours now? If not within this time, it is passed by.
    fn pass(&self, most: Duration) -> StoreResult<bool> {
        let stands = self.stands.load(Ordering::Relaxed);
        let most = if stands { Duration::ZERO } else { most };
        let held = wait(&self.file, Instant::now() + most)?;
        self.stands.store(!held, Ordering::Relaxed);
        Ok(held)
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        if let Some(lock) = self.0
            && let Err(error) = lock.unlock()
        {
            tracing::error!(%error, "the writers' lock could not be given back");
        }
    }
}

/// Polling rather than blocking: a blocked process could not give up when its patience ends. False:
/// somebody else has it still.
fn wait(file: &File, until: Instant) -> StoreResult<bool> {
    let mut pause = WAIT_FIRST;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(StoreError::unavailable(error)),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => return Ok(false),
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

/// Take a lock file for ourselves; whoever merely looks at it lets go at once, whoever has it keeps
/// it.
pub(crate) fn hold(path: &Path) -> StoreResult<File> {
    let file = open_private(path).map_err(|error| failure::file(path, error))?;
    let held = matches!(wait(&file, Instant::now() + POLL_MOST), Ok(true));
    let elsewhere = || format!("{} is held by another process", path.display());
    held.then_some(file)
        .ok_or_else(|| StoreError::refused(elsewhere()))
}

/// Does some process hold this lock file? One that is gone is held by nobody.
pub(crate) fn is_held(path: &Path) -> bool {
    File::open(path)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_given_back_and_waiting_ends() {
        let folder = tempfile::tempdir().unwrap();
        let files = StoreFiles::find(&folder.path().join("a.db")).unwrap();
        let first = WriterLock::open(&files, Duration::from_millis(20)).unwrap();
        let second = WriterLock::open(&files, Duration::from_millis(20)).unwrap();
        let guard = first.enter().unwrap();
        assert!(matches!(
            second.enter_alone(),
            Err(StoreError::Unavailable { .. })
        ));
        drop(guard);
        assert!(second.enter_alone().is_ok());
        assert!(first.enter_alone().is_ok(), "the gate was left open");
    }

    #[test]
    fn a_queue_that_does_not_move_is_passed_by_until_it_moves() {
        let folder = tempfile::tempdir().unwrap();
        let files = StoreFiles::find(&folder.path().join("a.db")).unwrap();
        let first = WriterLock::open(&files, Duration::from_millis(20)).unwrap();
        let second = WriterLock::open(&files, Duration::from_millis(20)).unwrap();
        for (stopped, has_turn) in [(&first.gate, true), (&first.lock, false)] {
            stopped.file.lock().unwrap();
            for _ in 0..2 {
                assert_eq!(second.enter().unwrap().0.is_some(), has_turn);
            }
            stopped.file.unlock().unwrap();
            assert!(second.enter().unwrap().0.is_some());
            assert!(second.enter_alone().is_ok());
        }
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
