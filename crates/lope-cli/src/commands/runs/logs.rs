//! `lope runs logs`: what a run's steps wrote, as it was, or as it comes.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use lope::runs::RunRecord;
use lope::workers::LogEntry;
use lope::workers::Logs;
use lope::{Client, Redaction};
use serde_json::{Value as Json, json};

use super::find::{find, found};
use crate::commands::shown;
use crate::error::{CliError, CliResult, Exit};
use crate::output::{self, Output};
use crate::progress;

pub(crate) async fn run(
    client: &Client,
    logs: &Logs,
    id: &str,
    follow: bool,
    output: Output,
) -> CliResult<Exit> {
    let mut record = find(client, id).await?;
    let redaction = shown::redact(client, &mut record).await?;
    if follow {
        return Tail {
            redaction,
            seen: HashMap::new(),
            last: None,
            output,
        }
        .follow(client, logs, record)
        .await;
    }
    let (mut values, mut text) = (Vec::new(), String::new());
    for entry in logs.of_run(record.run).unwrap_or_default() {
        let lines = hidden(&entry, read_from(&entry.path, 0)?, redaction.as_ref());
        text.extend([title(&entry), "\n".to_owned(), lines.clone()]);
        values
            .push(json!({ "execution": entry.execution, "attempt": entry.attempt, "text": lines }));
    }
    let text = if text.is_empty() {
        "no logs".to_owned()
    } else {
        text
    };
    output.document(&Json::Array(values), &text);
    Ok(Exit::Done)
}

/// What was told of each log so far.
struct Tail {
    seen: HashMap<PathBuf, u64>,
    last: Option<PathBuf>,
    output: Output,
    redaction: Option<Redaction>,
}

impl Tail {
    async fn follow(
        mut self,
        client: &Client,
        logs: &Logs,
        mut record: RunRecord,
    ) -> CliResult<Exit> {
        let mut watch = client.watch();
        loop {
            let ended = record.status.is_final();
            for entry in logs.of_run(record.run).unwrap_or_default() {
                self.tell(&entry, ended)?;
            }
            if ended {
                return Ok(Exit::Done);
            }
            progress::pause(&mut watch).await;
            record = found(client.run(record.run).await?, record.run)?;
            if self.redaction.is_some() {
                // What the run gave meanwhile is hidden too.
                self.redaction = shown::redact(client, &mut record).await?;
            }
        }
    }

    /// Tell what came since, whole lines only while more may come.
    fn tell(&mut self, entry: &LogEntry, ended: bool) -> CliResult<()> {
        let seen = self.seen.entry(entry.path.clone()).or_default();
        let fresh = read_from(&entry.path, *seen)?;
        let end = if ended {
            fresh.len()
        } else {
            fresh.rfind('\n').map_or(0, |last| last + 1)
        };
        let fresh = &fresh[..end];
        if fresh.is_empty() {
            return Ok(());
        }
        *seen += fresh.len() as u64;
        let fresh = hidden(entry, fresh.to_owned(), self.redaction.as_ref());
        let fresh = &*fresh;
        if self.output.json {
            for line in fresh.lines() {
                output::line(
                    &json!({ "execution": entry.execution, "attempt": entry.attempt, "line": line }),
                );
            }
            return Ok(());
        }
        if self.last.as_ref() != Some(&entry.path) {
            output::text(&title(entry));
            self.last = Some(entry.path.clone());
        }
        output::text(fresh.trim_end_matches('\n'));
        Ok(())
    }
}

/// A piece of a log as it may be shown.
fn hidden(entry: &LogEntry, text: String, redaction: Option<&Redaction>) -> String {
    match redaction {
        None => text,
        Some(it) if it.hides_log(&entry.execution) => {
            format!("{}\n", it.left_out())
        }
        Some(it) => it.text(&text),
    }
}

fn title(entry: &LogEntry) -> String {
    format!("── {} attempt {}", entry.execution, entry.attempt)
}

fn read_from(path: &Path, from: u64) -> CliResult<String> {
    let read = || {
        let mut file = std::fs::File::open(path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let bytes = read()
        .map_err(|error| CliError::new(Exit::Failed, format!("{}: {error}", path.display())))?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()))
}
