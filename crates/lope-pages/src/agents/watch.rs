//! Live events of tasks: the board's tasks as they change, and one task with all that is known of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lope::agents::records::TaskRecord;
use lope::agents::{TaskDetail, TaskFilter, describe};
use lope_http::call::ApiCall;
use lope_http::context::{ServerContext, ended};
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::event_stream::{self, EventSink, Gone};
use lope_http::parameter::text;
use lope_model::Digest;
use serde_json::{Value as Json, json};

use super::tasks::detail_json;

/// How late a change is seen whose hint was lost.
const LATE: Duration = Duration::from_secs(1);
/// Changes that come together are looked at once.
const TOGETHER: Duration = Duration::from_millis(100);

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/tasks/events", "watchTasks", |context, call| {
        Box::pin(tasks(context, call))
    })
    .about("Tasks as they change, from now on: events 'task', and 'removed'. Whoever comes back is told 'reset' first: read the list anew.")
    .query(&[text("after", "As 'Last-Event-ID'")])
    .answers(Answer::Events("TaskEvent")),
    Endpoint::get("/api/tasks/{id}/events", "watchTask", |context, call| {
        Box::pin(task(context, call))
    })
    .about("A task with its attempts, now and whenever something about it changes: events 'task'.")
    .query(&[text("after", "As 'Last-Event-ID': not told if it has not changed since")])
    .answers(Answer::Events("TaskWithAttempts")),
];

async fn tasks(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let last = call.header("last-event-id").or_else(|| call.query("after"));
    let is_back = last.is_some();
    let known = revisions(&context.board().tasks(&TaskFilter::default()).await?);
    let (sink, reply) = event_stream::open(&context)?;
    tokio::spawn(async move {
        let mut ending = context.ending.clone();
        tokio::select! {
            _ = follow_board(&context, known, is_back, &sink) => {}
            () = sink.gone() => {}
            () = ended(&mut ending) => {}
        }
    });
    Ok(reply)
}

type Revisions = HashMap<String, i64>;

fn revisions(tasks: &[TaskRecord]) -> Revisions {
    let all = tasks.iter();
    all.map(|task| (task.id.to_string(), task.revision))
        .collect()
}

async fn follow_board(
    context: &ServerContext,
    mut known: Revisions,
    is_back: bool,
    sink: &EventSink,
) -> Result<(), Gone> {
    let board = context.board();
    let mut changes = board.watch();
    let mut number = 0_u64;
    sink.beat().await?;
    if is_back {
        sink.send("0", "reset", &json!({})).await?;
    }
    loop {
        if let Ok(tasks) = board.tasks(&TaskFilter::default()).await {
            let now = revisions(&tasks);
            let is_new = |task: &&TaskRecord| {
                let id = task.id.to_string();
                known.get(&id) != Some(&task.revision)
            };
            for task in tasks.iter().filter(is_new) {
                number += 1;
                let value = describe::task(task);
                sink.send(&number.to_string(), "task", &value).await?;
            }
            for id in known.keys().filter(|id| !now.contains_key(*id)) {
                number += 1;
                let value = json!({ "id": id });
                sink.send(&number.to_string(), "removed", &value).await?;
            }
            known = now;
        }
        let _ = tokio::time::timeout(LATE, changes.changed()).await;
        tokio::time::sleep(TOGETHER).await;
        sink.keep_alive().await?;
    }
}

async fn task(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let last = call.header("last-event-id").or_else(|| call.query("after"));
    let last = last.unwrap_or_default().to_owned();
    let id = context.board().task(call.param("id")).await?.id.to_string();
    let (sink, reply) = event_stream::open(&context)?;
    tokio::spawn(async move {
        let mut ending = context.ending.clone();
        tokio::select! {
            _ = follow_task(&context, &id, last, &sink) => {}
            () = sink.gone() => {}
            () = ended(&mut ending) => {}
        }
    });
    Ok(reply)
}

/// A task as its events tell it, and what tells this state of it from others.
pub(super) fn told_task(detail: &TaskDetail) -> (Json, String) {
    let mut value = detail_json(detail);
    // A lock is renewed with every heartbeat; that is no news.
    if let Some(lock) = value.get_mut("lock").and_then(Json::as_object_mut) {
        lock.remove("expiresAt");
    }
    let digest = Digest::of(value.to_string().as_bytes());
    (value, format!("{:016x}", digest.short()))
}

async fn follow_task(
    context: &ServerContext,
    id: &str,
    mut told: String,
    sink: &EventSink,
) -> Result<(), Gone> {
    let board = context.board();
    let mut changes = board.watch();
    sink.beat().await?;
    loop {
        match board.task_detail(id).await {
            Ok(detail) => {
                let (value, digest) = told_task(&detail);
                if digest != told {
                    sink.send(&digest, "task", &value).await?;
                    told = digest;
                }
            }
            Err(error) => tracing::debug!(%error, "a watched task cannot be read"),
        }
        let _ = tokio::time::timeout(LATE, changes.changed()).await;
        tokio::time::sleep(TOGETHER).await;
        sink.keep_alive().await?;
    }
}
