//! Logs as they are printed: all of a file, its end, or what comes while it grows.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lope::agents::law::ProcessProof;
use lope::agents::records::{AgentRunnerRecord, RunnerStatus};
use lope::agents::{BoardError, LocalMachine, ProcessFacts};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::context::AgentsContext;
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};

/// Most bytes of a log that are read at once: its end.
const TAIL_MAX: u64 = 16 * 1024 * 1024;
const POLL: Duration = Duration::from_millis(100);

/// How much of a log is printed.
#[derive(Clone, Copy)]
pub(crate) struct LogExtent {
    /// At most so many lines, the last ones.
    pub(crate) limit: usize,
    /// Or all of it, and what comes, until whoever writes it has ended.
    pub(crate) follow: bool,
}

/// Print a log.
pub(crate) async fn printed<F>(
    path: &Path,
    extent: LogExtent,
    context: &AgentsContext,
    has_ended: impl FnMut() -> F,
) -> CommandResult
where
    F: Future<Output = bool>,
{
    if extent.follow {
        let print = |line: &str| {
            if context.json {
                (context.print)(&line_json(line).to_string());
            } else {
                (context.print)(line);
            }
        };
        let followed = follow(path, print, has_ended).await;
        followed.map_err(|error| unread(path, &error))?;
        return Ok(CommandReport::streamed());
    }
    let lines = tail(path, extent.limit).await;
    let lines = lines.map_err(|error| unread(path, &error))?;
    let value: Json = lines.iter().map(|line| line_json(line)).collect();
    Ok(CommandReport::document(value, lines.join("\n")))
}

/// Has a runner ended, or is its process proven to be gone? It writes nothing more then.
pub(crate) fn is_over(runner: &AgentRunnerRecord) -> bool {
    let has_ended = matches!(
        runner.status,
        RunnerStatus::Completed | RunnerStatus::Failed
    );
    has_ended || LocalMachine.proof(runner) == ProcessProof::Gone
}

pub(crate) fn unread(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(CommandExit::Failed, format!("{}: {error}", path.display()))
}

/// The last of the logs that were found under a name; they must be of one thing.
pub(crate) fn of_one<Id: Ord + ToString>(
    mut found: Vec<(Id, PathBuf)>,
    what: &'static str,
    named: &str,
) -> Result<PathBuf, BoardError> {
    let last = found.pop();
    let is_one = |last: &Id| found.iter().all(|(id, _)| id == last);
    match last {
        Some((id, path)) if is_one(&id) => Ok(path),
        Some((id, _)) => {
            let ids: BTreeSet<Id> = found.into_iter().map(|(id, _)| id).chain([id]).collect();
            Err(BoardError::Ambiguous {
                name: named.to_owned(),
                matches: ids.iter().map(ToString::to_string).collect(),
            })
        }
        None => Err(BoardError::Missing {
            what,
            name: named.to_owned(),
        }),
    }
}

/// There is no such log, or no more.
pub(crate) fn no_log(message: String) -> CommandError {
    CommandError::new(CommandExit::Failed, message)
        .hint("logs are kept on the machine of the runner, as long as runners.logRetention says")
}

/// A line with its time.
pub(crate) fn line_json(line: &str) -> Json {
    let (at, text) = line.split_once(' ').unwrap_or(("", line));
    json!({ "at": at, "text": text })
}

/// The last lines of a file.
pub(crate) async fn tail(path: &Path, limit: usize) -> io::Result<Vec<String>> {
    let mut file = tokio::fs::File::open(path).await?;
    let length = file.metadata().await?.len();
    let from = length.saturating_sub(TAIL_MAX);
    file.seek(io::SeekFrom::Start(from)).await?;
    let mut bytes = Vec::new();
    file.take(TAIL_MAX).read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line of a part is a piece of one.
    let lines = text.lines().skip(usize::from(from > 0));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.drain(..lines.len().saturating_sub(limit));
    Ok(lines)
}

/// Print a file's lines as they come, until whoever writes it has ended.
async fn follow<F>(
    path: &Path,
    print: impl Fn(&str),
    mut has_ended: impl FnMut() -> F,
) -> io::Result<()>
where
    F: Future<Output = bool>,
{
    let mut file = tokio::fs::File::open(path).await?;
    let mut rest = Vec::new();
    let mut bytes = vec![0; 64 * 1024];
    loop {
        // What was written before the end is printed.
        let ended = has_ended().await;
        loop {
            let count = file.read(&mut bytes).await?;
            if count == 0 {
                break;
            }
            rest.extend_from_slice(&bytes[..count]);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                print(String::from_utf8_lossy(&line[..end]).as_ref());
            }
        }
        if ended {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}
