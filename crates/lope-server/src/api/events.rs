//! Live events: all runs, one run's rows, one log's lines. A client that was cut off comes back with
//! the id of its last event and is given what came after it, each once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use lope::describe;
use lope::runs::{Follower, News, RunRecord, RunStatus};
use lope::stores::StoreResult;
use lope_http::log_file::whole_characters;
use lope_model::RunId;
use serde_json::{Value as Json, json};
use tokio::sync::broadcast;

use super::changes::{AFTER, watch_feed};
use super::find;
use super::views::{hidden, read_from};
use crate::api::runs;
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::{ServerContext, ended};
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::event_stream::{self, EventSink, Gone};
use crate::parameter::{count, text};
use crate::reply;

/// How soon a run is looked at again after something happened to it, and how late if nothing does.
const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_secs(1);
/// Bytes of a log that are told at once.
const PIECE: u64 = 64 * 1024;
/// What the id of a log's last event ends with.
const LOG_END: &str = ".end";

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/events", "watchRuns", |context, call| {
        Box::pin(watch_feed(context, call, |context| &context.run_feed))
    })
    .about("Runs as they change: events 'run', and 'reset' if what was missed is not known any more.")
    .query(AFTER)
    .answers(Answer::Events("Run")),
    Endpoint::get("/api/runs/{id}/events", "watchRun", |context, call| {
        Box::pin(run(context, call))
    })
    .about("The rows of a run's journal as they come: events 'row', then 'end' with the run.")
    .does(&["runs watch"])
    .query(&[count("after", "As 'Last-Event-ID': rows behind this number")])
    .answers(Answer::Events("RunEvent")),
    Endpoint::get("/api/runs/{id}/logs/events", "watchLog", |context, call| {
        Box::pin(log(context, call))
    })
    .about("An attempt's log as it is written: events 'text' whose id is the byte they end at, then 'end'.")
    .query(&[
        text("execution", "The execution, by its path"),
        count("attempt", "The attempt; the first unless it is said"),
        count("after", "As 'Last-Event-ID': from this byte on"),
    ])
    .answers(Answer::Events("LogPiece")),
];

async fn run(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let record = find::run(&context, &call).await?;
    let last = call.header("last-event-id").map(str::to_owned);
    // Whoever has seen the end and comes back is told that there is no more.
    if last.as_deref() == Some(end_id(&record).as_str()) && is_final(&record) {
        return Ok(no_more());
    }
    let rows = last.and_then(|id| id.split('.').next().unwrap_or_default().parse().ok());
    let after = match rows {
        Some(after) => after,
        None => call.number("after")?.unwrap_or(0),
    };
    let (sink, reply) = event_stream::open(&context)?;
    tokio::spawn(async move {
        let mut ending = context.ending.clone();
        tokio::select! {
            followed = follow(&context, record, after, &sink) => {
                if let Err(error) = followed {
                    tracing::debug!(%error, "a run's events end early");
                }
            }
            () = sink.gone() => {}
            () = ended(&mut ending) => {}
        }
    });
    Ok(reply)
}

async fn follow(
    context: &ServerContext,
    mut record: RunRecord,
    after: u64,
    sink: &EventSink,
) -> StoreResult<()> {
    let client = &context.client;
    let plan = client.plan(&record).await?;
    let mut follower = client.follow(record.run, &plan).await?;
    let mut pace = Pace::begin(context).await;
    if sink.beat().await.is_err() {
        return Ok(());
    }
    loop {
        let more = tell_rows(&mut follower, record.run, after, sink).await?;
        let Ok(told) = more else { return Ok(()) };
        if told > 0 {
            pace.soon();
            continue;
        }
        if let Some(now) = client.run(record.run).await? {
            record = now;
        }
        // The record may be ahead of what was read of the journal: go on until both have ended.
        if is_final(&record) && follower.historian().seq() >= record.head {
            if let Some(redaction) = context.redaction(&record).await? {
                redaction.record(&mut record);
            }
            let mut told = describe::run(&record);
            runs::leave_out(std::slice::from_mut(&mut told));
            let _ = sink.send(&end_id(&record), "end", &told).await;
            return Ok(());
        }
        if pace.wait(record.run, sink).await.is_err() {
            return Ok(());
        }
    }
}

/// The rows that came since, a page of them. How many there were.
async fn tell_rows(
    follower: &mut Follower<'_>,
    run: RunId,
    after: u64,
    sink: &EventSink,
) -> StoreResult<Result<u64, Gone>> {
    let mut rows: Vec<(u64, Json)> = Vec::new();
    let page = follower.catch_up_page(|row, event, history| {
        if row.seq <= after {
            return;
        }
        let mut value = describe::told(run, row, event, history);
        let changed = history
            .touched()
            .map(|it| json!({ "path": &*it.id, "step": &*it.step, "status": it.status.as_str() }));
        value["changes"] = changed.collect();
        value["status"] = json!(history.status().as_str());
        rows.push((row.seq, value));
    });
    let folded = page.await?;
    for (seq, row) in rows {
        if sink.send(&seq.to_string(), "row", &row).await.is_err() {
            return Ok(Err(Gone));
        }
    }
    Ok(Ok(folded))
}

fn is_final(record: &RunRecord) -> bool {
    matches!(record.status, RunStatus::Final(_))
}

/// The id of the event that ends a stream: a run may be taken up again, and then goes on behind it.
fn end_id(record: &RunRecord) -> String {
    format!("{}.end", record.head)
}

/// When to look at a run again: at once when the runner of this process tells of it, soon after
/// something happened, rarely when nothing does.
struct Pace {
    news: Option<broadcast::Receiver<News>>,
    next: Duration,
}

impl Pace {
    async fn begin(context: &ServerContext) -> Self {
        let news = match &context.runner {
            Some(runner) => runner.news().await.ok(),
            None => None,
        };
        Self { news, next: SOON }
    }

    fn soon(&mut self) {
        self.next = SOON;
    }

    async fn wait(&mut self, run: RunId, sink: &EventSink) -> Result<(), Gone> {
        let heard = tokio::select! {
            () = about(&mut self.news, run) => true,
            () = tokio::time::sleep(self.next) => false,
            () = sink.gone() => return Err(Gone),
        };
        if heard {
            // What is told is not yet on disk.
            self.next = SOON;
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else {
            self.next = (self.next * 2).min(LATE);
        }
        sink.keep_alive().await
    }
}

/// Returns when the runner tells something about a run.
async fn about(news: &mut Option<broadcast::Receiver<News>>, run: RunId) {
    let Some(receiver) = news else {
        return std::future::pending().await;
    };
    loop {
        match receiver.recv().await {
            Ok(heard) if run_of(&heard) == run => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
        }
    }
}

fn run_of(news: &News) -> RunId {
    match news {
        News::Ended { run, .. } | News::InputSettled { run, .. } | News::Notice { run, .. } => *run,
        News::Checkpointed(run) | News::Rested(run) | News::Left(run) => *run,
    }
}

/// A client that is told so does not come back.
fn no_more() -> reply::Reply {
    let body = axum::body::Body::empty();
    reply::typed(StatusCode::NO_CONTENT, "text/event-stream", body)
}

async fn log(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let attempt: u32 = call.number("attempt")?.unwrap_or(1);
    let execution = call
        .query("execution")
        .ok_or_else(|| ApiError::bad("execution: it is missing"))?
        .to_owned();
    let last = call.header("last-event-id");
    if last.is_some_and(|id| id.ends_with(LOG_END)) {
        return Ok(no_more());
    }
    let last = last.and_then(|id| id.parse().ok());
    let from = match last {
        Some(from) => from,
        None => call.number("after")?.unwrap_or(0),
    };
    let record = find::run(&context, &call).await?;
    let paths = context.redactions.paths(&context.client, &record).await?;
    let (sink, reply) = event_stream::open(&context)?;
    tokio::spawn(async move {
        let mut ending = context.ending.clone();
        let wanted = WantedLog {
            run: record.run,
            execution,
            attempt,
            is_redacted: !paths.is_empty(),
        };
        tokio::select! {
            _ = tail(&context, &wanted, from, &sink) => {}
            () = sink.gone() => {}
            () = ended(&mut ending) => {}
        }
    });
    Ok(reply)
}

struct WantedLog {
    run: RunId,
    execution: String,
    attempt: u32,
    is_redacted: bool,
}

impl WantedLog {
    /// A piece of the log as it may be shown. What must not be seen may have come since the piece
    /// before, so it is asked for with each.
    async fn shown(&self, context: &ServerContext, record: &RunRecord, text: &str) -> String {
        if !self.is_redacted {
            return text.to_owned();
        }
        match context.redaction(record).await {
            Ok(Some(redaction)) => hidden(&self.execution, text, &redaction),
            Ok(None) => text.to_owned(),
            Err(_) => String::new(),
        }
    }

    /// How much of a piece is told: whole letters, and whole lines where something may have to be
    /// hidden in them.
    fn told(&self, piece: &[u8], over: bool) -> usize {
        let letters = whole_characters(piece);
        let lines = piece[..letters].iter().rposition(|byte| *byte == b'\n');
        match lines {
            _ if !self.is_redacted || over => letters,
            Some(end) => end + 1,
            // A line that fills a piece comes as it is.
            None if piece.len() as u64 >= PIECE => letters,
            None => 0,
        }
    }

    fn path(&self, context: &ServerContext) -> Option<PathBuf> {
        let entries = context.logs.of_run(self.run).unwrap_or_default();
        let mut entries = entries.into_iter();
        let found = entries
            .find(|entry| entry.execution == self.execution && entry.attempt == self.attempt);
        found.map(|entry| entry.path)
    }
}

async fn tail(
    context: &ServerContext,
    wanted: &WantedLog,
    mut from: u64,
    sink: &EventSink,
) -> Result<(), Gone> {
    let mut next = SOON;
    sink.beat().await?;
    loop {
        // The run is looked at before its log: what it wrote before it ended is then there.
        let run = context.client.run(wanted.run).await.ok().flatten();
        let over = run.as_ref().is_none_or(is_final);
        let path = wanted.path(context);
        let piece = path.and_then(|path| read_from(&path, from, PIECE).ok());
        let piece = piece.map(|mut piece| {
            piece.truncate(wanted.told(&piece, over));
            piece
        });
        match piece.filter(|piece| !piece.is_empty()) {
            Some(piece) => {
                from += piece.len() as u64;
                let mut text = String::from_utf8_lossy(&piece).into_owned();
                if let Some(record) = &run {
                    text = wanted.shown(context, record, &text).await;
                }
                let data = json!({ "text": text, "to": from });
                sink.send(&from.to_string(), "text", &data).await?;
                next = SOON;
            }
            None if over => {
                let id = format!("{from}{LOG_END}");
                let data = json!({ "text": "", "to": from });
                return sink.send(&id, "end", &data).await;
            }
            None => {
                tokio::time::sleep(next).await;
                next = (next * 2).min(LATE);
                sink.keep_alive().await?;
            }
        }
    }
}
