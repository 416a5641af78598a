//! The store: is it sound, what does it look like, and what may go.

use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderValue;
use bytes::Bytes;
use lope::describe;
use lope::runs::{FinalStatus, PruneChoice, PrunedRuns};
use lope::stores::StoreError;
use lope_model::{RunId, Span, Timestamp};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::io::AsyncReadExt;

use crate::api_error::{ApiError, ApiErrorKind};
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::reply;

/// Bytes of a backup that are in memory at once.
const PIECE: usize = 64 * 1024;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/store", "getStore", |context, call| {
        Box::pin(show(context, call))
    })
    .about("The store's clock and schema.")
    .does(&["store schema"])
    .answers(Answer::Json("StoreSummary")),
    Endpoint::get("/api/store/check", "checkStore", |context, call| {
        Box::pin(check(context, call))
    })
    .about("What is wrong with the store; it reads everything.")
    .does(&["store check"])
    .answers(Answer::Json("StoreCheck"))
    .for_admins(),
    Endpoint::get("/api/store/backup", "backupStore", |context, call| {
        Box::pin(backup(context, call))
    })
    .about("A copy of the store, made while it is in use. A store that other tools back up refuses and says how.")
    .does(&["store backup"])
    .answers(Answer::Text(&["application/octet-stream"]))
    .may_conflict()
    .for_admins(),
    Endpoint::post("/api/store/prune", "pruneStore", |context, call| {
        Box::pin(prune(context, call))
    })
    .about("Delete runs that have ended, with all that belongs to them.")
    .does(&["store prune"])
    .takes("Prune")
    .answers(Answer::Json("Pruned"))
    .for_admins(),
    Endpoint::delete("/api/runs/{id}", "removeRun", |context, call| {
        Box::pin(remove_run(context, call))
    })
    .about("Delete one run that nobody works on, ended or not, also one that is damaged: by its whole id. One that can still end while its parent waits for that is refused: cancel it first.")
    .does(&["store remove-run"])
    .answers(Answer::Json("RemovedRun"))
    .for_admins(),
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PruneRequest {
    older: Option<String>,
    status: Vec<String>,
    workflow: Option<String>,
    dry_run: bool,
    compact: bool,
}

async fn show(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let now = context.client.now().await?;
    let schema = context.client.schema().await?;
    Ok(reply::json(
        &json!({ "now": describe::time(now), "schema": schema }),
    ))
}

async fn check(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let findings = context.client.check().await?;
    let listed: Vec<Json> = findings
        .iter()
        .map(|it| json!({ "rule": it.rule, "message": it.message, "hint": it.hint }))
        .collect();
    Ok(reply::json(
        &json!({ "sound": listed.is_empty(), "findings": listed }),
    ))
}

async fn backup(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let broken =
        |error: std::io::Error| ApiError::new(ApiErrorKind::Unavailable, error.to_string());
    let folder = tempfile::tempdir().map_err(broken)?;
    let path = folder.path().join("lope.db");
    context.client.backup(&path).await.map_err(no_backup)?;
    let file = tokio::fs::File::open(&path).await.map_err(broken)?;
    // The folder goes when the last piece was sent, or the client has gone.
    let pieces = futures_util::stream::unfold((file, folder), |(mut file, folder)| async move {
        let mut piece = vec![0; PIECE];
        match file.read(&mut piece).await {
            Ok(0) => None,
            Ok(read) => {
                piece.truncate(read);
                Some((Ok(Bytes::from(piece)), (file, folder)))
            }
            Err(error) => Some((Err(error), (file, folder))),
        }
    });
    let mut reply = reply::text("application/octet-stream", Body::from_stream(pieces));
    let name = HeaderValue::from_static("attachment; filename=\"lope.db\"");
    reply.headers_mut().insert("content-disposition", name);
    Ok(reply)
}

/// A store that leaves backups to other tools says which command makes one.
fn no_backup(error: StoreError) -> ApiError {
    match error {
        StoreError::Refused { message } => match message.split_once("; run: ") {
            Some((message, command)) => ApiError::conflict(message).hint(format!("run: {command}")),
            None => ApiError::conflict(message),
        },
        other => other.into(),
    }
}

async fn prune(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: PruneRequest = call.body()?;
    if request.dry_run && request.compact {
        return Err(ApiError::bad("compact: not together with 'dry_run'"));
    }
    let older = request.older.as_deref().map(str::parse::<Span>);
    let older = older.transpose();
    let choice = PruneChoice {
        older: older.map_err(|error| ApiError::bad(format!("older: {error}")))?,
        statuses: request
            .status
            .iter()
            .map(|it| ending(it))
            .collect::<Result<_, _>>()?,
        workflow: request.workflow,
    };
    let client = &context.client;
    let settings = &context.config.engine;
    let PrunedRuns {
        runs,
        before,
        space_rows,
    } = client
        .prune_chosen(choice, settings, &context.logs, request.dry_run)
        .await?;
    if before.is_none() && !request.compact {
        let error = ApiError::bad("runs are kept for ever, as the configuration says");
        return Err(error.hint("say how old: \"older\": \"30d\""));
    }
    let freed = if request.compact {
        Some(client.compact().await.map_err(not_now)?)
    } else {
        None
    };
    let before = before.unwrap_or(Timestamp::EPOCH).to_string();
    let value = json!({ "runs": runs, "before": before, "dry_run": request.dry_run, "freed": freed, "space_rows": space_rows });
    Ok(reply::json(&value))
}

fn ending(text: &str) -> Result<FinalStatus, ApiError> {
    FinalStatus::parse(text).ok_or_else(|| {
        ApiError::bad(format!("status: '{text}' is no way to end"))
            .hint("completed, failed, cancelled")
    })
}

fn not_now(error: StoreError) -> ApiError {
    match error {
        StoreError::Refused { message } => ApiError::conflict(message),
        other => other.into(),
    }
}

async fn remove_run(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let id = call.param("id");
    let run: RunId = id.parse().map_err(|_| {
        ApiError::bad(format!("'{id}' is not the id of a run"))
            .hint("a run is removed by its whole id")
    })?;
    if !context.client.remove_run(run).await.map_err(not_now)? {
        return Err(ApiError::missing(format!("there is no run {run}")));
    }
    context.logs.remove(&[run]);
    Ok(reply::json(&json!({ "run_id": run, "removed": true })))
}
