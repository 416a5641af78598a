//! Is it up, can it work, and what does it offer?

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::json;

use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::reply;
use crate::store_probe;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/healthz", "health", |_, _| {
        Box::pin(async { Ok(reply::text("text/plain; charset=utf-8", "ok\n")) })
    })
    .about("The process answers.")
    .answers(Answer::Text(&["text/plain"]))
    .for_all(),
    Endpoint::get("/readyz", "readiness", |context, call| {
        Box::pin(ready(context, call))
    })
    .about("The store answers and the runner of this process works; 503 if not.")
    .answers(Answer::Json("Readiness"))
    .for_all(),
    Endpoint::get("/api/openapi.json", "describe", |context, _| {
        Box::pin(async move { Ok(reply::json(&context.document)) })
    })
    .about("This document."),
];

async fn ready(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let store = store_probe::trouble(&context.client).await;
    let runner = match &context.runner {
        // One that has ended has no engine.
        Some(runner) => runner.in_flight().await.err().map(|it| it.to_string()),
        None => None,
    };
    let ready = store.is_none() && runner.is_none();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let say = |trouble: Option<String>| trouble.unwrap_or_else(|| "ok".to_owned());
    let value = json!({ "ready": ready, "store": say(store), "runner": say(runner) });
    Ok(reply::json_with(status, &value))
}
