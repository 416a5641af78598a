//! `lope runs show`: one run with its steps.

use lope::Client;
use lope::describe;
use lope::runs::is_set_aside;
use lope::runs::{RunRecord, RunStatus};
use serde_json::Value as Json;

use super::find::find;
use crate::clock::wall;
use crate::commands::record::plain;
use crate::commands::shown;
use crate::error::{CliResult, Exit};
use crate::format::{age, lasted, paint_status, step_lines};
use crate::output::Output;

/// Most steps shown to a person; the youngest, and all that are not over.
const SHOWN: usize = 200;
/// Longest result or error shown on a line, in characters.
const LINE: usize = 2_000;

pub(crate) async fn run(client: &Client, id: &str, output: Output) -> CliResult<Exit> {
    let mut record = find(client, id).await?;
    let redaction = shown::redact(client, &mut record).await?;
    let plan = client.plan(&record).await?;
    let history = client.history(record.run, &plan, None).await?;
    let mut value = describe::run_with_steps(&record, &history);
    if let Some(redaction) = &redaction {
        value["executions"] = shown::executions(&record, history.executions(), redaction);
    }
    let value = output.shown(value);
    if output.json {
        output.document(&value, "");
        return Ok(Exit::Done);
    }
    let mut text = head(&record, &value).join("\n");
    let steps = match record.started_at.or(record.finished_at) {
        Some(_) => step_lines(&history, wall(), SHOWN, record.owner.is_none()),
        None => Vec::new(),
    };
    if !steps.is_empty() {
        let steps = steps.join("\n");
        let steps = redaction
            .as_ref()
            .map_or(steps.clone(), |it| it.text(&steps));
        text.extend(["\n\n", &steps]);
    }
    if matches!(record.status, RunStatus::Live(_)) {
        let reasons = client.why_of(&record, &history).await?;
        if let Some(why) = reasons.first() {
            let words = why.message(wall());
            let words = redaction
                .as_ref()
                .map_or(words.clone(), |it| it.words(&words));
            text.push_str(&format!("\n\n{words}"));
        }
    }
    output.document(&value, &text);
    Ok(Exit::Done)
}

fn head(record: &RunRecord, value: &Json) -> Vec<String> {
    let now = wall();
    let version = record.version.to_string();
    let short = version.get(..12).unwrap_or(&version);
    let ended = record
        .finished_at
        .map(|at| format!("{at} (took {})", lasted(at.since(record.begun_at()))));
    let queue = format!("{}, priority {}", record.queue, record.priority.level());
    let tags: Vec<String> = record
        .tags
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let parent = record
        .parent
        .as_ref()
        .map(|parent| format!("{} ({})", parent.run, parent.execution));
    let due = record
        .due
        .filter(|due| *due > now && *due < lope_model::Timestamp::NEVER);
    let some = |name: &str| Some(&value[name]).filter(|value| !value.is_null());
    let error = some("error").map(failure);
    let lines = [
        ("run", Some(record.run.to_string())),
        (
            "workflow",
            Some(format!("{} (version {short})", record.workflow)),
        ),
        ("key", record.key.clone()),
        ("status", Some(paint_status(record.status))),
        (
            "parked",
            record.parked.clone().filter(|reason| is_set_aside(reason)),
        ),
        ("queue", Some(queue)),
        ("tags", Some(tags.join(" ")).filter(|tags| !tags.is_empty())),
        ("parent", parent),
        (
            "admitted",
            Some(format!(
                "{} ({} ago)",
                record.created_at,
                age(now.since(record.created_at))
            )),
        ),
        ("started", record.started_at.map(|at| at.to_string())),
        (
            "due",
            due.map(|due| format!("{due} (in {})", age(due.since(now)))),
        ),
        ("finished", ended),
        ("owner", record.owner.map(|owner| owner.to_string())),
        ("result", some("result").map(plain)),
        ("error", error),
    ];
    let shown = lines
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)));
    shown
        .map(|(name, text)| format!("{name:<10} {}", cut(&text)))
        .collect()
}

/// What went wrong, where, and how it came to that.
fn failure(error: &Json) -> String {
    let traceback = error["traceback"]
        .as_str()
        .map_or_else(String::new, |text| format!("\n{text}"));
    let source = error["source"]
        .as_str()
        .map_or_else(String::new, |source| format!(" at {source}"));
    let step = error["step"]
        .as_str()
        .map_or_else(String::new, |step| format!(" (step {step}{source})"));
    format!(
        "{}: {}{step}{traceback}",
        plain(&error["type"]),
        plain(&error["message"])
    )
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LINE) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes; --json shows all)", &text[..end], text.len()),
    }
}
