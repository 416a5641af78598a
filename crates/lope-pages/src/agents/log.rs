//! What an agent said during an attempt: a range of its log, or its lines as they come.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lope::agents::TaskDetail;
use lope::agents::records::TaskAttemptRecord;
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::{ServerContext, ended};
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::event_stream::{self, EventSink, Gone};
use lope_http::log_file::{read_from, whole_characters};
use lope_http::parameter::{Parameter, count};
use lope_http::reply;
use serde_json::json;

/// Bytes of a log in an answer.
const USUAL: u64 = 64 * 1024;
const MOST: u64 = 1024 * 1024;
/// How soon a log is looked at again after something came, and how late if nothing does.
const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_millis(500);

const ATTEMPT: Parameter = count("attempt", "The attempt; the last one unless it is said");

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/tasks/{id}/log", "getTaskLog", |context, call| {
        Box::pin(range(context, call))
    })
    .about("A range of an attempt's log, by bytes; its end unless it is said where it begins.")
    .does(&["tasks logs"])
    .query(&[
        ATTEMPT,
        count("from", "From this byte on"),
        count("limit", "Bytes, 1 to 1048576; 65536 unless it is said"),
    ])
    .answers(Answer::Json("TaskLog")),
    Endpoint::get(
        "/api/tasks/{id}/log/events",
        "watchTaskLog",
        |context, call| Box::pin(watch(context, call)),
    )
    .about("An attempt's log as it is written: events 'text' whose id is the byte they end at, then 'end'.")
    .query(&[
        ATTEMPT,
        count("after", "As 'Last-Event-ID': from this byte on"),
    ])
    .answers(Answer::Events("LogPiece")),
];

/// An attempt of a task: the one that is asked for, or the last.
fn attempt<'a>(call: &ApiCall, detail: &'a TaskDetail) -> Result<&'a TaskAttemptRecord, ApiError> {
    let wanted: Option<i64> = call.number("attempt")?;
    let mut attempts = detail.attempts.iter();
    let found = match wanted {
        Some(number) => attempts.find(|attempt| attempt.number == number),
        None => attempts.next_back(),
    };
    found.ok_or_else(|| match wanted {
        Some(number) => ApiError::missing(format!("the task has no attempt {number}")),
        None => ApiError::missing("no agent was started for the task yet"),
    })
}

/// Where the log of an attempt is, on the machine of its runner.
pub(crate) fn path(context: &ServerContext, attempt: &TaskAttemptRecord) -> Option<PathBuf> {
    let name = attempt.log.as_deref()?;
    // The name comes from the store: it never leads out of the folder.
    let is_plain = name.split('/').all(|part| !part.is_empty() && part != "..");
    let folder = context.logs.folder().join("tasks");
    is_plain.then(|| folder.join(name))
}

async fn range(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let most: u64 = call.number("limit")?.unwrap_or(USUAL);
    if !(1..=MOST).contains(&most) {
        return Err(ApiError::bad(format!("limit: 1 to {MOST}, not {most}")));
    }
    let from: Option<u64> = call.number("from")?;
    let detail = context.board().task_detail(call.param("id")).await?;
    let attempt = attempt(&call, &detail)?;
    let path = path(&context, attempt).filter(|path| path.is_file());
    let path = path.ok_or_else(|| {
        ApiError::missing("there is no log here").hint(
            "logs are kept on the machine of the runner, as long as runners.logRetention says",
        )
    })?;
    let read = move || {
        let size = std::fs::metadata(&path)?.len();
        let from = from.unwrap_or(size.saturating_sub(most)).min(size);
        Ok::<_, std::io::Error>((read_from(&path, from, most)?, from, size))
    };
    let read = tokio::task::spawn_blocking(read).await;
    let (bytes, from, size) = read
        .map_err(std::io::Error::other)
        .flatten()
        .map_err(|error| ApiError::missing(format!("the log cannot be read: {error}")))?;
    let whole = whole_characters(&bytes);
    Ok(reply::json(&json!({
        "task": detail.task.id.to_string(),
        "attempt": attempt.number,
        "from": from,
        "to": from + whole as u64,
        "size": size,
        "text": String::from_utf8_lossy(&bytes[..whole]),
    })))
}

async fn watch(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let last = call.header("last-event-id").and_then(|id| id.parse().ok());
    let from = match last {
        Some(from) => from,
        None => call.number("after")?.unwrap_or(0),
    };
    let detail = context.board().task_detail(call.param("id")).await?;
    let attempt = attempt(&call, &detail)?.clone();
    let (sink, reply) = event_stream::open(&context)?;
    tokio::spawn(async move {
        let mut ending = context.ending.clone();
        tokio::select! {
            _ = tail(&context, &attempt, from, &sink) => {}
            () = sink.gone() => {}
            () = ended(&mut ending) => {}
        }
    });
    Ok(reply)
}

async fn tail(
    context: &ServerContext,
    attempt: &TaskAttemptRecord,
    mut from: u64,
    sink: &EventSink,
) -> Result<(), Gone> {
    let mut next = SOON;
    sink.beat().await?;
    loop {
        // The attempt is looked at before its log: what it wrote before it ended is then there.
        let is_over = has_ended(context, attempt).await;
        let path = path(context, attempt);
        let piece = path.and_then(|path| read_from(&path, from, USUAL).ok());
        match piece.filter(|piece| !piece.is_empty()) {
            Some(mut piece) => {
                piece.truncate(whole_characters(&piece));
                from += piece.len() as u64;
                let text = String::from_utf8_lossy(&piece).into_owned();
                let data = json!({ "text": text, "to": from });
                sink.send(&from.to_string(), "text", &data).await?;
                next = SOON;
            }
            None if is_over => {
                let data = json!({ "text": "", "to": from });
                return sink.send(&from.to_string(), "end", &data).await;
            }
            None => {
                tokio::time::sleep(next).await;
                next = (next * 2).min(LATE);
                sink.keep_alive().await?;
            }
        }
    }
}

async fn has_ended(context: &ServerContext, attempt: &TaskAttemptRecord) -> bool {
    let task = attempt.task_id.to_string();
    let Ok(detail) = context.board().task_detail(&task).await else {
        return false;
    };
    let mut own = detail.attempts.iter();
    let own = own.find(|it| it.number == attempt.number);
    own.is_none_or(|attempt| attempt.ended_at.is_some())
}
