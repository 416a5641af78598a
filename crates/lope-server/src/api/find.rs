//! What a path names: a run by its id, its key, or the beginning of its id; a workflow by its name.

use lope::runs::{FoundRun, RunRecord};
use lope::{Client, Redaction};

use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;

/// The run that `{id}` names.
pub(crate) async fn run(context: &ServerContext, call: &ApiCall) -> Result<RunRecord, ApiError> {
    find(&context.client, call.param("id")).await
}

/// The same as it may be shown, and what else must not be shown of it.
pub(crate) async fn shown(
    context: &ServerContext,
    call: &ApiCall,
) -> Result<(RunRecord, Option<Redaction>), ApiError> {
    let mut record = run(context, call).await?;
    let redaction = redact(context, &mut record).await?;
    Ok((record, redaction))
}

/// The same without reading all of a long run: what must not be shown of such a one is not looked
/// for, and everything that may hold it is hidden.
pub(crate) async fn shown_in_part(
    context: &ServerContext,
    call: &ApiCall,
) -> Result<(RunRecord, Option<Redaction>), ApiError> {
    let mut record = run(context, call).await?;
    if record.head <= lope::runs::RECENT_ROWS {
        let redaction = redact(context, &mut record).await?;
        return Ok((record, redaction));
    }
    let paths = context.redactions.paths(&context.client, &record).await?;
    let redaction = (!paths.is_empty()).then(|| Redaction::blind(paths));
    if let Some(redaction) = &redaction {
        redaction.record(&mut record);
    }
    Ok((record, redaction))
}

/// Makes a record one that may be shown.
pub(crate) async fn redact(
    context: &ServerContext,
    record: &mut RunRecord,
) -> Result<Option<Redaction>, ApiError> {
    let redaction = context.redaction(record).await?;
    if let Some(redaction) = &redaction {
        redaction.record(record);
    }
    Ok(redaction)
}

pub(crate) async fn find(client: &Client, text: &str) -> Result<RunRecord, ApiError> {
    match client.find(text).await? {
        FoundRun::Run(record) => Ok(*record),
        FoundRun::Several(first, second) => {
            let message = format!("several runs have ids that begin with '{text}'");
            Err(ApiError::bad(message).hint(format!("{first}, {second}…; give more of the id")))
        }
        FoundRun::Nothing => {
            let message = format!("there is no run with the id or key '{text}'");
            Err(ApiError::missing(message).hint("GET /api/runs lists what there is"))
        }
    }
}

pub(crate) fn no_workflow(name: &str) -> ApiError {
    ApiError::missing(format!("no workflow '{name}' is deployed"))
        .hint("GET /api/workflows lists what is deployed, POST /api/workflows adds one")
}
