//! A run's record as commands show it.

use lope_engine::codec;
use lope_model::RunId;
use lope_store::runs::{FinalStatus, RunRecord, RunStatus};
use serde_json::{Value as Json, json};

use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

/// The record of a run that must exist.
pub(crate) fn found(record: Option<RunRecord>, run: RunId) -> CliResult<RunRecord> {
    let missing = || CliError::new(Exit::Failed, format!("there is no run {run}"));
    record.ok_or_else(|| missing().hint("'lope runs list' shows what there is"))
}

/// A run that has ended, as `lope run` prints it.
pub(crate) fn present(record: &RunRecord, output: Output) -> Exit {
    let value = describe(record);
    let done = record.status == RunStatus::Final(FinalStatus::Completed);
    let text = match (done, &value["error"]) {
        (true, _) => plain(&value["result"]),
        (false, Json::Null) => record.status.to_string(),
        (false, error) => format!("{}: {}: {}", record.status, plain(&error["type"]), plain(&error["message"])),
    };
    output.document(&value, &text);
    if done { Exit::Done } else { Exit::Failed }
}

pub(crate) fn describe(record: &RunRecord) -> Json {
    let result = record.result.as_deref().and_then(|bytes| codec::read_result(bytes).ok());
    let error = record.error.as_deref().and_then(|bytes| codec::read_error(bytes).ok());
    json!({
        "run_id": record.run,
        "workflow": record.workflow,
        "version": record.version,
        "key": record.key,
        "status": record.status.as_str(),
        "result": result,
        "error": error,
        "started_at": record.created_at.to_string(),
        "finished_at": record.finished_at.map(|at| at.to_string()),
        "steps": record.head,
        "queue": record.queue,
        "tags": record.tags,
        "parked": record.parked,
        "owner": record.owner,
    })
}

/// Text as it is, everything else as JSON.
pub(crate) fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
