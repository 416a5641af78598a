//! Logs: one file per run, execution and attempt, a line at a time, with its time and its stream.
//!
//! `LOGS/RUN/EXECUTION.ATTEMPT.log`, named as in `name`. Files are private to the user.

mod bound;
mod name;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bound::LogGrowth;
use lope_engine::PrunedListener;
use lope_engine::executor::Token;
use lope_engine::secret::Masks;
use lope_model::masks::MaskedStream;
use lope_model::{RunId, Timestamp};

/// Most bytes of one log; what comes after is counted, not kept.
pub const LOG_MAX: u64 = 16 * 1024 * 1024;

/// Most bytes of all logs of a folder, up to what is written while it is looked: the oldest go
/// first.
pub const LOGS_MAX: u64 = 2 * 1024 * 1024 * 1024;

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
    growth: Arc<LogGrowth>,
    log_max: u64,
}

/// One attempt's log, open for writing.
#[derive(Debug)]
pub struct Log {
    name: String,
    file: Option<File>,
    written: u64,
    dropped: u64,
    logs: Logs,
}

/// A log that shows no secrets, also none that comes in two pieces of a long line, or over several
/// lines: a line that may be the beginning of one waits for the next.
#[derive(Debug)]
pub struct MaskedLog {
    log: Log,
    out: MaskedLines,
    err: MaskedLines,
}

/// What comes in on one stream.
#[derive(Debug)]
struct MaskedLines {
    stream: MaskedStream,
    /// The beginning of a line whose end is kept back.
    begun: Vec<u8>,
}

/// Most bytes of a line that wait for its end.
const BEGUN_MAX: usize = 64 * 1024;

impl MaskedLines {
    fn of(masks: &Masks) -> Self {
        Self {
            stream: masks.stream(),
            begun: Vec::new(),
        }
    }

    fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let shown = self.stream.push(piece);
        self.begun.extend(shown);
        let is_cut = piece.ends_with(b"\n") && self.stream.is_holding();
        if is_cut && self.begun.len() < BEGUN_MAX {
            return Vec::new();
        }
        std::mem::take(&mut self.begun)
    }

    fn finish(&mut self) -> Vec<u8> {
        let shown = self.stream.finish();
        self.begun.extend(shown);
        std::mem::take(&mut self.begun)
    }
}

/// What was kept back until the end, by stream.
#[derive(Debug, Default)]
pub struct LastWords {
    pub out: Vec<String>,
    pub err: Vec<String>,
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
        Self::bounded(folder, LOGS_MAX)
    }

    /// A folder whose logs have at most so many bytes together.
    pub fn bounded(folder: PathBuf, max: u64) -> Self {
        Self {
            folder: Arc::new(folder),
            growth: Arc::new(LogGrowth::new(max)),
            log_max: LOG_MAX,
        }
    }

    /// The same, where one log has at most so many bytes.
    #[must_use]
    pub fn of_at_most(mut self, log_max: u64) -> Self {
        self.log_max = log_max;
        self
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The logs of runs that are gone go too.
    pub fn remove(&self, runs: &[RunId]) {
        for run in runs {
            let folder = self.folder.join(run.to_string());
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%run, %error, "its logs cannot be removed");
                }
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// Begin the log of an attempt. A log that cannot be written is told once and does not keep the
    /// work from being done.
    pub fn begin(&self, token: &Token) -> Log {
        let file = self.create(token);
        if let Err(error) = &file {
            tracing::warn!(run = %token.run, execution = %token.execution, attempt = token.attempt, %error, "no log can be written");
        }
        Log {
            name: log_name(token),
            file: file.ok(),
            written: 0,
            dropped: 0,
            logs: self.clone(),
        }
    }

    /// The same, without what must not be seen.
    pub fn begin_masked(&self, token: &Token, masks: &Masks) -> MaskedLog {
        MaskedLog {
            log: self.begin(token),
            out: MaskedLines::of(masks),
            err: MaskedLines::of(masks),
        }
    }

    /// The logs of a run, by time of their beginning.
    pub fn of_run(&self, run: RunId) -> io::Result<Vec<LogEntry>> {
        let folder = self.folder.join(run.to_string());
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let made = entry
                .metadata()?
                .created()
                .or_else(|_| entry.metadata()?.modified())?;
            if let Some(log) = name::read(&entry.path()) {
                entries.push((made, log));
            }
        }
        entries.sort_by(|a, b| {
            (a.0, &a.1.execution, a.1.attempt).cmp(&(b.0, &b.1.execution, b.1.attempt))
        });
        Ok(entries.into_iter().map(|(_, log)| log).collect())
    }

    fn create(&self, token: &Token) -> io::Result<File> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.folder.join(token.run.to_string()))?;
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.folder.join(log_name(token)))?;
        if let Some(title) = name::title(&token.execution)
            && file.metadata()?.len() == 0
        {
            file.write_all(title.as_bytes())?;
        }
        Ok(file)
    }
}

/// Removing is no work for the thread that prunes.
impl PrunedListener for Logs {
    fn pruned(&self, runs: &[RunId]) {
        let logs = self.clone();
        let runs = runs.to_vec();
        let removing = std::thread::Builder::new().name("lope-logs".to_owned());
        if let Err(error) = removing.spawn(move || logs.remove(&runs)) {
            tracing::warn!(%error, "logs of runs that are gone stay");
        }
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
        if self.written + line.len() as u64 > self.logs.log_max {
            self.dropped += 1;
            return;
        }
        self.written += line.len() as u64;
        self.logs.growth.note(&self.logs.folder, line.len() as u64);
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::warn!(log = self.name, %error, "a log line was lost");
        }
    }
}

impl MaskedLog {
    /// Its path in the folder of logs.
    pub fn name(&self) -> &str {
        self.log.name()
    }

    /// A line with its end, or a piece of one that is too long. The answer is what was written.
    pub fn push(&mut self, at: Timestamp, stream: Stream, piece: &[u8]) -> Vec<String> {
        let shown = match stream {
            Stream::Out => self.out.push(piece),
            Stream::Err => self.err.push(piece),
        };
        self.write(at, stream, &shown)
    }

    /// Write what was kept back.
    pub fn finish(&mut self, at: Timestamp) -> LastWords {
        let out = self.out.finish();
        let err = self.err.finish();
        LastWords {
            out: self.write(at, Stream::Out, &out),
            err: self.write(at, Stream::Err, &err),
        }
    }

    fn write(&mut self, at: Timestamp, stream: Stream, bytes: &[u8]) -> Vec<String> {
        if bytes.is_empty() {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(bytes);
        let lines = text.strip_suffix('\n').unwrap_or(&text).split('\n');
        lines
            .map(|line| {
                self.log.line(at, stream, line);
                line.trim_end().to_owned()
            })
            .collect()
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
    let file = name::of(&token.execution, token.attempt);
    format!("{}/{file}", token.run)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lope_model::Epoch;

    use super::*;

    fn token() -> Token {
        Token {
            run: RunId::from_bytes([1; 16]),
            execution: Arc::from("a"),
            attempt: 1,
            epoch: Epoch(1),
        }
    }

    /// The texts of a log that was pushed these pieces to its standard output.
    fn logged(secret: &str, pieces: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::at(folder.path().to_owned());
        let mut log = logs.begin_masked(&token(), &Masks::of([Arc::from(secret)]));
        let now = Timestamp::from_millis(0);
        let mut said = Vec::new();
        for piece in pieces {
            said.extend(log.push(now, Stream::Out, piece.as_bytes()));
            log.push(now, Stream::Err, b"beside\n");
        }
        said.extend(log.finish(now).out);
        let read = fs::read_to_string(folder.path().join(log.name())).unwrap();
        let lines = read.lines().filter_map(|line| line.split_once(" out "));
        let lines: Vec<String> = lines.map(|(_, text)| text.to_owned()).collect();
        let trimmed: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        assert_eq!(trimmed, said);
        lines
    }

    #[test]
    fn a_secret_of_several_short_lines_is_not_seen() {
        let secret = "ab\ncd\nef\n";
        assert_eq!(
            logged(secret, &["x ab\n", "cd\n", "ef\n", "y\n"]),
            ["x ***", "y"]
        );
        assert_eq!(logged(secret, &["ab\r\n", "cd\r\n", "ef"]), ["***"]);
        // What only began like it is written as it is, line by line.
        assert_eq!(
            logged(secret, &["ab\n", "cd\n", "gh\n", "\n"]),
            ["ab", "cd", "gh", ""]
        );
        assert_eq!(logged(secret, &["ab\n", "cd\n"]), ["ab", "cd"]);
    }

    /// Each is found by its own path, with what it wrote itself and nothing else.
    #[test]
    fn logs_of_two_executions_are_never_one() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::at(folder.path().to_owned());
        let long = |end: &str| format!("{}/{end}", "z".repeat(200));
        let executions = ["schritt_\u{e4}".to_owned(), "schritt_\u{f6}".to_owned()];
        let executions = executions.into_iter().chain([long("a"), long("b")]);
        let executions: Vec<String> = executions.collect();
        for execution in &executions {
            let token = Token {
                execution: Arc::from(&**execution),
                ..token()
            };
            // An attempt that is begun again goes on with its log.
            for text in ["first", "second"] {
                let text = format!("{text} of {execution}");
                let mut log = logs.begin(&token);
                log.line(Timestamp::from_millis(0), Stream::Out, &text);
            }
        }
        let entries = logs.of_run(token().run).unwrap();
        assert_eq!(entries.len(), executions.len());
        for execution in &executions {
            let of_it = |entry: &&LogEntry| entry.execution == *execution;
            let entry = entries.iter().find(of_it).unwrap();
            let read = fs::read_to_string(&entry.path).unwrap();
            let said = read.lines().filter_map(|line| line.split_once(" out "));
            let said: Vec<&str> = said.map(|(_, text)| text).collect();
            let wanted = ["first", "second"].map(|text| format!("{text} of {execution}"));
            assert_eq!(said, wanted);
            let titles = read.lines().count() - said.len();
            assert_eq!(titles, usize::from(execution.len() > 150), "{read}");
        }
    }

    /// "log files are bounded each"
    #[test]
    fn a_log_that_is_full_keeps_its_beginning_and_counts_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::at(folder.path().to_owned()).of_at_most(1_000);
        let mut log = logs.begin(&token());
        let path = folder.path().join(log.name());
        for number in 0..100 {
            let text = format!("line {number:02}");
            log.line(Timestamp::from_millis(0), Stream::Out, &text);
        }
        drop(log);
        let read = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = read.lines().collect();
        let (told, kept) = lines.split_last().unwrap();
        for (number, line) in kept.iter().enumerate() {
            assert!(line.ends_with(&format!(" out line {number:02}")), "{line}");
        }
        let size: usize = kept.iter().map(|line| line.len() + 1).sum();
        assert!((900..=1_000).contains(&size), "{size}: {read}");
        let rest = 100 - kept.len();
        assert_eq!(*told, format!("… {rest} more lines were not kept"));
    }

    /// "JSON-escaped, split at a buffer's edge"
    #[test]
    fn an_escaped_secret_that_comes_in_pieces_is_not_seen() {
        let written = r#"p\/q\b\u003cr\u003E\u00E4\"s"#;
        for at in 0..=written.len() {
            let first = format!("before {}", &written[..at]);
            let second = format!("{} after\n", &written[at..]);
            let text = logged("p/q\u{8}<r>ä\"s", &[&first, &second]).concat();
            assert_eq!(text, "before *** after", "{at}");
        }
    }

    /// "split at a buffer's edge"
    #[test]
    fn a_secret_that_comes_in_pieces_is_not_seen() {
        let secret = "s3cret-word";
        for at in 0..=secret.len() {
            let folder = tempfile::tempdir().unwrap();
            let logs = Logs::at(folder.path().to_owned());
            let mut log = logs.begin_masked(&token(), &Masks::of([Arc::from(secret)]));
            let now = Timestamp::from_millis(0);
            let (first, second) = secret.split_at(at);
            let mut said = Vec::new();
            said.extend(log.push(now, Stream::Out, format!("before {first}").as_bytes()));
            said.extend(log.push(now, Stream::Err, b"beside\n"));
            said.extend(log.push(now, Stream::Out, format!("{second} after").as_bytes()));
            said.extend(log.finish(now).out);
            let text = said.concat();
            assert!(
                text.contains("***") && !text.contains("s3c"),
                "{at}: {text}"
            );
            let read = fs::read_to_string(folder.path().join(log.name())).unwrap();
            assert!(
                read.contains("after") && !read.contains("word"),
                "{at}: {read}"
            );
        }
    }
}
