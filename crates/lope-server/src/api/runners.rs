//! Runners, queues and metrics: who works, what waits, and what was counted.

use std::sync::Arc;

use lope::describe;
use lope::runs::RunnerRecord;
use serde_json::{Value as Json, json};

use super::gauges;
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::reply;

/// Most runners told of, those that live first.
const RUNNERS: usize = 1_000;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/runners", "listRunners", |context, call| {
        Box::pin(runners(context, call))
    })
    .does(&["runners list"])
    .about("Runners that the store knows, those that live first.")
    .answers(Answer::Json("RunnerPage")),
    Endpoint::get("/api/runners/{id}", "getRunner", |context, call| {
        Box::pin(runner(context, call))
    })
    .about("A runner, by its id, the beginning of its id, or its name.")
    .does(&["runners show"])
    .answers(Answer::Json("Runner")),
    Endpoint::get("/api/queues", "listQueues", |context, call| {
        Box::pin(queues(context, call))
    })
    .about("How many runs wait in each queue.")
    .answers(Answer::Json("QueuePage")),
    Endpoint::get("/metrics", "metrics", |context, _| {
        Box::pin(metrics(context))
    })
    .about("What the runner of this process counted, and what stands in the store, for Prometheus.")
    .answers(Answer::Text(&["application/openmetrics-text"])),
];

async fn runners(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let mut all = context.client.runners(RUNNERS).await?;
    all.sort_by_key(|runner| !runner.live);
    let all: Vec<Json> = all.iter().map(describe::runner).collect();
    Ok(reply::json(&json!({ "runners": all })))
}

async fn runner(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let named = call.param("id");
    let all = context.client.runners(RUNNERS).await?;
    let by_id = |it: &&RunnerRecord| it.runner.to_string().starts_with(named);
    let by_name = |it: &&RunnerRecord| it.name == named;
    let live = |it: &&RunnerRecord| it.live;
    let found = all.iter().find(by_id);
    let found = found.or_else(|| all.iter().filter(by_name).find(live));
    let found = found.or_else(|| all.iter().find(by_name));
    let found = found.ok_or_else(|| {
        ApiError::missing(format!("there is no runner '{named}'"))
            .hint("GET /api/runners lists what there is")
    })?;
    Ok(reply::json(&describe::runner(found)))
}

async fn queues(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let queues = context.questions.queues(&context.client).await?;
    let queues = queues.iter().map(|queue| {
        json!({
            "queue": queue.queue,
            "due": queue.due,
            "later": queue.later,
            "owned": queue.owned,
            "parked": queue.parked,
            "oldest_due_since": queue.oldest.map(|at| at.to_string()),
        })
    });
    Ok(reply::json(
        &json!({ "queues": queues.collect::<Vec<_>>() }),
    ))
}

async fn metrics(context: Arc<ServerContext>) -> ApiResult {
    let counted = context.runner.as_ref().map(|it| it.metrics().encode());
    let counted = counted.unwrap_or_default();
    let text = format!(
        "{}{}# EOF\n",
        counted.trim_end_matches("# EOF\n"),
        gauges::text(&context).await
    );
    Ok(reply::text(
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        text,
    ))
}
