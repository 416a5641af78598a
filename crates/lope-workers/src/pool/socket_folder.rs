//! Where the pool's own processes connect: a socket in a folder that only this user may enter.
//!
//! A runner that was killed cannot remove its folder; the next one does.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

const PREFIX: &str = "lope-workers-";

#[derive(Debug)]
pub(super) struct SocketFolder {
    folder: PathBuf,
}

impl SocketFolder {
    pub(super) fn make() -> io::Result<Self> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        let folder = parent.join(format!(
            "{PREFIX}{}-{}",
            std::process::id(),
            uuid::Uuid::now_v7().simple()
        ));
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self { folder })
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
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|rest| rest.split('-').next());
        let dead = pid.is_some_and(|pid| {
            pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()
        });
        if dead {
            // Another user's folder stays; so does one that somebody else removes first.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_runners_are_swept_and_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join("lope-workers-999999999-a");
        let alive = format!("{PREFIX}{}-b", std::process::id());
        fs::create_dir(&dead).unwrap();
        fs::create_dir(parent.path().join(&alive)).unwrap();
        fs::create_dir(parent.path().join("else")).unwrap();
        sweep(parent.path());
        assert!(
            !dead.exists()
                && parent.path().join(alive).exists()
                && parent.path().join("else").exists()
        );
    }
}
