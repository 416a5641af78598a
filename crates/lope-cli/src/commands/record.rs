//! A run that has ended, as `lope run` and `lope runs wait` print it.

use lope::Client;
use lope::describe;
use lope::runs::{FinalStatus, RunRecord, RunStatus};
use lope::stores::StoreError;
use lope::workflows::Plan;
use serde_json::{Value as Json, json};

use super::shown;
use crate::error::{CliResult, Exit};
use crate::output::Output;
use crate::progress::KNOWN_MAX;

/// Print the result; exit 1 unless the run completed and its result can be read.
pub(crate) async fn present(
    client: &Client,
    mut record: RunRecord,
    output: Output,
) -> CliResult<Exit> {
    shown::redact(client, &mut record).await?;
    let record = &record;
    let mut value = describe::run(record);
    let failed = !value["error"].is_null();
    let plan = if output.json || failed {
        Some(client.plan(record).await?)
    } else {
        None
    };
    if let Some(plan) = plan.as_ref().filter(|_| failed) {
        describe::add_sources(&mut value, plan.definition());
    }
    if let Some(plan) = plan.filter(|_| output.json) {
        value["steps"] = json!(steps(client, record, &plan).await?);
    }
    let value = output.shown(value);
    output.document(&value, &text(record, &value));
    let done = record.status == RunStatus::Final(FinalStatus::Completed);
    let done = done && value.get("damage").is_none();
    Ok(if done { Exit::Done } else { Exit::Failed })
}

/// How many steps were executed, counted without keeping them.
async fn steps(client: &Client, record: &RunRecord, plan: &Plan) -> CliResult<u64> {
    let (run, head) = (record.run, record.head);
    let mut follower = client.follow(run, plan).await?.with_limit(KNOWN_MAX);
    follower.catch_up(|_, _, _| ()).await?;
    let history = follower.historian();
    let seq = history.seq();
    if seq < head {
        let cut = format!("the journal of run {run} ends at row {seq}, and row {head} was written");
        return Err(StoreError::corrupt(cut).into());
    }
    Ok(history.executions().count() as u64 + history.dropped())
}

/// How a run ended, in a line.
pub(crate) fn summary(record: &RunRecord, output: Output) -> String {
    let value = output.shown(describe::run(record));
    match record.status {
        RunStatus::Final(FinalStatus::Completed) => format!("completed: {}", text(record, &value)),
        RunStatus::Final(_) | RunStatus::Live(_) => text(record, &value),
    }
}

fn text(record: &RunRecord, value: &Json) -> String {
    let done = record.status == RunStatus::Final(FinalStatus::Completed);
    if let Some(damage) = value["damage"].as_str() {
        return damage.to_owned();
    }
    match (done, &value["error"]) {
        (true, _) => plain(&value["result"]),
        (false, Json::Null) => record.status.to_string(),
        (false, error) => {
            let source = error["source"]
                .as_str()
                .map_or_else(String::new, |source| format!(" ({source})"));
            let raised = error["traceback"]
                .as_str()
                .and_then(raised_at)
                .map_or_else(String::new, |place| format!("\n  raised in {place}"));
            format!(
                "{}: {}: {}{source}{raised}",
                record.status,
                plain(&error["type"]),
                plain(&error["message"])
            )
        }
    }
}

/// The last place that a traceback names and that is written in the user's files: FILE:LINE, in
/// FUNCTION, and the line itself.
fn raised_at(traceback: &str) -> Option<String> {
    let mut lines = traceback.lines().rev();
    let mut below = "";
    loop {
        let line = lines.next()?.trim();
        if let Some((file, rest)) = line
            .strip_prefix("File \"")
            .and_then(|rest| rest.split_once("\", line "))
        {
            let (number, function) = rest.split_once(", in ").unwrap_or((rest, ""));
            let function = if function.is_empty() {
                String::new()
            } else {
                format!(", {function}")
            };
            let code = if below.is_empty() {
                String::new()
            } else {
                format!(": {below}")
            };
            return Some(format!("{file}:{number}{function}{code}"));
        }
        // Carets and tildes that later Pythons put below a line.
        if !line.chars().all(|c| matches!(c, '^' | '~' | ' ')) {
            below = line;
        }
    }
}

/// Text as it is, everything else as JSON.
pub(crate) fn plain(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
