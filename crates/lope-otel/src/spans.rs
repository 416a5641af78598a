//! A run that has ended as spans: itself, its executions, their attempts.

use std::collections::HashSet;

use lope::runs::{
    AttemptRecord, Execution, ExecutionStatus, FinalStatus, Historian, RunRecord, RunStatus,
};
use lope::stores::StoreResult;
use lope::{Client, Failure};
use lope_model::Timestamp;
use lope_model::trace::{SpanId, TraceId};
use serde_json::{Value as Json, json};

/// Longest text of an attribute, in characters.
const TEXT_MAX: usize = 1_000;

/// Who a span is of, and below whom.
struct SpanPlace {
    id: SpanId,
    below: Option<SpanId>,
    name: String,
}

/// The spans of a run; of a very long one those of its last part.
pub(crate) async fn of_run(client: &Client, record: &RunRecord) -> StoreResult<Vec<Json>> {
    let plan = client.plan(record).await?;
    let tells = plan.definition().redacted().is_empty();
    let recent = client.recent_history(record, &plan).await?;
    let history = recent.as_ref().map(|recent| &recent.history);
    let mut spans = vec![run_span(record, tells)];
    if let Some(history) = history {
        spans.extend(of_history(record, history, tells));
    }
    Ok(spans)
}

fn run_span(record: &RunRecord, tells: bool) -> Json {
    let error = record.error.is_some() && tells;
    let error = error.then(|| lope::describe::run(record)["error"].clone());
    let message = error.as_ref().and_then(|error| error["message"].as_str());
    let status = match record.status {
        RunStatus::Final(FinalStatus::Failed) => failed(message),
        RunStatus::Final(FinalStatus::Completed) => done(),
        RunStatus::Final(FinalStatus::Cancelled) | RunStatus::Live(_) => json!({}),
    };
    let attributes = [
        ("lope.run", Some(record.run.to_string())),
        ("lope.workflow", Some(record.workflow.clone())),
        ("lope.version", Some(record.version.to_string())),
        ("lope.status", Some(record.status.as_str().to_owned())),
        ("lope.queue", Some(record.queue.to_string())),
        ("lope.key", record.key.clone()),
        (
            "lope.parent",
            record.parent.as_ref().map(|parent| parent.run.to_string()),
        ),
    ];
    let place = SpanPlace {
        id: SpanId::of_run(record.run),
        below: None,
        name: format!("run {}", record.workflow),
    };
    let end = record.finished_at.unwrap_or(record.begun_at());
    let mut span = span(record, &place, record.begun_at(), end, &attributes);
    span["status"] = status;
    // A child run is a trace of its own, and says whose child it is.
    if let Some(parent) = &record.parent {
        let of = SpanId::of_execution(parent.run, &parent.execution);
        let link =
            json!({ "traceId": TraceId::of(parent.run).to_string(), "spanId": of.to_string() });
        span["links"] = json!([link]);
    }
    span
}

fn of_history(record: &RunRecord, history: &Historian<'_>, tells: bool) -> Vec<Json> {
    let known: HashSet<&str> = history.executions().map(|it| &*it.id).collect();
    let mut spans = Vec::new();
    for execution in history.executions() {
        spans.push(execution_span(record, execution, &known, tells));
        for attempt in &execution.attempts {
            spans.push(attempt_span(record, execution, attempt, tells));
        }
    }
    spans
}

fn execution_span(
    record: &RunRecord,
    execution: &Execution,
    known: &HashSet<&str>,
    tells: bool,
) -> Json {
    let below = match around(&execution.id, known) {
        Some(outer) => SpanId::of_execution(record.run, outer),
        None => SpanId::of_run(record.run),
    };
    let place = SpanPlace {
        id: SpanId::of_execution(record.run, &execution.id),
        below: Some(below),
        name: execution.step.to_string(),
    };
    let attributes = [
        ("lope.run", Some(record.run.to_string())),
        ("lope.execution", Some(execution.id.to_string())),
        ("lope.step", Some(execution.step.to_string())),
        ("lope.status", Some(execution.status.as_str().to_owned())),
    ];
    let end = execution.finished_at.or(record.finished_at);
    let start = execution.opened_at;
    let end = end.unwrap_or(start);
    let mut span = span(record, &place, start, end, &attributes);
    span["status"] = status(execution.status, execution.failure.as_ref(), tells);
    span
}

fn attempt_span(
    record: &RunRecord,
    execution: &Execution,
    attempt: &AttemptRecord,
    tells: bool,
) -> Json {
    let place = SpanPlace {
        id: SpanId::of_attempt(record.run, &execution.id, attempt.number),
        below: Some(SpanId::of_execution(record.run, &execution.id)),
        name: format!("{} attempt {}", execution.step, attempt.number),
    };
    let attributes = [
        ("lope.run", Some(record.run.to_string())),
        ("lope.execution", Some(execution.id.to_string())),
        ("lope.action", Some(attempt.action.to_string())),
        ("lope.status", Some(attempt.status.as_str().to_owned())),
        (
            "lope.worker",
            attempt.worker.as_ref().map(ToString::to_string),
        ),
    ];
    let start = attempt.started_at.unwrap_or(attempt.dispatched_at);
    let end = attempt.finished_at.or(execution.finished_at);
    let end = end.unwrap_or(start);
    let mut span = span(record, &place, start, end, &attributes);
    span["attributes"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| {
            let number = json!({ "intValue": attempt.number.to_string() });
            all.push(json!({ "key": "lope.attempt", "value": number }));
        });
    span["status"] = status(attempt.status, attempt.failure.as_ref(), tells);
    span
}

/// The execution around another: `mail` around `mail/3/send`.
fn around<'a>(id: &'a str, known: &HashSet<&str>) -> Option<&'a str> {
    let mut rest = id;
    while let Some((outer, _)) = rest.rsplit_once('/') {
        if known.contains(outer) {
            return Some(outer);
        }
        rest = outer;
    }
    None
}

fn status(status: ExecutionStatus, failure: Option<&Failure>, tells: bool) -> Json {
    match status {
        ExecutionStatus::Failed | ExecutionStatus::Lost | ExecutionStatus::Forgiven => {
            let message = failure.map(|failure| format!("{}: {}", failure.kind, failure.message));
            failed(message.filter(|_| tells).as_deref())
        }
        ExecutionStatus::Done => done(),
        ExecutionStatus::Running | ExecutionStatus::Skipped | ExecutionStatus::Cancelled => {
            json!({})
        }
    }
}

fn done() -> Json {
    json!({ "code": 1 })
}

fn failed(message: Option<&str>) -> Json {
    match message {
        Some(message) => json!({ "code": 2, "message": cut(message) }),
        None => json!({ "code": 2 }),
    }
}

fn span(
    record: &RunRecord,
    place: &SpanPlace,
    start: Timestamp,
    end: Timestamp,
    attributes: &[(&str, Option<String>)],
) -> Json {
    let nanos = |at: Timestamp| format!("{}000000", at.millis().max(0));
    let said = attributes.iter().filter_map(|(key, value)| {
        let value = json!({ "stringValue": cut(value.as_deref()?) });
        Some(json!({ "key": key, "value": value }))
    });
    let mut span = json!({
        "traceId": TraceId::of(record.run).to_string(),
        "spanId": place.id.to_string(),
        "name": cut(&place.name),
        "kind": 1,
        "startTimeUnixNano": nanos(start),
        "endTimeUnixNano": nanos(end.max(start)),
        "attributes": said.collect::<Vec<_>>(),
    });
    if let Some(below) = place.below {
        span["parentSpanId"] = json!(below.to_string());
    }
    span
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}
