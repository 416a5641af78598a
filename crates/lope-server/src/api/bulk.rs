//! Bulk actions: asked for, looked at, stopped.

use std::sync::Arc;

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::api_error::ApiError;
use crate::bulk::{BulkAction, BulkItem, BulkOperation};
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::parameter::count;
use crate::reply;
use crate::search::{PARAMETERS, RunSearch};

const USUAL: usize = 100;
const MOST: usize = 1_000;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::post("/api/bulk", "startBulkAction", |context, call| {
        Box::pin(start(context, call))
    })
    .about("Ask one thing of every run that fits a filter: cancel, pause, resume or retry. The filter has the parameters of the list of runs. With 'dry_run' it is only counted.")
    .takes("BulkRequest")
    .answers(Answer::Created("BulkAction")),
    Endpoint::get("/api/bulk", "listBulkActions", |context, call| {
        Box::pin(list(context, call))
    })
    .about("The youngest bulk actions, with how far they are.")
    .answers(Answer::Json("BulkActionPage")),
    Endpoint::get("/api/bulk/{id}", "getBulkAction", |context, call| {
        Box::pin(get(context, call))
    })
    .about("A bulk action, and how far it is.")
    .answers(Answer::Json("BulkAction")),
    Endpoint::get("/api/bulk/{id}/runs", "listBulkRuns", |context, call| {
        Box::pin(runs(context, call))
    })
    .about("What became of each run of a bulk action.")
    .query(&[
        count("after", "How many to pass over"),
        count("limit", "1 to 1000; 100 unless it is said"),
    ])
    .answers(Answer::Json("BulkRunPage")),
    Endpoint::post("/api/bulk/{id}/stop", "stopBulkAction", |context, call| {
        Box::pin(stop(context, call))
    })
    .about("Ask no further run; what was asked stays asked.")
    .answers(Answer::Json("BulkAction")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BulkRequest {
    action: BulkOperation,
    filter: Map<String, Json>,
    #[serde(default)]
    dry_run: bool,
}

async fn start(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: BulkRequest = call.body()?;
    let query = pairs(&request.filter)?;
    if let Some((name, _)) = query.iter().find(|(_, value)| value.is_empty()) {
        return Err(ApiError::bad(format!("filter.{name}: it is empty")));
    }
    if request.dry_run {
        let asked = bulk_query(&query)?;
        let search = RunSearch::read(&context.client, &asked).await?;
        let (count, more) = search.count(&context.client).await?;
        let operation = request.action.as_str();
        let now = context.client.now().await?.to_string();
        return Ok(reply::json(&json!({
            "id": "", "action": operation, "filter": [], "by": call.caller.token, "status": "counted",
            "created_at": now, "finished_at": now, "found": count, "more": more,
            "done": 0, "skipped": 0, "failed": 0,
        })));
    }
    let action = begin(&context, &call, request.action, query).await?;
    Ok(reply::json_with(StatusCode::CREATED, &action.json()))
}

/// Ask for an action on what a query finds now.
pub(crate) async fn begin(
    context: &ServerContext,
    call: &ApiCall,
    operation: BulkOperation,
    mut query: Vec<(String, String)>,
) -> Result<BulkAction, ApiError> {
    // Fields of a form that were left empty.
    query.retain(|(_, value)| !value.is_empty());
    let asked = bulk_query(&query)?;
    let search = RunSearch::read(&context.client, &asked).await?;
    // How long ago is meant from now on, not from when it is looked.
    let times = [
        ("since", search.filter.since),
        ("until", search.filter.until),
    ];
    for (name, time) in times {
        for (_, value) in query.iter_mut().filter(|(known, _)| known == name) {
            *value = time.map(|it| it.to_string()).unwrap_or_default();
        }
    }
    let by = call.caller.token.clone();
    let action = BulkAction::begin(&context.client, operation, query, by).await?;
    context.bulk_notification.notify_one();
    Ok(action)
}

/// The runs that are meant; all there are is nobody's meaning.
fn bulk_query(query: &[(String, String)]) -> Result<ApiCall, ApiError> {
    if query.is_empty() {
        return Err(ApiError::bad("filter: say which runs"));
    }
    let asked = ApiCall::of_query(query);
    asked.validate_query(&PARAMETERS)?;
    Ok(asked)
}

/// A filter as parameters.
fn pairs(filter: &Map<String, Json>) -> Result<Vec<(String, String)>, ApiError> {
    let mut pairs = Vec::new();
    for (name, value) in filter {
        let values = match value {
            Json::Array(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let text = value.as_str().ok_or_else(|| {
                ApiError::bad(format!("filter.{name}: it is text, or a list of texts"))
            })?;
            pairs.push((name.clone(), text.to_owned()));
        }
    }
    Ok(pairs)
}

async fn list(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let all = BulkAction::all(&context.client).await?;
    let all: Vec<Json> = all.iter().map(BulkAction::json).collect();
    Ok(reply::json(&json!({ "bulk_actions": all })))
}

pub(crate) async fn found(context: &ServerContext, call: &ApiCall) -> Result<BulkAction, ApiError> {
    let id = call.param("id");
    let found = BulkAction::find(&context.client, id).await?;
    found.ok_or_else(|| {
        ApiError::missing(format!("there is no bulk action '{id}'"))
            .hint("GET /api/bulk lists those that are remembered")
    })
}

async fn get(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    Ok(reply::json(&found(&context, &call).await?.json()))
}

async fn runs(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let after: usize = call.number("after")?.unwrap_or(0);
    let limit = call.limit(USUAL, MOST)?;
    let action = found(&context, &call).await?;
    let (items, more) = action.items(&context.client, after, limit).await?;
    let items: Vec<Json> = items.iter().map(BulkItem::json).collect();
    let next = more.then(|| after.saturating_add(limit));
    Ok(reply::json(&json!({ "runs": items, "next": next })))
}

async fn stop(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let action = found(&context, &call).await?;
    if !BulkAction::stop(&context.client, &action.id).await? {
        return Err(ApiError::conflict("the bulk action is over already"));
    }
    get(context, call).await
}
