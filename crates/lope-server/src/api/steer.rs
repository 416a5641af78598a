//! Steering runs: each verb is mail to the run and takes effect when its owner reads it.

use std::sync::Arc;

use lope::runs::{Delivered, FinalStatus, Fork, Forked, RunRecord, RunStatus};
use lope_model::{Value, limit};
use serde::Deserialize;
use serde_json::json;

use super::find;
use super::start::said;
use crate::api_error::{ApiError, ApiErrorKind};
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::reply;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::post("/api/runs/{id}/signal", "signalRun", |context, call| {
        Box::pin(signal(context, call))
    })
    .does(&["runs signal"])
    .about("Send a signal that a step may wait for. One with the 'Idempotency-Key' of an earlier one is taken once.")
    .takes("Signal")
    .answers(Answer::Json("Sent")),
    Endpoint::post("/api/runs/{id}/feed", "feedRun", |context, call| {
        Box::pin(feed(context, call))
    })
    .does(&["runs feed"])
    .about("Feed an open run an input.")
    .takes("Feed")
    .answers(Answer::Json("Sent")),
    Endpoint::post("/api/runs/{id}/cancel", "cancelRun", |context, call| {
        Box::pin(cancel(context, call))
    })
    .does(&["runs cancel"])
    .about("Ask a run to end; 'finally' blocks still run unless it is forced.")
    .takes("Cancel")
    .answers(Answer::Json("Sent")),
    Endpoint::post("/api/runs/{id}/pause", "pauseRun", |context, call| {
        Box::pin(pause(context, call))
    })
    .does(&["runs pause"])
    .about("Start no further step of a run.")
    .takes("Pause")
    .answers(Answer::Json("Sent")),
    Endpoint::post("/api/runs/{id}/resume", "resumeRun", |context, call| {
        Box::pin(resume(context, call))
    })
    .does(&["runs resume"])
    .about("Go on after a pause.")
    .answers(Answer::Json("Sent")),
    Endpoint::post("/api/runs/{id}/retry", "retryRun", |context, call| {
        Box::pin(retry(context, call))
    })
    .does(&["runs retry"])
    .about("Go on with a failed run where it failed.")
    .answers(Answer::Json("Sent")),
    Endpoint::post("/api/runs/{id}/fork", "forkRun", |context, call| {
        Box::pin(fork(context, call))
    })
    .does(&["runs fork"])
    .about("A new run that goes on from a row of this one's journal, or from where an execution began.")
    .takes("Fork")
    .answers(Answer::Created("ForkedRun")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalRequest {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) value: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FeedRequest {
    #[serde(default, deserialize_with = "said")]
    input: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CancelRequest {
    force: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PauseRequest {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ForkRequest {
    at: Option<u64>,
    key: Option<String>,
    execution: Option<String>,
}

async fn signal(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: SignalRequest = call.body()?;
    let id = call.header("idempotency-key").map(str::to_owned);
    let record = find::run(&context, &call).await?;
    send_signal(&context, &record, request, id).await?;
    Ok(sent(&record, "signal"))
}

pub(crate) async fn send_signal(
    context: &ServerContext,
    record: &RunRecord,
    request: SignalRequest,
    id: Option<String>,
) -> Result<(), ApiError> {
    let SignalRequest { name, value } = request;
    if name.is_empty() || name.len() > limit::NAME_MAX {
        let message = format!("name: 1 to {} bytes, not {}", limit::NAME_MAX, name.len());
        return Err(ApiError::bad(message));
    }
    let client = &context.client;
    let delivered = client.signal_once(record.run, &name, value, id).await?;
    taken(record, &delivered)
}

async fn feed(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: FeedRequest = call.body()?;
    let input = request
        .input
        .ok_or_else(|| ApiError::bad("body: the input is missing"))?;
    let record = find::run(&context, &call).await?;
    taken(&record, &context.client.feed(&record, input).await?)?;
    Ok(sent(&record, "input"))
}

async fn cancel(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let CancelRequest { force } = call.body()?;
    let record = find::run(&context, &call).await?;
    stop(&context, &record, force).await?;
    Ok(sent(&record, "cancel"))
}

pub(crate) async fn stop(
    context: &ServerContext,
    record: &RunRecord,
    force: bool,
) -> Result<(), ApiError> {
    let client = &context.client;
    let delivered = if force {
        client.kill(record.run).await?
    } else {
        client.cancel(record.run).await?
    };
    taken(record, &delivered)
}

async fn pause(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let PauseRequest { reason } = call.body()?;
    let record = find::run(&context, &call).await?;
    let client = &context.client;
    taken(&record, &client.pause(record.run, reason.as_deref()).await?)?;
    Ok(sent(&record, "pause"))
}

async fn resume(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let record = find::run(&context, &call).await?;
    taken(&record, &context.client.resume(record.run).await?)?;
    Ok(sent(&record, "resume"))
}

async fn retry(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let record = find::run(&context, &call).await?;
    again(&context, &record).await?;
    Ok(sent(&record, "retry"))
}

/// Go on with a failed run.
pub(crate) async fn again(context: &ServerContext, record: &RunRecord) -> Result<(), ApiError> {
    let not_failed = |status: RunStatus| {
        let run = record.run;
        ApiError::conflict(format!(
            "run {run} is {status}: only a failed run can be retried"
        ))
    };
    if record.status != RunStatus::Final(FinalStatus::Failed) {
        return Err(not_failed(record.status));
    }
    let delivered = context.client.retry(record.run).await?;
    if delivered == Delivered::Finished {
        let now = context.client.run(record.run).await?;
        return Err(not_failed(now.map_or(record.status, |now| now.status)));
    }
    taken(record, &delivered)
}

async fn fork(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let ForkRequest { at, key, execution } = call.body()?;
    let record = find::run(&context, &call).await?;
    let at = match execution {
        Some(path) if at.is_none() => Some(opened_by(&context, &record, &path).await?),
        Some(_) => return Err(ApiError::bad("body: give either 'at' or 'execution'")),
        None => at,
    };
    let run = record.run;
    let named = key.clone().unwrap_or_default();
    match context.client.fork(&record, Fork { at, key }).await? {
        Forked::Run { run: copy, at } => Ok(reply::json_with(
            axum::http::StatusCode::CREATED,
            &json!({ "run_id": copy, "forked_from": run, "at": at, "status": "queued" }),
        )),
        Forked::Exists { run: other } => {
            let message = format!("run {other} has the key '{named}' already");
            Err(ApiError::conflict(message).hint("choose another key"))
        }
        Forked::Ended { last } => {
            let message = format!("run {run} had ended there: nothing is left to go on with");
            Err(ApiError::conflict(message).hint(format!("give 'at', at most {last}")))
        }
        Forked::NoSuchRow { first, last } => {
            let message =
                format!("run {run} has no such row: its journal goes from {first} to {last}");
            Err(ApiError::bad(message))
        }
    }
}

/// The row after which an execution had begun and nothing of it was done.
async fn opened_by(
    context: &ServerContext,
    record: &RunRecord,
    path: &str,
) -> Result<u64, ApiError> {
    let plan = context.client.plan(record).await?;
    let history = context.client.history(record.run, &plan, None).await?;
    let missing = || ApiError::missing(format!("there is no execution '{path}'"));
    Ok(history.execution(path).ok_or_else(missing)?.opened_by)
}

/// A new run that does an execution of this one again, and what comes after it.
pub(crate) async fn fork_from(
    context: &ServerContext,
    record: &RunRecord,
    path: &str,
) -> Result<lope::RunId, ApiError> {
    let at = Some(opened_by(context, record, path).await?);
    match context.client.fork(record, Fork { at, key: None }).await? {
        Forked::Run { run, .. } | Forked::Exists { run } => Ok(run),
        Forked::Ended { .. } | Forked::NoSuchRow { .. } => Err(ApiError::conflict(
            "nothing is left to go on with from there",
        )),
    }
}

fn sent(record: &RunRecord, word: &str) -> reply::Reply {
    reply::json(&json!({ "run_id": record.run, "sent": word }))
}

/// Was it taken?
pub(crate) fn taken(record: &RunRecord, delivered: &Delivered) -> Result<(), ApiError> {
    let run = record.run;
    match delivered {
        Delivered::Accepted | Delivered::Duplicate => Ok(()),
        Delivered::Finished => {
            let message = format!("run {run} has ended: it is {}", record.status);
            Err(ApiError::conflict(message)
                .hint("a fork goes on from an earlier row; a failed run can be retried"))
        }
        Delivered::Full => {
            let message = format!("too much waits for run {run} already");
            Err(ApiError::new(ApiErrorKind::TooManyRequests, message))
        }
        Delivered::Missing => Err(ApiError::missing(format!("there is no run {run}"))),
    }
}
