//! Logs of attempts: `TASK/ROLE.NUMBER.log` in a folder, keyed by task and attempt, a line at a time
//! with its time. What is older than its retention goes; an index is what the folder holds.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use lope_agents::records::AttemptRole;
use lope_engine::executor::Token;
use lope_model::id::TaskId;
use lope_model::masks::Masks;
use lope_model::{Epoch, RunId, Span};
use lope_workers::Logs;
use lope_workers::logs::MaskedLog;

/// Whose log was written just now may be about to begin.
const RETENTION_MIN: Span = Span::from_secs(60);

/// Most bytes of one attempt's log.
const TASK_LOG_MAX: u64 = 256 * 1024 * 1024;

/// The folder of the logs of attempts.
#[derive(Clone, Debug)]
pub struct TaskLogs {
    folder: PathBuf,
    logs: Logs,
}

impl TaskLogs {
    pub fn at(folder: PathBuf) -> Self {
        Self {
            logs: Logs::at(folder.clone()).of_at_most(TASK_LOG_MAX),
            folder,
        }
    }

    pub fn begin(&self, task: TaskId, role: AttemptRole, number: i64, masks: &Masks) -> MaskedLog {
        self.logs.begin_masked(&token(task, role, number), masks)
    }

    /// Where an attempt's log is, below the folder.
    pub fn name(task: TaskId, role: AttemptRole, number: i64) -> String {
        format!("{task}/{role}.{number}.log")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Take away what nobody wrote to for so long, but not the logs of tasks that are held: who works
    /// on one may be silent for long.
    pub fn remove_older(&self, retention: Span, held: &BTreeSet<TaskId>) -> io::Result<usize> {
        remove_older(&self.folder, retention, &|path: &Path| {
            let folder = path.parent().and_then(Path::file_name);
            let task = folder.and_then(|name| name.to_str()?.parse::<TaskId>().ok());
            task.is_some_and(|task| held.contains(&task))
        })
    }
}

fn token(task: TaskId, role: AttemptRole, number: i64) -> Token {
    Token {
        run: RunId::from_uuid(task.uuid()),
        execution: Arc::from(role.as_str()),
        attempt: u32::try_from(number).unwrap_or(u32::MAX),
        epoch: Epoch(1),
    }
}

/// Take away the logs of a folder that nobody wrote to for so long, and folders that are empty then;
/// not those that are still written.
pub fn remove_older(
    folder: &Path,
    retention: Span,
    is_written: &dyn Fn(&Path) -> bool,
) -> io::Result<usize> {
    let mut removed = 0;
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries.flatten() {
        removed += match remove_if_older(&entry, retention, is_written) {
            // Another runner has taken it away meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            count => count?,
        };
    }
    Ok(removed)
}

fn remove_if_older(
    entry: &fs::DirEntry,
    retention: Span,
    is_written: &dyn Fn(&Path) -> bool,
) -> io::Result<usize> {
    let path = entry.path();
    let kind = entry.file_type()?;
    if kind.is_dir() {
        let removed = remove_older(&path, retention, is_written)?;
        // It is gone only if nothing is in it.
        let _ = fs::remove_dir(&path);
        return Ok(removed);
    }
    let is_log = path.extension().is_some_and(|end| end == "log");
    let age = entry.metadata()?.modified().ok();
    let age = age.and_then(|at| SystemTime::now().duration_since(at).ok());
    let most = retention.max(RETENTION_MIN).to_duration();
    let is_young = age.is_none_or(|age| age <= most);
    if !is_log || !kind.is_file() || is_young || is_written(&path) {
        return Ok(0);
    }
    fs::remove_file(&path)?;
    Ok(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    /// A log that was written so long ago.
    fn written(logs: &TaskLogs, task: TaskId, number: i64, ago: Duration) -> PathBuf {
        let path = logs.path(&TaskLogs::name(task, AttemptRole::Work, number));
        fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        let file = fs::File::create(&path).unwrap();
        file.set_modified(SystemTime::now() - ago).unwrap();
        path
    }

    /// Take away what is old when nobody works.
    fn remove(logs: &TaskLogs, retention: Span) -> usize {
        logs.remove_older(retention, &BTreeSet::new()).unwrap()
    }

    /// An agent that computes in silence still writes to its log, and so does who begins just now.
    #[test]
    fn the_log_of_a_task_that_is_held_stays_whatever_the_retention() {
        let folder = tempfile::tempdir().unwrap();
        let logs = TaskLogs::at(folder.path().join("tasks"));
        let [held, left, begun] = [1, 2, 3].map(|byte| TaskId::from_bytes([byte; 16]));
        let stays = written(&logs, held, 1, DAY);
        let goes = written(&logs, left, 1, DAY);
        let young = written(&logs, begun, 1, Duration::from_millis(10));
        let held = BTreeSet::from([held]);
        assert_eq!(logs.remove_older(Span::ZERO, &held).unwrap(), 1);
        let there = [stays, goes, young].map(|path| path.exists());
        assert_eq!(there, [true, false, true]);
    }

    /// "Log of run k readable after 10,000 later runs within retention", and "retention by age".
    #[test]
    fn a_log_is_there_after_ten_thousand_later_ones_until_it_is_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let logs = TaskLogs::at(folder.path().join("tasks"));
        assert_eq!(remove(&logs, Span::from_secs(1)), 0, "none yet");
        let task = |number: u128| TaskId::from_bytes(number.to_be_bytes());
        let (first, old) = (task(1), task(2));
        let kept = written(&logs, first, 1, DAY * 6);
        fs::write(&kept, "what it said").unwrap();
        fs::File::options()
            .write(true)
            .open(&kept)
            .unwrap()
            .set_modified(SystemTime::now() - DAY * 6)
            .unwrap();
        let gone = written(&logs, old, 1, DAY * 8);
        let stays = written(&logs, first, 2, Duration::ZERO);
        for number in 0..10_000_u32 {
            let later = task(3 + u128::from(number % 100));
            written(&logs, later, i64::from(number), Duration::ZERO);
        }
        let retention = Span::from_secs(7 * 24 * 60 * 60);
        assert_eq!(remove(&logs, retention), 1);
        assert_eq!(fs::read_to_string(&kept).unwrap(), "what it said");
        assert!(stays.exists());
        assert!(!gone.exists() && !gone.parent().unwrap().exists());
    }

    /// A wake-up starts many runners at once, and each of them takes old logs away.
    #[test]
    fn several_take_old_logs_away_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let logs = TaskLogs::at(folder.path().join("tasks"));
        for number in 0..400_u32 {
            let task = TaskId::from_bytes(u128::from(number % 40).to_be_bytes());
            written(&logs, task, i64::from(number), DAY * 8);
        }
        let retention = Span::from_secs(7 * 24 * 60 * 60);
        let removed: usize = std::thread::scope(|scope| {
            let begin = || scope.spawn(|| remove(&logs, retention));
            let all: Vec<_> = (0..8).map(|_| begin()).collect();
            all.into_iter().map(|it| it.join().unwrap()).sum()
        });
        assert_eq!(removed, 400);
        assert_eq!(fs::read_dir(logs.path("")).unwrap().count(), 0);
    }
}
