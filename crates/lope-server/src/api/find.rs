//! What a path names: a run by its id, its key, or the beginning of its id; a workflow by its name.

use lope::runs::{FinalStatus, FoundRun, RunRecord, RunStatus};
use lope::{Client, Redaction, RunId};

use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;

/// The run that `{id}` names.
pub(crate) async fn run(context: &ServerContext, call: &ApiCall) -> Result<RunRecord, ApiError> {
    find(&context.client, call.param("id")).await
}

/// The row of a run's journal that `at` names.
pub(crate) fn row(call: &ApiCall, record: &RunRecord) -> Result<Option<u64>, ApiError> {
    let at = call.number::<u64>("at")?;
    let head = record.head;
    match at.filter(|at| !(1..=head).contains(at)) {
        Some(at) => Err(ApiError::bad(format!(
            "at: the run has rows 1 to {head}, not {at}"
        ))),
        None => Ok(at),
    }
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

/// The run that a page is about, as it may be shown, without its result: whoever shows that reads it.
pub(crate) async fn on_page(
    context: &ServerContext,
    call: &ApiCall,
) -> Result<(RunRecord, Option<Redaction>), ApiError> {
    let record = listed(&context.client, call.param("id")).await?;
    for_page(context, record).await
}

/// The same for a run that was found. What must not be shown may be looked for in its result, and then
/// it comes with it.
pub(crate) async fn for_page(
    context: &ServerContext,
    record: RunRecord,
) -> Result<(RunRecord, Option<Redaction>), ApiError> {
    let paths = context.redactions.paths(&context.client, &record).await?;
    if paths.is_empty() {
        return Ok((record, None));
    }
    let mut record = if Redaction::looks_into_results(&paths) {
        find(&context.client, &record.run.to_string()).await?
    } else {
        with_error(context, record).await?
    };
    let redaction = redact(context, &mut record).await?;
    Ok((record, redaction))
}

/// With its error, which was left out if it is long.
pub(crate) async fn with_error(
    context: &ServerContext,
    record: RunRecord,
) -> Result<RunRecord, ApiError> {
    let failed = RunStatus::Final(FinalStatus::Failed);
    if record.error.is_some() || record.status != failed {
        return Ok(record);
    }
    find(&context.client, &record.run.to_string()).await
}

/// The run that a text names, without its result.
pub(crate) async fn listed(client: &Client, text: &str) -> Result<RunRecord, ApiError> {
    if let Ok(run) = text.parse::<RunId>()
        && let Some(record) = client.listed(&[run]).await?.pop()
    {
        return Ok(record);
    }
    let run = id(client, text).await?;
    let found = client.listed(&[run]).await?.pop();
    found.ok_or_else(|| missing(text))
}

/// The run that a text names.
pub(crate) async fn find(client: &Client, text: &str) -> Result<RunRecord, ApiError> {
    if let Ok(run) = text.parse::<RunId>()
        && let Some(record) = client.run(run).await?
    {
        return Ok(record);
    }
    let run = id(client, text).await?;
    client.run(run).await?.ok_or_else(|| missing(text))
}

async fn id(client: &Client, text: &str) -> Result<RunId, ApiError> {
    match client.find(text).await? {
        FoundRun::Run(run) => Ok(run),
        FoundRun::Several(first, second) => {
            let message = format!("several runs have ids that begin with '{text}'");
            Err(ApiError::bad(message).hint(format!("{first}, {second}…; give more of the id")))
        }
        FoundRun::Nothing => Err(missing(text)),
    }
}

fn missing(text: &str) -> ApiError {
    let message = format!("there is no run with the id or key '{text}'");
    ApiError::missing(message).hint("GET /api/runs lists what there is")
}

pub(crate) fn no_workflow(name: &str) -> ApiError {
    ApiError::missing(format!("no workflow '{name}' is deployed"))
        .hint("GET /api/workflows lists what is deployed, POST /api/workflows adds one")
}
