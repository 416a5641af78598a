//! Looking at one run: why it is not moving, its journal, results, graph, logs, all of it.

use std::sync::Arc;
use std::time::Duration;

use lope::runs::RunRecord;
use lope::workers::LogEntry;
use lope::workflows::{self, Format};
use lope::{Redaction, describe};
use lope_http::log_file::shares;
pub(crate) use lope_http::log_file::{read_from, tail};
use lope_model::Span;
use serde_json::{Value as Json, json};

use super::find;
use crate::api_error::{ApiError, ApiErrorKind};
use crate::call::ApiCall;
use crate::clock;
use crate::context::{ServerContext, ended};
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::parameter::{count, text};
use crate::reply;

/// Journal rows of a page.
const ROWS: usize = 500;
const ROWS_MOST: usize = 1_000;
/// Bytes of all logs in an answer; what is before them is left out, and said.
const LOGS_BYTES: u64 = 256 * 1024;
/// Most logs in an answer, youngest first.
const LOGS: usize = 200;
/// Longest wait of one request.
const WAIT: Duration = Duration::from_secs(60);

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/runs/{id}/why", "whyRun", |context, call| {
        Box::pin(why(context, call))
    })
    .does(&["runs why"])
    .about("Why a run is not moving, most telling first.")
    .answers(Answer::Json("Reasons")),
    Endpoint::get("/api/runs/{id}/journal", "getJournal", |context, call| {
        Box::pin(journal(context, call))
    })
    .does(&["runs journal"])
    .about("The rows of a run's journal.")
    .query(&[
        count("after", "Rows behind this number"),
        count("limit", "1 to 1000; 500 unless it is said"),
    ])
    .answers(Answer::Json("JournalPage")),
    Endpoint::get("/api/runs/{id}/results", "getResults", |context, call| {
        Box::pin(results(context, call))
    })
    .does(&["runs results"])
    .about("What became of each input that was fed to a run.")
    .answers(Answer::Json("Results")),
    Endpoint::get("/api/runs/{id}/graph", "drawRun", |context, call| {
        Box::pin(graph(context, call))
    })
    .does(&["runs graph"])
    .about("A run's workflow, each step marked with how far it is.")
    .query(&[
        text("format", "text, mermaid, dot or svg (the default)"),
        count("at", "As it was after this journal row"),
    ])
    .answers(Answer::Text(&["image/svg+xml", "text/plain"])),
    Endpoint::get("/api/runs/{id}/logs", "getLogs", |context, call| {
        Box::pin(logs(context, call))
    })
    .does(&["runs logs"])
    .about("What a run's steps wrote, on this machine: the end of each log, 256 KiB in all.")
    .query(&[
        text("execution", "Of this execution alone, by its path"),
        count("attempt", "Of this attempt alone"),
    ])
    .answers(Answer::Json("Logs")),
    Endpoint::get("/api/runs/{id}/export", "exportRun", |context, call| {
        Box::pin(export(context, call))
    })
    .does(&["runs export"])
    .about("Everything there is of a run, as one document.")
    .answers(Answer::Json("Export")),
    Endpoint::get("/api/runs/{id}/wait", "waitRun", |context, call| {
        Box::pin(wait(context, call))
    })
    .does(&["runs wait"])
    .about("The run when it has ended, or as it is when the time is over.")
    .query(&[text(
        "timeout",
        "How long, at most 60s; 30s unless it is said",
    )])
    .answers(Answer::Json("Run")),
];

async fn why(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (record, redaction) = find::shown(&context, &call).await?;
    let reasons = context.client.why(&record).await?;
    let now = clock::now();
    let mut reasons: Vec<Json> = reasons
        .iter()
        .map(|reason| describe::why(reason, record.run, now))
        .collect();
    if let Some(redaction) = &redaction {
        for reason in &mut reasons {
            let message = reason["message"].as_str().unwrap_or_default();
            reason["message"] = json!(redaction.words(message));
        }
    }
    Ok(reply::json(
        &json!({ "run_id": record.run, "status": record.status.as_str(), "reasons": reasons }),
    ))
}

async fn journal(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let after: u64 = call.number("after")?.unwrap_or(0);
    let limit = call.limit(ROWS, ROWS_MOST)?;
    let record = find::run(&context, &call).await?;
    let entries = context
        .client
        .journal_page(&record, after, limit + 1)
        .await?;
    let rows = entries.into_iter().map(|entry| (entry.seq, entry.json));
    let mut rows: Vec<(u64, Json)> = rows.collect();
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|(seq, _)| *seq);
    let rows: Vec<Json> = rows.into_iter().map(|(_, json)| json).collect();
    Ok(reply::json(&json!({ "rows": rows, "next": next })))
}

async fn results(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (record, redaction) = find::shown(&context, &call).await?;
    let results = context.client.results(&record).await?;
    let results: Vec<Json> = results
        .iter()
        .map(|it| match &redaction {
            Some(redaction) => describe::result(&it.input, &redaction.settled(&it.result)),
            None => describe::result(&it.input, &it.result),
        })
        .collect();
    Ok(reply::json(&json!({ "results": results })))
}

async fn graph(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let format = call.parsed("format")?.unwrap_or(Format::Svg);
    let record = find::run(&context, &call).await?;
    let at = find::row(&call, &record)?;
    let drawing = draw_run(&context, &record, format, at).await?;
    Ok(drawn(format, drawing))
}

pub(crate) async fn draw_run(
    context: &ServerContext,
    record: &RunRecord,
    format: Format,
    at: Option<u64>,
) -> Result<String, ApiError> {
    let plan = context.client.plan(record).await?;
    let history = context.client.history(record.run, &plan, at).await?;
    let standings = workflows::standings(record, &history, at);
    workflows::draw(plan.definition(), Some(&standings), format)
        .map_err(|error| ApiError::conflict(error.to_string()))
}

/// A drawing as a response.
pub(crate) fn drawn(format: Format, drawing: String) -> reply::Reply {
    reply::drawing(format == Format::Svg, drawing)
}

async fn logs(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let attempt: Option<u32> = call.number("attempt")?;
    let execution = call.query("execution").map(str::to_owned);
    let (record, redaction) = find::shown(&context, &call).await?;
    let logs = context.logs.clone();
    let read = move || {
        let entries = logs.of_run(record.run).unwrap_or_default();
        let asked = entries.into_iter().rev().filter(|entry| {
            attempt.is_none_or(|attempt| entry.attempt == attempt)
                && execution
                    .as_deref()
                    .is_none_or(|path| entry.execution == path)
        });
        let asked: Vec<LogEntry> = asked.take(LOGS).collect();
        let shares = shares(asked.iter().map(|entry| entry.path.as_path()), LOGS_BYTES);
        let mut told: Vec<Json> = asked
            .iter()
            .zip(shares)
            .filter_map(|(entry, most)| {
                let (text, from) = shown_tail(entry, most, redaction.as_ref()).ok()?;
                Some(json!({ "execution": entry.execution, "attempt": entry.attempt, "text": text, "from": from }))
            })
            .collect();
        told.reverse();
        told
    };
    let told = tokio::task::spawn_blocking(read).await;
    let told = told.map_err(|error| ApiError::new(ApiErrorKind::Bug, error.to_string()))?;
    Ok(reply::json(&json!({ "logs": told })))
}

/// The end of a log, as it may be shown. Of a text that is cut off, what may be a part of a secret
/// goes too.
pub(crate) fn shown_tail(
    entry: &LogEntry,
    most: u64,
    redaction: Option<&Redaction>,
) -> std::io::Result<(String, u64)> {
    let (text, from) = tail(&entry.path, most)?;
    let Some(redaction) = redaction else {
        return Ok((text, from));
    };
    let whole = match text.find('\n') {
        Some(end) if from > 0 => &text[end + 1..],
        None if from > 0 => "",
        _ => &text,
    };
    Ok((hidden(&entry.execution, whole, redaction), from))
}

/// A piece of an execution's log, as it may be shown.
pub(crate) fn hidden(execution: &str, text: &str, redaction: &Redaction) -> String {
    if redaction.hides_log(execution) {
        return format!("{}\n", redaction.left_out());
    }
    redaction.text(text)
}

async fn export(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (record, redaction) = find::shown(&context, &call).await?;
    let mut export = context.client.export(&record).await?;
    if let Some(redaction) = &redaction {
        redaction.document(&mut export);
    }
    Ok(reply::json(&export))
}

async fn wait(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let timeout: Span = call.parsed("timeout")?.unwrap_or(Span::from_secs(30));
    let record = find::run(&context, &call).await?;
    let mut ending = context.ending.clone();
    tokio::select! {
        ended = context.client.wait(record.run) => { ended?; }
        () = tokio::time::sleep(timeout.to_duration().min(WAIT)) => {}
        () = ended(&mut ending) => {}
    }
    let now = context.client.run(record.run).await?;
    let mut record = now.unwrap_or(record);
    find::redact(&context, &mut record).await?;
    Ok(reply::json(&describe::run(&record)))
}
