//! Runners of agents, and the locks that they hold.

use std::sync::Arc;

use lope::agents::describe;
use lope::agents::records::StopLevel;
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::parameter::flag;
use lope_http::reply;
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// Most runners told of, the youngest.
const RUNNERS: usize = 1_000;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/agents/runners", "listAgentRunners", |context, call| {
        Box::pin(list(context, call))
    })
    .about("Runners of agents; those that have ended only if asked for.")
    .query(&[flag("all", "Also those that have ended")])
    .answers(Answer::Json("AgentRunnerPage")),
    Endpoint::get(
        "/api/agents/runners/{id}",
        "getAgentRunner",
        |context, call| Box::pin(show(context, call)),
    )
    .about("A runner of agents, by its id or the beginning of it.")
    .answers(Answer::Json("AgentRunner")),
    Endpoint::post(
        "/api/agents/runners/{id}/stop",
        "stopAgentRunner",
        |context, call| Box::pin(stop(context, call)),
    )
    .about("Ask a runner of agents to stop: 'drain' ends what is at work, 'cancel' stops the agent and gives its task back.")
    .does(&["runners stop"])
    .takes("RunnerStop")
    .answers(Answer::Json("AgentRunner")),
    Endpoint::get("/api/locks", "listLocks", |context, call| {
        Box::pin(locks(context, call))
    })
    .about("Who works on which task, and until when.")
    .does(&["locks list"])
    .answers(Answer::Json("LockPage")),
    Endpoint::post("/api/locks/{task}/release", "releaseLock", |context, call| {
        Box::pin(release(context, call))
    })
    .about("Take a lock away. One whose holder lives only with 'force'; the holder then writes nothing more.")
    .does(&["locks release"])
    .takes("LockRelease")
    .answers(Answer::Json("ReleasedLock")),
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StopRequest {
    level: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReleaseRequest {
    force: bool,
}

async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let all = call.flag("all")?;
    let mut runners = context.board().runners().await?;
    runners.retain(|seen| all || !seen.has_ended());
    let from = runners.len().saturating_sub(RUNNERS);
    let listed: Vec<Json> = runners[from..].iter().map(describe::runner).collect();
    Ok(reply::json(&json!({ "runners": listed })))
}

async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let runner = context.board().seen_runner(call.param("id")).await?;
    Ok(reply::json(&describe::runner(&runner)))
}

async fn stop(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: StopRequest = call.body()?;
    let level = match request.level.as_deref() {
        None | Some("drain") => StopLevel::Drain,
        Some("cancel") => StopLevel::Cancel,
        Some(other) => {
            return Err(
                ApiError::bad(format!("level: '{other}' is neither drain nor cancel"))
                    .hint("'lope runners stop --force' kills one, on its machine"),
            );
        }
    };
    let board = context.board();
    let mut seen = board.seen_runner(call.param("id")).await?;
    if seen.has_ended() {
        return Err(ApiError::conflict("the runner has ended already"));
    }
    if let Some(asked) = board.ask_to_stop(seen.runner.id, level).await? {
        seen.runner = asked;
    }
    Ok(reply::json(&describe::runner(&seen)))
}

async fn locks(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let locks = context.board().locks().await?;
    let listed: Vec<Json> = locks
        .iter()
        .map(|(lock, stands)| describe::lock(lock, *stands))
        .collect();
    Ok(reply::json(&json!({ "locks": listed })))
}

async fn release(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: ReleaseRequest = call.body()?;
    let board = context.board();
    let lock = board
        .release_lock(call.param("task"), request.force)
        .await?;
    Ok(reply::json(&json!({
        "taskId": lock.task_id.to_string(),
        "runnerId": lock.runner_id.to_string(),
        "released": true,
    })))
}
