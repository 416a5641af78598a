//! Logs of attempts: `TASK/ROLE-RUN.NUMBER.log` in a folder, keyed by task, run and attempt, a line at a
//! time with its time. What is older than its retention goes. The files are an index of themselves: what
//! was said is found by the id of its task when the store has forgotten that.

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

/// Whose log it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptLog {
    pub task: TaskId,
    pub run: RunId,
    pub role: AttemptRole,
    pub number: i64,
}

/// A log that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundLog {
    pub of: AttemptLog,
    pub begun: SystemTime,
    pub path: PathBuf,
}

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

    pub fn begin(&self, of: AttemptLog, masks: &Masks) -> MaskedLog {
        self.logs.begin_masked(&of.token(), masks)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The logs of tasks whose ids begin so, those of one task by their attempts. Tasks of an earlier life
    /// with the same id come first.
    pub fn found(&self, beginning: &str) -> Vec<FoundLog> {
        let folders = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut found: Vec<FoundLog> = folders
            .filter_map(|folder| Some((folder.file_name().to_str()?.parse().ok()?, folder.path())))
            .filter(|(task, _): &(TaskId, _)| task.to_string().starts_with(beginning))
            .flat_map(|(task, folder)| logs_of(task, &folder))
            .collect();
        found.sort_by_key(|log| (log.of.task, log.begun, log.of.number));
        found
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

impl AttemptLog {
    /// Where it is, below the folder.
    pub fn name(&self) -> String {
        let Self {
            task,
            run,
            role,
            number,
        } = self;
        format!("{task}/{role}-{run}.{number}.log")
    }

    fn token(&self) -> Token {
        Token {
            run: RunId::from_uuid(self.task.uuid()),
            execution: Arc::from(format!("{}-{}", self.role, self.run)),
            attempt: u32::try_from(self.number).unwrap_or(u32::MAX),
            epoch: Epoch(1),
        }
    }

    fn read(task: TaskId, path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".log")?;
        let (of, number) = name.rsplit_once('.')?;
        let (role, run) = of.split_once('-')?;
        Some(Self {
            task,
            run: run.parse().ok()?,
            role: role.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

fn logs_of(task: TaskId, folder: &Path) -> Vec<FoundLog> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let logs = files.filter_map(|file| {
        let path = file.path();
        let made = file.metadata().ok()?;
        Some(FoundLog {
            of: AttemptLog::read(task, &path)?,
            begun: made.created().or_else(|_| made.modified()).ok()?,
            path,
        })
    });
    logs.collect()
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

    use lope_model::Timestamp;
    use lope_workers::logs::Stream;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn of(task: TaskId, number: i64) -> AttemptLog {
        AttemptLog {
            task,
            run: RunId::from_bytes([7; 16]),
            role: AttemptRole::Work,
            number,
        }
    }

    /// "an index can be rebuilt from the files": whose each is, by their names alone, and no two are one.
    #[test]
    fn logs_are_found_by_the_beginning_of_their_tasks_id() {
        let folder = tempfile::tempdir().unwrap();
        let logs = TaskLogs::at(folder.path().join("tasks"));
        assert_eq!(logs.found(""), []);
        let task = TaskId::from_bytes([1; 16]);
        let other_run = AttemptLog {
            run: RunId::from_bytes([8; 16]),
            ..of(task, 1)
        };
        let review = AttemptLog {
            role: AttemptRole::Review,
            ..of(task, 2)
        };
        let elsewhere = of(TaskId::from_bytes([2; 16]), 1);
        for it in [of(task, 1), other_run, review, elsewhere] {
            let mut log = logs.begin(it, &Masks::default());
            assert_eq!(log.name(), it.name());
            log.push(Timestamp::from_millis(0), Stream::Out, b"said\n");
        }
        fs::write(logs.path(&format!("{task}/notes.log")), "").unwrap();
        fs::create_dir(logs.path("no-task")).unwrap();
        let mut found: Vec<String> = logs.found("0101").iter().map(|it| it.of.name()).collect();
        let mut wanted = [of(task, 1), other_run, review].map(|it| it.name());
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
        assert_eq!(logs.found("").len(), 4);
        for log in logs.found("") {
            let text = fs::read_to_string(&log.path).unwrap();
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }

    /// A log that was written so long ago.
    fn written(logs: &TaskLogs, task: TaskId, number: i64, ago: Duration) -> PathBuf {
        let path = logs.path(&of(task, number).name());
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
