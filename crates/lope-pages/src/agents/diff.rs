//! What an attempt changed in its worktree, on the machine of its runner.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lope::agents::TaskDetail;
use lope::agents::records::TaskAttemptRecord;
use lope::agents::worktree;
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::parameter::count;
use lope_http::reply;
use maud::{Markup, html};
use serde_json::json;

pub(crate) const ENDPOINTS: &[Endpoint] =
    &[
        Endpoint::get("/api/tasks/{id}/diff", "getTaskDiff", |context, call| {
            Box::pin(show(context, call))
        })
        .about("What an attempt changed in its worktree, committed or not.")
        .does(&["tasks diff"])
        .query(&[count(
            "attempt",
            "The attempt; the last one that has a worktree unless it is said",
        )])
        .answers(Answer::Json("TaskDiff")),
    ];

async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let wanted: Option<i64> = call.number("attempt")?;
    let detail = context.board().task_detail(call.param("id")).await?;
    let mut attempts = detail.attempts.iter().rev();
    let found = attempts.find(|attempt| {
        attempt.worktree.is_some() && wanted.is_none_or(|number| attempt.number == number)
    });
    let attempt = found.ok_or_else(|| ApiError::missing("no such attempt has a worktree"))?;
    let path = path(&context, attempt);
    let path = path.ok_or_else(|| ApiError::missing("the worktree is gone, or elsewhere"))?;
    let project = Path::new(&detail.task.project_path);
    let text = worktree::diff(&path, project).await;
    let text = text.map_err(|error| ApiError::missing(error.to_string()))?;
    Ok(reply::json(&json!({
        "task": detail.task.id.to_string(),
        "attempt": attempt.number,
        "worktree": path.display().to_string(),
        "diff": text,
    })))
}

/// Where the worktree of an attempt is. The path comes from the store: it never leads out of the
/// folder of worktrees.
fn path(context: &ServerContext, attempt: &TaskAttemptRecord) -> Option<PathBuf> {
    let folder = context.logs.folder().parent()?.join("worktrees");
    let folder = folder.canonicalize().ok()?;
    let path = Path::new(attempt.worktree.as_deref()?);
    let path = path.canonicalize().ok()?;
    path.starts_with(folder).then_some(path)
}

/// What the attempt that is shown changed, or the last one before it.
pub(super) async fn card(
    context: &ServerContext,
    detail: &TaskDetail,
    shown: Option<&TaskAttemptRecord>,
) -> Markup {
    let Some(attempt) = shown.filter(|attempt| attempt.worktree.is_some()) else {
        return html! {};
    };
    let project = Path::new(&detail.task.project_path);
    let text = match path(context, attempt) {
        Some(path) => worktree::diff(&path, project).await,
        None => return html! {},
    };
    html! {
        div.card.flush {
            div.title { strong { "Changes of attempt " (attempt.number) } span.grow {} span.mono.dim { (attempt.worktree.as_deref().unwrap_or_default()) } }
            @match text {
                Ok(text) if text.is_empty() => { div.empty { "Nothing is changed." } }
                Ok(text) => { pre.log { (text) } }
                Err(error) => { div.empty { (error) } }
            }
        }
    }
}
