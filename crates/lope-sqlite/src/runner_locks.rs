//! The locks of runners: a lock file and a socket each, in a folder beside the database.
//!
//! A runner's process holds its lock as long as it lives, so that "the lock is free" proves it
//! dead, without waiting for its session to expire.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use lope_model::RunnerId;
use lope_store::StoreResult;

use crate::files::StoreFiles;
use crate::locks;
use crate::socket::{self, Socket};

/// The lock files that this process's runners hold, and a look at those of others.
#[derive(Debug)]
pub(crate) struct RunnerLocks {
    files: StoreFiles,
    held: Mutex<HeldLocks>,
}

#[derive(Debug, Default)]
struct HeldLocks {
    locks: HashMap<RunnerId, File>,
    /// Where other processes wake this one; bound with the first lock.
    socket: Option<Socket>,
}

impl RunnerLocks {
    pub(crate) fn new(files: &StoreFiles) -> Self {
        Self {
            files: files.clone(),
            held: Mutex::default(),
        }
    }

    /// Take the runner's lock: from now on this process is known to live. Repeating it changes
    /// nothing.
    pub(crate) fn take(&self, runner: RunnerId) -> StoreResult<()> {
        let folder = self.files.create_runners()?;
        let mut held = self.held();
        if held.locks.contains_key(&runner) {
            return Ok(());
        }
        let lock = locks::hold(&lock_path(&folder, runner))?;
        held.locks.insert(runner, lock);
        if held.socket.is_none() {
            held.socket = socket::bind(&folder, &format!("{runner}.sock"));
        }
        Ok(())
    }

    /// Let go of a runner's lock and remove its file. The socket is the process's: it goes on under
    /// the name of another runner of it, if there is one, so that nobody takes it for a dead one's.
    pub(crate) fn leave(&self, runner: RunnerId) {
        let mut held = self.held();
        if held.locks.remove(&runner).is_none() {
            return;
        }
        let folder = self.files.runners();
        remove(&lock_path(&folder, runner));
        let heir = held.locks.keys().next().copied();
        let named = socket_path(&folder, runner);
        if let (Some(heir), Some(socket)) = (heir, &mut held.socket)
            && socket.path == named
        {
            let name = socket_path(&folder, heir);
            if std::fs::rename(&socket.path, &name).is_ok() {
                socket.path = name;
            }
        }
    }

    /// The runners whose locks this process holds.
    pub(crate) fn all_held(&self) -> Vec<RunnerId> {
        self.held().locks.keys().copied().collect()
    }

    /// Let go of every lock of this process, and of its socket.
    pub(crate) fn leave_all(&self) {
        let mut held = self.held();
        for (runner, _lock) in held.locks.drain() {
            remove(&lock_path(&self.files.runners(), runner));
        }
        if let Some(socket) = held.socket.take() {
            remove(&socket.path);
        }
    }

    /// Does a process, this or another, hold the runner's lock?
    pub(crate) fn is_taken(&self, runner: RunnerId) -> bool {
        self.held().locks.contains_key(&runner)
            || locks::is_held(&lock_path(&self.files.runners(), runner))
    }

    /// Take away the files of a runner that is dead.
    pub(crate) fn clear(&self, runner: RunnerId) {
        if !self.is_taken(runner) {
            let folder = self.files.runners();
            remove(&lock_path(&folder, runner));
            remove(&socket_path(&folder, runner));
        }
    }

    /// Does this process have runners?
    pub(crate) fn any(&self) -> bool {
        !self.held().locks.is_empty()
    }

    /// Is a runner of another process at work on this store?
    pub(crate) fn any_elsewhere(&self) -> bool {
        let held = self.held();
        let ours: Vec<PathBuf> = held
            .locks
            .keys()
            .map(|runner| lock_path(&self.files.runners(), *runner))
            .collect();
        let Ok(entries) = std::fs::read_dir(self.files.runners()) else {
            return false;
        };
        entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "lock"))
            .any(|path| !ours.contains(&path) && locks::is_held(&path))
    }

    pub(crate) fn socket(&self) -> Option<Socket> {
        self.held().socket.clone()
    }

    fn held(&self) -> MutexGuard<'_, HeldLocks> {
        self.held
            .lock()
            .expect("nobody panics while holding the runner_locks")
    }
}

impl Drop for RunnerLocks {
    fn drop(&mut self) {
        self.leave_all();
    }
}

fn lock_path(folder: &Path, runner: RunnerId) -> PathBuf {
    folder.join(format!("{runner}.lock"))
}

fn socket_path(folder: &Path, runner: RunnerId) -> PathBuf {
    folder.join(format!("{runner}.sock"))
}

/// A file that stays behind does no harm: its lock is free.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}
