//! What people decide about tasks: answers, approvals, rejections, and words for whoever works next.

use std::sync::Arc;

use lope::agents::describe;
use lope::agents::law::decide::Decision;
use lope::agents::records::{Author, TaskRecord};
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::{Answer, ApiResult, Endpoint, EndpointHandler};
use lope_http::reply;
use serde::Deserialize;
use serde_json::{Value as Json, json};

const fn decision(path: &'static str, name: &'static str, handle: EndpointHandler) -> Endpoint {
    Endpoint::post(path, name, handle).answers(Answer::Json("Task"))
}

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    decision("/api/tasks/{id}/approve", "approveTask", |context, call| {
        Box::pin(decide(context, call, "approve"))
    })
    .about("Accept a task that waits for review.")
    .does(&["tasks approve"])
    .takes("TaskDecision"),
    decision("/api/tasks/{id}/reject", "rejectTask", |context, call| {
        Box::pin(decide(context, call, "reject"))
    })
    .about("Send a task back, with notes for whoever works on it next.")
    .does(&["tasks reject"])
    .takes("TaskDecision"),
    decision("/api/tasks/{id}/skip", "skipTask", |context, call| {
        Box::pin(decide(context, call, "skip"))
    })
    .about("Never start a task.")
    .does(&["tasks skip"])
    .takes("TaskDecision"),
    decision("/api/tasks/{id}/reset", "resetTask", |context, call| {
        Box::pin(decide(context, call, "reset"))
    })
    .about("Have a task worked on from the beginning.")
    .does(&["tasks reset"]),
    decision("/api/tasks/{id}/answer", "answerTask", |context, call| {
        Box::pin(decide(context, call, "answer"))
    })
    .about("Answer what an agent asked; its task goes on.")
    .does(&["tasks answer"])
    .takes("TaskWords"),
    decision("/api/tasks/{id}/ask", "askTask", |context, call| {
        Box::pin(decide(context, call, "ask"))
    })
    .about("Have a task wait for a person's answer.")
    .does(&["tasks ask"])
    .takes("TaskWords"),
    decision("/api/tasks/{id}/done", "doneTask", |context, call| {
        Box::pin(decide(context, call, "done"))
    })
    .about("Say that a task is done.")
    .does(&["tasks done"])
    .takes("TaskWords"),
    decision("/api/tasks/{id}/fail", "failTask", |context, call| {
        Box::pin(decide(context, call, "fail"))
    })
    .about("Say that a task cannot be done.")
    .does(&["tasks fail"])
    .takes("TaskWords"),
    decision("/api/tasks/{id}/note", "noteTask", |context, call| {
        Box::pin(note(context, call))
    })
    .about("Say something about a task.")
    .does(&["tasks note"])
    .takes("TaskWords"),
    Endpoint::post("/api/tasks/{id}/split", "splitTask", |context, call| {
        Box::pin(split(context, call))
    })
    .about("Add the tasks that a task falls apart into; it waits for them.")
    .does(&["tasks split"])
    .takes("TaskSplit")
    .answers(Answer::Json("TaskPage")),
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DecisionRequest {
    notes: Option<String>,
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SplitRequest {
    titles: Vec<String>,
}

/// The decision that a verb means.
pub(crate) fn meant(verb: &str, words: Option<String>) -> Result<Decision, ApiError> {
    let needed = |words: Option<String>| {
        let words = words.filter(|words| !words.trim().is_empty());
        words.ok_or_else(|| ApiError::bad("text: it is missing"))
    };
    Ok(match verb {
        "approve" => Decision::Approve { notes: words },
        "reject" => Decision::Reject { notes: words },
        "skip" => Decision::Skip { notes: words },
        "reset" => Decision::Reset,
        "done" => Decision::Done { result: words },
        "answer" => Decision::Answer {
            answer: needed(words)?,
        },
        "ask" => Decision::Ask {
            question: needed(words)?,
        },
        "fail" => Decision::Fail {
            reason: needed(words)?,
        },
        _ => return Err(ApiError::missing("a task cannot be asked that")),
    })
}

/// A task after a person's decision.
pub(crate) async fn decided(
    context: &ServerContext,
    id: &str,
    decision: &Decision,
) -> Result<TaskRecord, ApiError> {
    let board = context.board();
    Ok(board.decide(id, decision, Author::Person).await?)
}

async fn decide(context: Arc<ServerContext>, call: ApiCall, verb: &str) -> ApiResult {
    let request: DecisionRequest = call.body()?;
    let decision = meant(verb, request.text.or(request.notes))?;
    let task = decided(&context, call.param("id"), &decision).await?;
    Ok(reply::json(&describe::task(&task)))
}

async fn note(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: DecisionRequest = call.body()?;
    let text = request.text.filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| ApiError::bad("text: it is missing"))?;
    let board = context.board();
    let task = board.note(call.param("id"), Author::Person, &text).await?;
    Ok(reply::json(&describe::task(&task)))
}

async fn split(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: SplitRequest = call.body()?;
    let board = context.board();
    let parts = board
        .split(call.param("id"), &request.titles, Author::Person)
        .await?;
    let parts: Vec<Json> = parts.iter().map(describe::task).collect();
    Ok(reply::json(&json!({ "tasks": parts, "more": false })))
}
