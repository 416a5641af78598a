//! A run by its id, its key, or the beginning of its id.

use lope::Client;
use lope::runs::FoundRun;
use lope::runs::RunRecord;
use lope_model::RunId;

use crate::error::{CliError, CliResult, Exit};

pub(crate) async fn find(client: &Client, text: &str) -> CliResult<RunRecord> {
    match client.find(text).await? {
        FoundRun::Run(run) => found(client.run(run).await?, run),
        FoundRun::Several(first, second) => {
            let message =
                format!("several runs have ids that begin with '{text}': {first}, {second}…");
            Err(CliError::usage(message).hint("give more of the id"))
        }
        FoundRun::Nothing => Err(missing(text)),
    }
}

fn missing(text: &str) -> CliError {
    let message = format!("there is no run with the id or key '{text}'");
    CliError::new(Exit::Failed, message).hint("'lope runs list' shows what there is")
}

/// The record of a run that must exist.
pub(crate) fn found(record: Option<RunRecord>, run: RunId) -> CliResult<RunRecord> {
    record.ok_or_else(|| missing(&run.to_string()))
}
