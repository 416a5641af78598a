//! Where the pool's own processes connect: a socket in a folder that only this user may enter.
//!
//! A runner that was killed cannot remove its folder; the next one does. Whose folder it is tells a
//! lock on a file in it, which ends with its runner: a number of a process would say nothing to a
//! runner in another container that has the same temporary folder.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

const PREFIX: &str = "lope-workers-";
const LOCK: &str = "lock";
/// What the lock's file is called until it is locked.
const UNLOCKED: &str = "unlocked";

#[derive(Debug)]
pub(super) struct SocketFolder {
    folder: PathBuf,
    /// Locked for as long as the runner lives.
    _lock: File,
}

impl SocketFolder {
    pub(super) fn make() -> io::Result<Self> {
        Self::make_in(&std::env::temp_dir())
    }

    fn make_in(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let name = uuid::Uuid::now_v7().simple();
        let folder = parent.join(format!("{PREFIX}{name}"));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let lock = File::create_new(folder.join(UNLOCKED))?;
        lock.lock()?;
        fs::rename(folder.join(UNLOCKED), folder.join(LOCK))?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        UnixListener::bind(self.socket())
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed now is swept by the next runner.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Remove what runners that are gone have left behind.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && is_left(&entry.path()) {
            // Another user's folder stays; so does one that somebody else removes first.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Its lock is there and nobody holds it.
fn is_left(folder: &Path) -> bool {
    File::open(folder.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_runners_are_swept_and_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join("lope-workers-dead");
        let made_just_now = parent.path().join("lope-workers-made-just-now");
        for folder in [&dead, &made_just_now, &parent.path().join("else")] {
            fs::create_dir(folder).unwrap();
        }
        File::create(dead.join(LOCK)).unwrap();
        File::create(made_just_now.join(UNLOCKED)).unwrap();

        let alive = SocketFolder::make_in(parent.path()).unwrap();
        let other = SocketFolder::make_in(parent.path()).unwrap();

        assert!(!dead.exists());
        assert!(alive.folder.exists() && other.folder.exists());
        assert!(made_just_now.exists() && parent.path().join("else").exists());
        drop(alive);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 3);
    }
}
