//! A runner's own log: a file for each runner, a line with its time for each thing that it did.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use lope_model::RunnerId;
use lope_workers::clock::wall;

/// Most bytes of one runner's log; what comes after is not kept.
const RUNNER_LOG_MAX: u64 = 64 * 1024 * 1024;

/// An open log of a runner.
#[derive(Debug)]
pub struct RunnerLog {
    path: PathBuf,
    file: Mutex<(File, u64)>,
    /// Somebody watches it at a terminal.
    is_shown: bool,
}

/// The file of a runner's log: numbers of processes are given out again, so it names both.
pub fn file_name(pid: u32, runner: RunnerId) -> String {
    format!("daemon-{pid}-{runner}.log")
}

/// The log of a runner in a folder, if it has one.
pub fn find(folder: &Path, runner: RunnerId) -> Option<PathBuf> {
    let found = all(folder).into_iter().find(|(of, _)| *of == runner);
    found.map(|(_, path)| path)
}

/// Whose log a file is, if it is a runner's.
pub fn runner_of(path: &Path) -> Option<RunnerId> {
    let name = path.file_name()?.to_str()?.strip_suffix(".log")?;
    let (_, runner) = name.strip_prefix("daemon-")?.split_once('-')?;
    runner.parse().ok()
}

/// The logs of runners in a folder.
pub fn all(folder: &Path) -> Vec<(RunnerId, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter_map(|path| Some((runner_of(&path)?, path)))
        .collect()
}

/// Is this the log of a runner?
pub fn is_log_of(path: &Path, runner: RunnerId) -> bool {
    runner_of(path) == Some(runner)
}

impl RunnerLog {
    pub fn open(folder: &Path, pid: u32, runner: RunnerId, is_shown: bool) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let path = folder.join(file_name(pid, runner));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self {
            path,
            file: Mutex::new((file, 0)),
            is_shown,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn line(&self, text: &str) {
        let line = format!("{} {}\n", wall(), text.replace('\n', "\\n"));
        if self.is_shown {
            // A terminal that is gone watches nothing.
            let _ = io::stderr().write_all(line.as_bytes());
        }
        let mut file = self.file.lock().expect("no panic while the lock is held");
        let (file, written) = &mut *file;
        *written += line.len() as u64;
        if *written <= RUNNER_LOG_MAX {
            // What cannot be logged must not keep anybody from working.
            let _ = file.write_all(line.as_bytes());
        }
    }
}
