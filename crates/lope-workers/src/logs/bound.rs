//! All logs together stay within a bound: when enough was written since the last look, a thread of
//! its own counts what is there and removes the oldest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use lope_model::RunId;

/// A look is due when this part of the bound was written.
const CHECK_AFTER: u64 = 16;
/// When logs are removed, so much room is made that the next look has time.
const KEPT_TENTHS: u64 = 9;

/// How much was written since the last look.
#[derive(Debug)]
pub(super) struct LogGrowth {
    max: u64,
    written: AtomicU64,
    looking: Arc<AtomicBool>,
}

/// A file or folder of logs.
struct LogUse {
    newest: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl LogGrowth {
    pub(super) fn new(max: u64) -> Self {
        Self {
            max,
            // Logs of earlier times are looked at soon.
            written: AtomicU64::new(max / CHECK_AFTER),
            looking: Arc::default(),
        }
    }

    pub(super) fn note(&self, folder: &Arc<PathBuf>, bytes: u64) {
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if written < self.max / CHECK_AFTER || self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        self.written.store(0, Ordering::Relaxed);
        let folder = Arc::clone(folder);
        let max = self.max;
        let looking = Arc::clone(&self.looking);
        let thread = std::thread::Builder::new().name("lope-logs".to_owned());
        let spawned = thread.spawn(move || {
            if let Err(error) = trim(&folder, max) {
                tracing::warn!(%error, "logs cannot be kept within their bound");
            }
            looking.store(false, Ordering::Release);
        });
        if spawned.is_err() {
            self.looking.store(false, Ordering::Release);
        }
    }
}

/// Remove the logs of the runs that wrote longest ago; of the last one, its oldest files. Folders
/// that are no run's, such as that of the logs of tasks, have bounds of their own.
pub(super) fn trim(folder: &Path, max: u64) -> io::Result<()> {
    let mut runs = uses(folder, |path| {
        if is_of_run(path) {
            sum(&uses(path, single)?, path)
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    })?;
    let mut total: u64 = runs.iter().map(|run| run.bytes).sum();
    if total <= max {
        return Ok(());
    }
    let wanted = max / 10 * KEPT_TENTHS;
    runs.sort_by_key(|run| run.newest);
    let last = runs.pop();
    for run in runs {
        if total <= wanted {
            return Ok(());
        }
        unless_gone(fs::remove_dir_all(&run.path))?;
        total -= run.bytes;
    }
    let Some(last) = last else { return Ok(()) };
    let mut files = uses(&last.path, single)?;
    files.sort_by_key(|file| file.newest);
    files.pop();
    for file in files {
        if total <= wanted {
            break;
        }
        unless_gone(fs::remove_file(&file.path))?;
        total -= file.bytes;
    }
    Ok(())
}

/// What another process has removed meanwhile is gone as well.
fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

fn is_of_run(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.parse::<RunId>().is_ok())
}

/// Everything in a folder; what is gone meanwhile is left out.
fn uses(folder: &Path, of: impl Fn(&Path) -> io::Result<LogUse>) -> io::Result<Vec<LogUse>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        match of(&entry?.path()) {
            Ok(used) => found.push(used),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn single(path: &Path) -> io::Result<LogUse> {
    let metadata = fs::metadata(path)?;
    Ok(LogUse {
        newest: metadata.modified()?,
        bytes: metadata.len(),
        path: path.to_owned(),
    })
}

fn sum(files: &[LogUse], path: &Path) -> io::Result<LogUse> {
    let newest = files.iter().map(|file| file.newest).max();
    Ok(LogUse {
        newest: newest.map_or_else(|| fs::metadata(path)?.modified(), Ok)?,
        bytes: files.iter().map(|file| file.bytes).sum(),
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, Instant};

    use lope_engine::executor::Token;
    use lope_model::{Epoch, RunId, Timestamp};

    use super::super::{Logs, Stream};
    use super::*;

    fn log(folder: &Path, name: &str, bytes: usize, age: u64) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, vec![b'x'; bytes]).unwrap();
        let at = SystemTime::now() - Duration::from_secs(age);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(at)
            .unwrap();
    }

    fn run(number: u8) -> String {
        RunId::from_bytes([number; 16]).to_string()
    }

    /// "Log files are bounded … in all": whoever writes need not look, that happens beside it.
    #[test]
    fn logs_that_are_written_are_kept_within_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let max = 64_000;
        let logs = Logs::bounded(folder.path().to_owned(), max);
        let write = |run: u128| {
            let token = Token {
                run: RunId::from_bytes(run.to_be_bytes()),
                execution: "a".into(),
                attempt: 1,
                epoch: Epoch(1),
            };
            let line = "x".repeat(4_000);
            logs.begin(&token)
                .line(Timestamp::EPOCH, Stream::Out, &line);
        };
        let kept = || {
            let runs = uses(folder.path(), |path| sum(&uses(path, single)?, path));
            runs.map_or(0, |runs| runs.iter().map(|run| run.bytes).sum::<u64>())
        };
        let mut runs = 0..;
        runs.by_ref().take(100).for_each(write);
        let began = Instant::now();
        while kept() > max {
            assert!(began.elapsed() < Duration::from_secs(120), "{}", kept());
            runs.by_ref().take(1).for_each(write);
            std::thread::yield_now();
        }
        assert!(kept() > 0, "the newest stay");
    }

    #[test]
    fn the_oldest_logs_go_when_all_together_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let has = |name: &str| folder.path().join(name).exists();
        let [old, long, new] = [run(1), run(2), run(3)];
        let [long_a, long_b] = ["a", "b"].map(|step| format!("{long}/{step}.1.log"));
        log(at, &format!("{old}/a.1.log"), 400, 500);
        log(at, &long_a, 400, 400);
        log(at, &long_b, 400, 10);
        log(at, &format!("{new}/a.1.log"), 100, 20);
        trim(at, 2_000).unwrap();
        assert!(has(&old), "there is room");
        trim(at, 1_000).unwrap();
        assert!(!has(&old) && has(&new) && has(&long_a));
        trim(at, 500).unwrap();
        assert!(!has(&new) && !has(&long_a) && has(&long_b));
    }

    /// "Log of run k readable after 10,000 later runs within retention": the logs of tasks are in the
    /// same folder, and older than all that is written now.
    #[test]
    fn what_is_no_runs_folder_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let of_task = format!("tasks/{}/work.1.log", run(9));
        log(folder.path(), &of_task, 400, 900);
        log(folder.path(), &format!("{}/a.1.log", run(1)), 400, 500);
        log(folder.path(), &format!("{}/a.1.log", run(2)), 400, 10);
        trim(folder.path(), 500).unwrap();
        let has = |name: &str| folder.path().join(name).exists();
        assert!(has(&of_task) && !has(&run(1)) && has(&run(2)));
    }
}
