//! Tasks: listed, shown with all that is known of them, added, removed.

use std::sync::Arc;

use axum::http::StatusCode;
use lope::agents::law::select::{TaskQuery, eligible, role};
use lope::agents::records::{Budget, ReviewBy, TaskRecord, TaskStatus};
use lope::agents::{TaskDetail, TaskDraft, TaskFilter, describe};
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::parameter::{count, text, texts};
use lope_http::reply;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::projects;

const USUAL: usize = 100;
const MOST: usize = 1_000;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/tasks", "listTasks", |context, call| {
        Box::pin(list(context, call))
    })
    .about("Tasks, oldest first; of those asked for the youngest.")
    .does(&["tasks list"])
    .query(&[
        text("project", "Name or path of a project"),
        text("section", "A section of it"),
        texts("status", "pending, in_progress, review, completed, failed, skipped or blocked"),
        count("limit", "1 to 1000; 100 unless it is said"),
    ])
    .answers(Answer::Json("TaskPage")),
    Endpoint::post("/api/tasks", "addTask", |context, call| {
        Box::pin(add(context, call))
    })
    .about("Add a task to a project.")
    .does(&["tasks add"])
    .takes("TaskRequest")
    .answers(Answer::Created("Task")),
    Endpoint::get("/api/tasks/{id}", "getTask", |context, call| {
        Box::pin(show(context, call))
    })
    .about("A task with its attempts, what was said about it, and who works on it. By its id or the beginning of it.")
    .does(&["tasks show"])
    .answers(Answer::Json("TaskWithAttempts")),
    Endpoint::delete("/api/tasks/{id}", "removeTask", |context, call| {
        Box::pin(remove(context, call))
    })
    .about("Forget a task.")
    .does(&["tasks remove"])
    .answers(Answer::Json("Task")),
    Endpoint::get("/api/projects/{project}/next", "nextTask", |context, call| {
        Box::pin(next(context, call))
    })
    .about("The task that would be started next in a project; null if none can be.")
    .does(&["tasks next"])
    .query(&[text("section", "Only of this section")])
    .answers(Answer::Json("NextTask")),
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TaskRequest {
    pub(crate) project: String,
    pub(crate) title: String,
    pub(crate) description: Option<String>,
    pub(crate) section: Option<String>,
    pub(crate) priority: Option<i64>,
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    pub(crate) source_file: Option<String>,
    pub(crate) review: Option<String>,
    #[serde(default)]
    pub(crate) budget: Budget,
}

async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let limit = call.limit(USUAL, MOST)?;
    let statuses = call.query_all("status").map(str::parse::<TaskStatus>);
    let statuses = statuses.collect::<Result<Vec<_>, _>>();
    let statuses = statuses.map_err(|error| ApiError::bad(format!("status: {error}")))?;
    let board = context.board();
    let project = match call.query("project") {
        Some(named) => Some(projects::found(&board, named).await?.path),
        None => None,
    };
    let filter = TaskFilter {
        project,
        section: call.query("section").map(str::to_owned),
        statuses,
    };
    let tasks = board.tasks(&filter).await?;
    let from = tasks.len().saturating_sub(limit);
    let listed: Vec<Json> = tasks[from..].iter().map(describe::task).collect();
    Ok(reply::json(&json!({ "tasks": listed, "more": from > 0 })))
}

async fn add(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let task = added(&context, call.body()?).await?;
    Ok(reply::json_with(
        StatusCode::CREATED,
        &describe::task(&task),
    ))
}

/// The task that a request adds.
pub(crate) async fn added(
    context: &ServerContext,
    request: TaskRequest,
) -> Result<TaskRecord, ApiError> {
    let board = context.board();
    let project = projects::found(&board, &request.project).await?;
    let review = match &request.review {
        Some(text) => text
            .parse::<ReviewBy>()
            .map_err(|error| ApiError::bad(format!("review: {error}")))?,
        None => context.config.runners.review,
    };
    let mut dependencies = Vec::with_capacity(request.needs.len());
    for named in &request.needs {
        dependencies.push(board.task(named).await?.id);
    }
    let draft = TaskDraft::new(project.path, request.title);
    let draft = TaskDraft {
        description: request.description.unwrap_or_default(),
        section: request.section,
        priority: request.priority.unwrap_or(draft.priority),
        dependencies,
        source_file: request.source_file,
        review,
        budget: request.budget,
        ..draft
    };
    Ok(board.add_tasks(vec![draft]).await?.remove(0))
}

async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let detail = context.board().task_detail(call.param("id")).await?;
    Ok(reply::json(&detail_json(&detail)))
}

/// A task with all that is known of it.
pub(crate) fn detail_json(detail: &TaskDetail) -> Json {
    let mut value = describe::task(&detail.task);
    value["attemptList"] = detail.attempts.iter().map(describe::attempt).collect();
    value["events"] = detail.events.iter().map(describe::event).collect();
    if let Some((lock, stands)) = &detail.lock {
        value["lock"] = describe::lock(lock, *stands);
    }
    value
}

async fn remove(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let removed = context.board().remove_task(call.param("id")).await?;
    Ok(reply::json(&describe::task(&removed)))
}

async fn next(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let board = context.board();
    let project = projects::found(&board, call.param("project")).await?;
    let view = board.view(Some(&project.path)).await?;
    let query = TaskQuery {
        project: Some(&project.path),
        section: call.query("section"),
        ..TaskQuery::default()
    };
    let first = eligible(&view, &query, &board.rules).into_iter().next();
    let task = first.map(|task| {
        let mut value = describe::task(task);
        value["role"] = json!(role(task).as_str());
        value
    });
    Ok(reply::json(&json!({ "task": task })))
}
