//! The seats of runners: a lock file and a socket each, in a folder beside the database.
//!
//! A runner's process holds its lock as long as it lives, so that "the lock is free" proves it dead, without waiting for its
//! session to expire.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use lope_model::RunnerId;
use lope_store::StoreResult;

use crate::locks;
use crate::place::Place;
use crate::socket::{self, Socket};

/// The seats that this process's runners hold, and a look at those of others.
#[derive(Debug)]
pub(crate) struct Seats {
    place: Place,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    locks: HashMap<RunnerId, File>,
    /// Where other processes wake this one; bound with the first seat.
    socket: Option<Socket>,
}

impl Seats {
    pub(crate) fn new(place: &Place) -> Self {
        Self { place: place.clone(), held: Mutex::default() }
    }

    /// Sit down: from now on this process is known to live. Repeating it changes nothing.
    pub(crate) fn take(&self, runner: RunnerId) -> StoreResult<()> {
        let folder = self.place.create_runners()?;
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

    /// Stand up, and take away what shows that somebody sat there.
    pub(crate) fn leave(&self, runner: RunnerId) {
        let mut held = self.held();
        if held.locks.remove(&runner).is_some() {
            remove(&lock_path(&self.place.runners(), runner));
        }
    }

    /// Nobody of this process sits here any more.
    pub(crate) fn leave_all(&self) {
        let mut held = self.held();
        for (runner, _lock) in held.locks.drain() {
            remove(&lock_path(&self.place.runners(), runner));
        }
        if let Some(socket) = held.socket.take() {
            remove(&socket.path);
        }
    }

    /// Does a process, this or another, hold the runner's seat?
    pub(crate) fn is_taken(&self, runner: RunnerId) -> bool {
        self.held().locks.contains_key(&runner) || locks::is_held(&lock_path(&self.place.runners(), runner))
    }

    /// Take away the files of a runner that is dead.
    pub(crate) fn clear(&self, runner: RunnerId) {
        if !self.is_taken(runner) {
            let folder = self.place.runners();
            remove(&lock_path(&folder, runner));
            remove(&folder.join(format!("{runner}.sock")));
        }
    }

    /// Does this process have runners?
    pub(crate) fn any(&self) -> bool {
        !self.held().locks.is_empty()
    }

    pub(crate) fn socket(&self) -> Option<Socket> {
        self.held().socket.clone()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nobody panics while holding the seats")
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        self.leave_all();
    }
}

fn lock_path(folder: &Path, runner: RunnerId) -> PathBuf {
    folder.join(format!("{runner}.lock"))
}

/// A file that stays behind does no harm: its lock is free.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}
