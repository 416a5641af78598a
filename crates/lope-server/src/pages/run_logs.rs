//! What the steps of a run wrote. The log of an attempt that is under way is followed while one
//! looks.

use std::io;
use std::sync::Arc;

use lope::Redaction;
use lope::runs::{Execution, ExecutionStatus, Historian};
use lope::workers::LogEntry;
use lope_http::log_file::{read_from, shares, whole_characters};
use maud::{Markup, html};

use super::encoded;
use super::run_page::RunPage;
use crate::api::views::shown_tail;

/// Bytes of all logs on the page.
const LOGS_BYTES: u64 = 48 * 1024;
const LOGS: usize = 20;
/// Logs that are followed at once: a browser gives a server six connections, for all of its tabs.
const FOLLOWED: usize = 2;

/// The logs that a page shows, oldest first.
pub(crate) struct ShownLogs {
    logs: Vec<ShownLog>,
    left_out: usize,
}

struct ShownLog {
    execution: String,
    attempt: u32,
    /// The end of it, and the bytes at which that begins and ends.
    text: io::Result<(String, u64, u64)>,
    /// Where its further lines come from.
    events: Option<String>,
}

/// Attempts at work, those that began last first.
fn under_way<'a>(executions: impl Iterator<Item = &'a Execution>) -> Vec<(Arc<str>, u32)> {
    let running = executions.filter(|it| it.status == ExecutionStatus::Running);
    let attempts = running.filter_map(|it| Some((it, it.attempts.last()?)));
    let open = attempts.filter(|(_, last)| last.finished_at.is_none() && last.child.is_none());
    let mut open: Vec<_> = open.collect();
    open.sort_by_key(|(_, last)| std::cmp::Reverse(last.dispatched_at));
    let named = open.into_iter();
    named
        .map(|(it, last)| (Arc::clone(&it.id), last.number))
        .collect()
}

impl ShownLogs {
    /// Of one execution or of all.
    pub(crate) fn of(
        page: &RunPage<'_>,
        execution: Option<&str>,
        history: Option<&Historian<'_>>,
        redaction: Option<&Redaction>,
    ) -> Self {
        let is_asked = |path: &str| execution.is_none_or(|asked| asked == path);
        let entries = page.context.logs.of_run(page.record.run);
        let entries = entries.unwrap_or_default().into_iter();
        let mut entries: Vec<LogEntry> = entries.filter(|it| is_asked(&it.execution)).collect();
        let left_out = entries.len().saturating_sub(LOGS);
        entries.drain(..left_out);
        let mut live = under_way(history.into_iter().flat_map(Historian::executions));
        // What is hidden in a log is hidden line by line: it is read anew as a whole.
        live.retain(|(path, _)| is_asked(path) && redaction.is_none());
        live.truncate(FOLLOWED);
        let shares = shares(entries.iter().map(|it| it.path.as_path()), LOGS_BYTES);
        let mut logs: Vec<ShownLog> = entries
            .iter()
            .zip(shares)
            .map(|(entry, most)| ShownLog::of(page, entry, &live, end_of(entry, most, redaction)))
            .collect();
        // A log that is not there yet is waited for.
        for (path, attempt) in live {
            let is_there = |it: &ShownLog| it.execution == *path && it.attempt == attempt;
            if !logs.iter().any(is_there) {
                logs.push(ShownLog {
                    text: Ok((String::new(), 0, 0)),
                    events: Some(events(page, &path, attempt, 0)),
                    execution: path.to_string(),
                    attempt,
                });
            }
        }
        Self { logs, left_out }
    }

    /// Differs if something is to be shown that those who follow are not told.
    pub(crate) fn mark(&self) -> String {
        let marks = self.logs.iter().map(|log| {
            let end = match (&log.events, &log.text) {
                (Some(_), _) => "followed".to_owned(),
                (None, Ok((_, _, end))) => end.to_string(),
                (None, Err(_)) => "?".to_owned(),
            };
            format!("{}#{}:{end}", log.execution, log.attempt)
        });
        marks.collect::<Vec<_>>().join(" ")
    }

    fn is_empty(&self) -> bool {
        let mut texts = self.logs.iter().map(|log| &log.text);
        texts.all(|text| text.as_ref().is_ok_and(|(text, _, _)| text.is_empty()))
    }

    pub(crate) fn markup(&self, of_one: bool) -> Markup {
        html! {
            @if self.is_empty() && !of_one { div.card.silent { div.empty { "Its steps wrote nothing on this machine." } } }
            @if self.left_out > 0 { p.dim { (self.left_out) " older logs are left out; the API has them." } }
            @for log in &self.logs {
                div.card {
                    h2 { code { (log.execution) } span.dim { " attempt " (log.attempt) } }
                    @match &log.text {
                        Ok((text, from, _)) => {
                            @if *from > 0 { p.dim { (from) " bytes before this are left out." } }
                            pre data-log=[log.events.as_ref()] { (text) }
                        }
                        Err(error) => p.dim { (error) }
                    }
                }
            }
        }
    }
}

impl ShownLog {
    fn of(
        page: &RunPage<'_>,
        entry: &LogEntry,
        live: &[(Arc<str>, u32)],
        text: io::Result<(String, u64, u64)>,
    ) -> Self {
        let is_entry = |(path, attempt): &&(Arc<str>, u32)| {
            **path == *entry.execution && *attempt == entry.attempt
        };
        let followed = live.iter().find(is_entry);
        let end = text.as_ref().map_or(0, |(_, _, end)| *end);
        Self {
            events: followed.map(|_| events(page, &entry.execution, entry.attempt, end)),
            execution: entry.execution.clone(),
            attempt: entry.attempt,
            text,
        }
    }
}

fn end_of(
    entry: &LogEntry,
    most: u64,
    redaction: Option<&Redaction>,
) -> io::Result<(String, u64, u64)> {
    let size = std::fs::metadata(&entry.path)?.len();
    if redaction.is_some() {
        let (text, from) = shown_tail(entry, most, redaction)?;
        return Ok((text, from, size));
    }
    let from = size.saturating_sub(most);
    let mut bytes = read_from(&entry.path, from, most)?;
    bytes.truncate(whole_characters(&bytes));
    let end = from + bytes.len() as u64;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), from, end))
}

fn events(page: &RunPage<'_>, execution: &str, attempt: u32, after: u64) -> String {
    let execution = encoded(execution);
    page.context.path(&format!(
        "/api/runs/{}/logs/events?execution={execution}&attempt={attempt}&after={after}",
        page.record.run
    ))
}
