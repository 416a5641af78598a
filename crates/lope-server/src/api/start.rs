//! Starting runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use lope::PreparedRun;
use lope::runs::{Admitted, LiveStatus, RunStartOptions};
use lope_model::{Priority, QueueName, Value};
use serde::{Deserialize, Deserializer};
use serde_json::json;

use super::find::no_workflow;
use crate::api_error::ApiError;
use crate::call::{ApiCall, later};
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::reply;

pub(crate) const ENDPOINTS: &[Endpoint] = &[Endpoint::post(
    "/api/runs",
    "startRun",
    |context, call| Box::pin(start(context, call)),
)
.about(
    "Start a run of a deployed workflow for whoever works on its queue. A key that exists answers \
     with the run that has it; the header 'Idempotency-Key' is the key of a run that has none.",
)
.does(&["start"])
.takes("Start")
.answers(Answer::Created("StartedRun"))];

/// A run that somebody asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRequest {
    pub(crate) workflow: String,
    #[serde(default, deserialize_with = "said")]
    pub(crate) input: Option<Value>,
    pub(crate) key: Option<String>,
    pub(crate) at: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i64>,
    #[serde(default)]
    pub(crate) tags: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) open: bool,
}

/// A null that was said is an input; one that was not is none.
pub(crate) fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

async fn start(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let mut request: StartRequest = call.body()?;
    if let Some(header) = call.header("idempotency-key") {
        let key = request.key.get_or_insert_with(|| header.to_owned());
        if key != header {
            let message = format!("key: '{key}', and the header 'Idempotency-Key' says '{header}'");
            return Err(ApiError::bad(message).hint("give one of them"));
        }
    }
    let workflow = request.workflow.clone();
    let (run, fresh) = begin(&context, request).await?;
    // A run that is new waits for a runner; one that was there has gone on since.
    let status = if fresh {
        LiveStatus::Queued.as_str()
    } else {
        let there = context.client.listed(&[run]).await?.pop();
        let there = there.ok_or_else(|| ApiError::missing(format!("there is no run {run}")))?;
        there.status.as_str()
    };
    let value = json!({ "run_id": run, "workflow": workflow, "status": status, "existed": !fresh });
    let code = if fresh {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(reply::json_with(code, &value))
}

/// Start what was asked for. The run, and whether it is new.
pub(crate) async fn begin(
    context: &ServerContext,
    request: StartRequest,
) -> Result<(lope::RunId, bool), ApiError> {
    let (client, questions) = (&context.client, &context.questions);
    let plan = questions.latest_plan(client, &request.workflow).await?;
    let plan = plan.ok_or_else(|| no_workflow(&request.workflow))?;
    let options = options(context, request)?;
    let limits = &context.config.engine.queue_limits;
    let prepared = PreparedRun::new(&plan, options, limits)?;
    let (run, admitted) = client.start(prepared).await?;
    match admitted {
        Admitted::Created { .. } => Ok((run, true)),
        Admitted::Exists { .. } => Ok((run, false)),
        Admitted::UnknownVersion => Err(no_workflow(plan.name())),
    }
}

fn options(context: &ServerContext, request: StartRequest) -> Result<RunStartOptions, ApiError> {
    let queue = request.queue.as_deref().map(QueueName::parse).transpose();
    let queue = queue.map_err(|error| ApiError::bad(format!("queue: {error}")))?;
    let queue = queue.unwrap_or_default();
    let priority = request.priority.map(Priority::new).transpose();
    let priority = priority.map_err(|error| ApiError::bad(format!("priority: {error}")))?;
    let at = request.at.as_deref().map(|text| later("at", text));
    let unfed = if request.open {
        None
    } else {
        Some(Value::Null)
    };
    Ok(RunStartOptions {
        input: request.input.or(unfed),
        open: request.open,
        key: request.key,
        queue,
        priority,
        at: at.transpose()?,
        tags: request.tags,
        env: context.env.clone(),
        ..RunStartOptions::default()
    })
}
