//! The logs of a run as one text, whole, one log after the other: for keeping, not for looking.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderValue;
use bytes::Bytes;
use lope::Redaction;
use lope::workers::LogEntry;
use tokio::sync::mpsc;

use super::find;
use super::views::hidden;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::parameter::{count, text};
use crate::reply;

pub(crate) const ENDPOINTS: &[Endpoint] = &[Endpoint::get(
    "/api/runs/{id}/logs/text",
    "downloadLogs",
    |context, call| Box::pin(download(context, call)),
)
.about("What a run's steps wrote, on this machine: every log from its beginning to its end, as one text.")
.query(&[
    text("execution", "Of this execution alone, by its path"),
    count("attempt", "Of this attempt alone"),
])
.answers(Answer::Text(&["text/plain"]))];

async fn download(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let attempt: Option<u32> = call.parsed("attempt")?;
    let execution = call.query("execution").map(str::to_owned);
    let (record, redaction) = find::shown(&context, &call).await?;
    let logs = context.logs.clone();
    // One log waits while another is being read by the client: no more is held of them.
    let (texts, received) = mpsc::channel::<Bytes>(1);
    tokio::task::spawn_blocking(move || {
        let entries = logs.of_run(record.run).unwrap_or_default();
        let asked = entries.iter().filter(|entry| {
            attempt.is_none_or(|attempt| entry.attempt == attempt)
                && execution
                    .as_deref()
                    .is_none_or(|path| entry.execution == path)
        });
        for entry in asked {
            // Whoever asked may have gone away.
            if texts
                .blocking_send(whole(entry, redaction.as_ref()))
                .is_err()
            {
                return;
            }
        }
    });
    let body = futures_util::stream::unfold(received, |mut received| async move {
        let text = received.recv().await?;
        Some((Ok::<Bytes, Infallible>(text), received))
    });
    let mut reply = reply::text("text/plain; charset=utf-8", Body::from_stream(body));
    let saved = HeaderValue::from_static("attachment; filename=\"log.txt\"");
    reply.headers_mut().insert("content-disposition", saved);
    Ok(reply)
}

/// A log under its name. What must not be shown may stand across lines, so all of it is read first;
/// logs are bounded.
fn whole(entry: &LogEntry, redaction: Option<&Redaction>) -> Bytes {
    let read = std::fs::read(&entry.path).unwrap_or_default();
    let text = String::from_utf8_lossy(&read);
    let text = match redaction {
        Some(redaction) => hidden(&entry.execution, &text, redaction),
        None => text.into_owned(),
    };
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!(
        "== {} attempt {} ==\n{text}{end}",
        entry.execution, entry.attempt
    )
    .into()
}
