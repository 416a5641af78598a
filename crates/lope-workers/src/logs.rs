//! Logs: one file per run, execution and attempt, a line at a time, with its time and its stream.
//!
//! `LOGS/RUN/EXECUTION.ATTEMPT.log`, where the characters of the execution that file names dislike are written as `+`.
//! Files are private to the user.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use lope_engine::executor::Token;
use lope_model::{RunId, Timestamp};

/// Most bytes of one log; what comes after is counted, not kept.
pub const LOG_MAX: u64 = 16 * 1024 * 1024;

/// Where a line came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    Out,
    Err,
}

/// The folder of logs.
#[derive(Clone, Debug)]
pub struct Logs {
    folder: Arc<PathBuf>,
}

/// One attempt's log, open for writing.
#[derive(Debug)]
pub struct Log {
    name: String,
    file: Option<File>,
    written: u64,
    dropped: u64,
}

/// A log that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    pub execution: String,
    pub attempt: u32,
    pub path: PathBuf,
}

impl Logs {
    pub fn at(folder: PathBuf) -> Self {
        Self { folder: Arc::new(folder) }
    }

    /// Begin the log of an attempt. A log that cannot be written is told once and does not keep the work from being done.
    pub fn begin(&self, token: &Token) -> Log {
        let file = self.create(token);
        if let Err(error) = &file {
            tracing::warn!(run = %token.run, execution = %token.execution, %error, "no log can be written");
        }
        Log { name: log_name(token), file: file.ok(), written: 0, dropped: 0 }
    }

    /// The logs of a run, by time of their beginning.
    pub fn of_run(&self, run: RunId) -> io::Result<Vec<LogEntry>> {
        let folder = self.folder.join(run.to_string());
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let made = entry.metadata()?.created().or_else(|_| entry.metadata()?.modified())?;
            if let Some(log) = parse_name(&entry.path()) {
                entries.push((made, log));
            }
        }
        entries.sort_by(|a, b| (a.0, &a.1.execution, a.1.attempt).cmp(&(b.0, &b.1.execution, b.1.attempt)));
        Ok(entries.into_iter().map(|(_, log)| log).collect())
    }

    fn create(&self, token: &Token) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join(token.run.to_string()))?;
        OpenOptions::new().create(true).append(true).mode(0o600).open(self.folder.join(log_name(token)))
    }
}

impl Log {
    /// Its path in the folder of logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn line(&mut self, at: Timestamp, stream: Stream, text: &str) {
        let Some(file) = &mut self.file else { return };
        let name = match stream {
            Stream::Out => "out",
            Stream::Err => "err",
        };
        let line = format!("{at} {name} {text}\n");
        if self.written + line.len() as u64 > LOG_MAX {
            self.dropped += 1;
            return;
        }
        self.written += line.len() as u64;
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::warn!(%error, "a log line was lost");
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let (Some(file), 1..) = (&mut self.file, self.dropped) {
            // Nothing more can be done about a log that cannot be written.
            let _ = writeln!(file, "… {} more lines were not kept", self.dropped);
        }
    }
}

fn log_name(token: &Token) -> String {
    format!("{}/{}.{}.log", token.run, file_name(&token.execution), token.attempt)
}

/// An execution's path as a file name: other characters than letters, digits, `-`, `_` become `+`, a long one is cut and made
/// unique by its digest.
fn file_name(execution: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '+' };
    let name: String = execution.chars().map(plain).collect();
    if name.len() <= 150 {
        return name;
    }
    format!("{}+{:016x}", &name[..120], lope_model::Digest::of(execution.as_bytes()).short())
}

fn parse_name(path: &std::path::Path) -> Option<LogEntry> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".log")?;
    let (execution, attempt) = stem.rsplit_once('.')?;
    Some(LogEntry { execution: execution.replace('+', "/"), attempt: attempt.parse().ok()?, path: path.to_owned() })
}
