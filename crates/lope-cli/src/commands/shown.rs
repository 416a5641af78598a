//! What may be shown of runs to whoever asked: on a store everything; through a server not what
//! their workflows redact.

use std::sync::Arc;

use lope::runs::{Execution, RunRecord};
use lope::{Client, Redaction};
use lope_remote::caller;

use crate::error::CliResult;

/// What to do about a file that is there.
pub(crate) const OTHER_FILE: &str = "name a file that does not exist";

/// Makes a run one that may be shown; what else must not be shown of it.
pub(crate) async fn redact(
    client: &Client,
    record: &mut RunRecord,
) -> CliResult<Option<Redaction>> {
    if !caller::is_remote() {
        return Ok(None);
    }
    let paths = client.redacted_paths(record).await?;
    if paths.is_empty() {
        return Ok(None);
    }
    let redaction = client.redaction(record, paths).await?;
    redaction.record(record);
    Ok(Some(redaction))
}

/// Makes runs of a list ones that may be shown. What cannot be known is not shown either.
pub(crate) async fn redact_all(client: &Client, records: &mut [RunRecord]) {
    if !caller::is_remote() {
        return;
    }
    let telling = records
        .iter_mut()
        .filter(|record| record.result.is_some() || record.error.is_some());
    for record in telling {
        let blind = match client.redacted_paths(record).await {
            Ok(paths) if paths.is_empty() => continue,
            Ok(paths) => Redaction::blind(paths),
            Err(_) => Redaction::blind(Arc::default()),
        };
        blind.record(record);
    }
}

/// Executions as they may be shown, as JSON.
pub(crate) fn executions<'a>(
    record: &RunRecord,
    all: impl Iterator<Item = &'a Execution>,
    redaction: &Redaction,
) -> serde_json::Value {
    all.filter_map(|it| lope::runs::as_told(record, it))
        .map(|it| lope::describe::execution(record.run, &redaction.execution(&it)))
        .collect()
}

/// Does nothing of a run's progress go to whoever asked? What a run gives is not known while it
/// works.
pub(crate) async fn hides_progress(client: &Client, record: &RunRecord) -> CliResult<bool> {
    Ok(caller::is_remote() && !client.redacted_paths(record).await?.is_empty())
}
