//! Projects: folders whose tasks agents work on.

use std::sync::Arc;

use axum::http::StatusCode;
use lope::agents::records::ProjectRecord;
use lope::agents::{AgentBoard, BoardError, TaskFilter, describe};
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::parameter::flag;
use lope_http::reply;
use serde::Deserialize;
use serde_json::{Value as Json, json};

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/projects", "listProjects", |context, call| {
        Box::pin(list(context, call))
    })
    .about("Projects, with how many tasks they have in each state.")
    .does(&["projects list"])
    .answers(Answer::Json("ProjectPage")),
    Endpoint::post("/api/projects", "addProject", |context, call| {
        Box::pin(add(context, call))
    })
    .about("Register a folder of this machine as a project. One that is known stays as it is.")
    .does(&["projects add"])
    .takes("ProjectRequest")
    .answers(Answer::Created("Project"))
    .for_admins(),
    Endpoint::get("/api/projects/{project}", "getProject", |context, call| {
        Box::pin(show(context, call))
    })
    .about("A project, by its name or its path.")
    .does(&["projects show"])
    .answers(Answer::Json("Project")),
    Endpoint::post(
        "/api/projects/{project}/enable",
        "enableProject",
        |context, call| Box::pin(switch(context, call, true)),
    )
    .about("Have the tasks of a project started again.")
    .does(&["projects enable"])
    .answers(Answer::Json("Project")),
    Endpoint::post(
        "/api/projects/{project}/disable",
        "disableProject",
        |context, call| Box::pin(switch(context, call, false)),
    )
    .about("Start no task of a project any more.")
    .does(&["projects disable"])
    .answers(Answer::Json("Project")),
    Endpoint::delete(
        "/api/projects/{project}",
        "removeProject",
        |context, call| Box::pin(remove(context, call)),
    )
    .about("Forget a project; its folder stays. One that has tasks only with 'force'.")
    .does(&["projects remove"])
    .query(&[flag("force", "With its tasks")])
    .answers(Answer::Json("Project"))
    .for_admins(),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectRequest {
    path: String,
    name: Option<String>,
}

/// A project by its path or its name; a path may come without its first slash.
pub(crate) async fn found(board: &AgentBoard, named: &str) -> Result<ProjectRecord, ApiError> {
    match board.project(named).await {
        Err(BoardError::Missing { .. }) if !named.starts_with('/') => {
            let rooted = board.project(&format!("/{named}")).await;
            Ok(rooted.map_err(|_| missing(named))?)
        }
        other => Ok(other?),
    }
}

fn missing(named: &str) -> ApiError {
    ApiError::missing(format!("there is no project '{named}'"))
        .hint("GET /api/projects lists what there is")
}

async fn list(context: Arc<ServerContext>, _: ApiCall) -> ApiResult {
    let board = context.board();
    let projects = board.projects().await?;
    let tasks = board.tasks(&TaskFilter::default()).await?;
    let listed = projects.iter().map(|project| {
        let mut counts = serde_json::Map::new();
        for task in tasks.iter().filter(|it| it.project_path == project.path) {
            let count = counts.entry(task.status.as_str()).or_insert(json!(0));
            *count = json!(count.as_u64().unwrap_or(0) + 1);
        }
        let mut value = describe::project(project);
        value["tasks"] = Json::Object(counts);
        value
    });
    Ok(reply::json(
        &json!({ "projects": listed.collect::<Vec<_>>() }),
    ))
}

async fn add(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: ProjectRequest = call.body()?;
    if request.name.as_ref().is_some_and(|it| it.trim().is_empty()) {
        return Err(ApiError::bad("name: a project needs one"));
    }
    let path = tokio::fs::canonicalize(&request.path).await;
    let path = path.map_err(|error| ApiError::bad(format!("path: {}: {error}", request.path)))?;
    let is_folder = path.is_dir();
    let text = path.to_str().filter(|_| is_folder);
    let text = text.ok_or_else(|| ApiError::bad(format!("path: {} is no folder", request.path)))?;
    let (project, is_new) = context
        .board()
        .add_project(text, request.name.as_deref())
        .await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(reply::json_with(status, &describe::project(&project)))
}

async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let project = found(&context.board(), call.param("project")).await?;
    Ok(reply::json(&describe::project(&project)))
}

async fn switch(context: Arc<ServerContext>, call: ApiCall, enabled: bool) -> ApiResult {
    let board = context.board();
    let project = found(&board, call.param("project")).await?;
    let project = board.enable_project(&project.path, enabled).await?;
    Ok(reply::json(&describe::project(&project)))
}

async fn remove(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let force = call.flag("force")?;
    let board = context.board();
    let project = found(&board, call.param("project")).await?;
    board.remove_project(&project.path, force).await?;
    Ok(reply::json(&describe::project(&project)))
}
