//! A run that has ended, as `lope run` and `lope runs wait` print it.

use lope::Client;
use lope::describe;
use lope::runs::{FinalStatus, RunRecord, RunStatus};
use serde_json::{Value as Json, json};

use crate::error::{CliResult, Exit};
use crate::output::Output;

/// Print the result; exit 1 unless the run completed.
pub(crate) async fn present(
    client: &Client,
    record: &RunRecord,
    output: Output,
) -> CliResult<Exit> {
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
        let history = client.history(record.run, &plan, None).await?;
        value["steps"] = json!(history.executions().count() as u64 + history.dropped());
    }
    output.document(&value, &text(record, &value));
    let done = record.status == RunStatus::Final(FinalStatus::Completed);
    Ok(if done { Exit::Done } else { Exit::Failed })
}

/// How a run ended, in a line.
pub(crate) fn summary(record: &RunRecord) -> String {
    let value = describe::run(record);
    match record.status {
        RunStatus::Final(FinalStatus::Completed) => format!("completed: {}", text(record, &value)),
        RunStatus::Final(_) | RunStatus::Live(_) => text(record, &value),
    }
}

fn text(record: &RunRecord, value: &Json) -> String {
    let done = record.status == RunStatus::Final(FinalStatus::Completed);
    match (done, &value["error"]) {
        (true, _) => plain(&value["result"]),
        (false, Json::Null) => record.status.to_string(),
        (false, error) => {
            let source = error["source"]
                .as_str()
                .map_or_else(String::new, |source| format!(" ({source})"));
            format!(
                "{}: {}: {}{source}",
                record.status,
                plain(&error["type"]),
                plain(&error["message"])
            )
        }
    }
}

/// Text as it is, everything else as JSON.
pub(crate) fn plain(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
