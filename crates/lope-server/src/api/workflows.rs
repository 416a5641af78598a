//! Workflows: what is deployed, and deploying more.

use std::sync::Arc;

use axum::http::StatusCode;
use lope::describe;
use lope::workflows::{self, Format, ProblemReport};
use serde_json::{Value as Json, json};

use super::find::no_workflow;
use super::views::drawn;
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::parameter::{flag, text};
use crate::reply;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/workflows", "listWorkflows", |context, call| {
        Box::pin(list(context, call))
    })
    .does(&["workflows list"])
    .about("The version of every workflow that was deployed last, by name.")
    .answers(Answer::Json("WorkflowPage")),
    Endpoint::post("/api/workflows", "deployWorkflow", |context, call| {
        Box::pin(deploy(context, call))
    })
    .does(&["workflows deploy", "workflows check"])
    .about("Deploy the workflow that is written in the body.")
    .query(&[
        flag("dry_run", "Only say whether it could be"),
        text("file", "What the file is called in messages"),
    ])
    .takes("WorkflowFile")
    .answers(Answer::Created("DeployedWorkflow"))
    .for_admins(),
    Endpoint::get("/api/workflows/{name}", "getWorkflow", |context, call| {
        Box::pin(get(context, call))
    })
    .does(&["workflows show"])
    .about("A workflow as it was deployed last.")
    .answers(Answer::Json("WorkflowWithDefinition")),
    Endpoint::get(
        "/api/workflows/{name}/graph",
        "drawWorkflow",
        |context, call| Box::pin(graph(context, call)),
    )
    .does(&["workflows graph"])
    .about("A workflow as a drawing.")
    .query(&[text("format", "text, mermaid, dot or svg (the default)")])
    .answers(Answer::Text(&["image/svg+xml", "text/plain"])),
];

async fn list(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let all = context.client.workflows().await?;
    let all: Vec<Json> = all
        .iter()
        .map(|it| describe::workflow(&it.name, it.version, it.deployed_at))
        .collect();
    Ok(reply::json(&json!({ "workflows": all })))
}

async fn deploy(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    call.expect_type(&["application/yaml", "text/yaml", "application/x-yaml"])?;
    let dry_run = call.flag("dry_run")?;
    let file_name = call.query("file").unwrap_or("workflow.yaml");
    let text = std::str::from_utf8(&call.body)
        .map_err(|error| ApiError::bad(format!("body: it is not text in UTF-8: {error}")))?;
    let plan = workflows::read(text, file_name).map_err(|problems| {
        let report = ProblemReport {
            file_name,
            text,
            problems: &problems,
        };
        ApiError::bad(report.to_string().trim_end())
    })?;
    if !dry_run {
        context.client.deploy(&plan).await?;
    }
    let value =
        json!({ "workflow": &**plan.name(), "version": plan.version(), "dry_run": dry_run });
    let status = if dry_run {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok(reply::json_with(status, &value))
}

async fn get(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let name = call.param("name");
    let stored = context.client.workflow(name).await?;
    let stored = stored.ok_or_else(|| no_workflow(name))?;
    let definition = stored.definition().map_err(|error| {
        ApiError::conflict(format!(
            "the definition of '{name}' cannot be read: {error}"
        ))
    })?;
    let mut value = describe::workflow(name, stored.version, stored.deployed_at);
    value["definition"] = describe::definition(&definition);
    Ok(reply::json(&value))
}

async fn graph(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let format = call.parsed("format")?.unwrap_or(Format::Svg);
    let name = call.param("name");
    let plan = context.client.latest_plan(name).await?;
    let plan = plan.ok_or_else(|| no_workflow(name))?;
    let drawing = workflows::draw(plan.definition(), None, format);
    let drawing = drawing.map_err(|error| ApiError::conflict(error.to_string()))?;
    Ok(drawn(format, drawing))
}
