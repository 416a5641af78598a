//! Schedules: what starts workflows again and again, looked at and steered.

use std::sync::Arc;

use lope::describe;
use lope::schedules::{FireError, ScheduleRecord};
use serde_json::{Value as Json, json};

use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::reply;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/schedules", "listSchedules", |context, call| {
        Box::pin(list(context, call))
    })
    .does(&["schedules list"])
    .about("All schedules, by name.")
    .answers(Answer::Json("SchedulePage")),
    Endpoint::get("/api/schedules/{name}", "getSchedule", |context, call| {
        Box::pin(get(context, call))
    })
    .does(&["schedules show"])
    .about("A schedule with what is known of its ticks.")
    .answers(Answer::Json("Schedule")),
    Endpoint::post(
        "/api/schedules/{name}/pause",
        "pauseSchedule",
        |context, call| Box::pin(pause(context, call)),
    )
    .does(&["schedules pause"])
    .about("Start nothing more of a schedule until it is resumed.")
    .answers(Answer::Json("Schedule")),
    Endpoint::post(
        "/api/schedules/{name}/resume",
        "resumeSchedule",
        |context, call| Box::pin(resume(context, call)),
    )
    .does(&["schedules resume"])
    .about("Go on with a schedule's next tick.")
    .answers(Answer::Json("Schedule")),
    Endpoint::post(
        "/api/schedules/{name}/run",
        "runSchedule",
        |context, call| Box::pin(run(context, call)),
    )
    .does(&["schedules run"])
    .about("Start a run of a schedule now, beside its ticks.")
    .answers(Answer::Json("ScheduledRun")),
    Endpoint::delete(
        "/api/schedules/{name}",
        "removeSchedule",
        |context, call| Box::pin(remove(context, call)),
    )
    .does(&["schedules remove"])
    .about("Take a schedule away; its runs stay.")
    .answers(Answer::Json("RemovedSchedule")),
];

async fn list(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let all = context.client.schedules().await?;
    let all: Vec<Json> = all.iter().map(describe::schedule).collect();
    Ok(reply::json(&json!({ "schedules": all })))
}

async fn found(context: &ServerContext, name: &str) -> Result<ScheduleRecord, ApiError> {
    let found = context.client.schedule(name).await?;
    found.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> ApiError {
    ApiError::missing(format!("there is no schedule '{name}'"))
        .hint("GET /api/schedules lists what there is")
}

async fn get(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let record = found(&context, call.param("name")).await?;
    Ok(reply::json(&describe::schedule(&record)))
}

async fn pause(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    context.client.pause_schedule(call.param("name")).await?;
    get(context, call).await
}

async fn resume(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    context.client.resume_schedule(call.param("name")).await?;
    get(context, call).await
}

async fn run(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let name = call.param("name");
    match context.client.fire_schedule(name).await {
        Ok(run) => Ok(reply::json(&json!({ "schedule": name, "run_id": run }))),
        Err(FireError::Missing) => Err(missing(name)),
        Err(FireError::NoRun(why)) => Err(ApiError::conflict(why)),
        Err(FireError::Store(error)) => Err(error.into()),
    }
}

async fn remove(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let name = call.param("name");
    if !context.client.remove_schedule(name).await? {
        return Err(missing(name));
    }
    Ok(reply::json(&json!({ "name": name, "removed": true })))
}
