//! Runs and what belongs to them as JSON, in the shapes that users and scripts rely on.
//!
//! Whoever prints or serves JSON about runs takes it from here, so that all say the same.

mod mailbox;
mod schedule;
mod token;

use lope_definition::Definition;
use lope_engine::codec;
use lope_flow::history::{AttemptRecord, Execution, Historian};
use lope_flow::law::{Event, Settled};
use lope_limits::Holder;
use lope_model::{Failure, RunId, Timestamp, VersionId};
use lope_store::runs::{JournalRow, Mail, RunRecord, RunnerRecord, Snapshot};
use lope_why::{Why, as_told};
use serde_json::{Map, Value, json};

pub use lope_redaction::loose;
pub use mailbox::{dead_letter, mailbox_stats, queued, timer};
pub use schedule::{schedule, schedule_status};
pub use token::token;

/// A run. `damage` is there only if its result or error cannot be read, and says why.
pub fn run(record: &RunRecord) -> Value {
    let (end, damage) = match codec::read_end(record) {
        Ok(end) => (end, None),
        Err(unreadable) => ((None, None), Some(unreadable.to_string())),
    };
    let (result, error) = end;
    let mut value = json!({
        "run_id": record.run,
        "workflow": record.workflow,
        "version": record.version,
        "key": record.key,
        "status": record.status.as_str(),
        "result": result,
        "error": error.as_ref().map(|error| failure(error, None)),
        "admitted_at": time(record.created_at),
        "started_at": record.started_at.map(time),
        "finished_at": record.finished_at.map(time),
        "queue": record.queue,
        "priority": record.priority.level(),
        "realm": record.realm,
        "tags": record.tags,
        "parent": record.parent.as_ref().map(|parent| json!({ "run_id": parent.run, "execution": parent.execution })),
        "due_at": record.due.filter(|due| *due < Timestamp::NEVER).map(time),
        "parked": record.parked,
        "owner": record.owner,
        "epoch": record.epoch.0,
        "head": record.head,
    });
    put(&mut value, "damage", damage.map(Value::from));
    value
}

/// A run with its executions and where their steps were written.
pub fn run_with_steps(record: &RunRecord, history: &Historian<'_>) -> Value {
    let mut value = run(record);
    let executions: Vec<Value> = history
        .executions()
        .filter_map(|it| Some(execution(record.run, &*as_told(record, it)?)))
        .collect();
    value["steps"] = json!(executions.len() as u64 + history.dropped());
    value["executions"] = Value::Array(executions);
    add_sources(&mut value, history.plan().definition());
    value
}

/// One firing of a step.
pub fn execution(run: RunId, execution: &Execution) -> Value {
    let last = execution.attempts.last();
    let mut value = json!({
        "id": run.execution(&execution.id),
        "path": &*execution.id,
        "step": &*execution.step,
        "status": execution.status.as_str(),
        "attempt": last.map(|attempt| attempt.number),
        "started_at": time(execution.opened_at),
        "finished_at": execution.finished_at.map(time),
    });
    let error = execution
        .failure
        .as_ref()
        .or_else(|| last.and_then(|attempt| attempt.failure.as_ref()));
    put(
        &mut value,
        "worker",
        last.and_then(|attempt| attempt.worker.as_deref())
            .map(Value::from),
    );
    let tried = last.map(|attempt| attempt.number);
    put(
        &mut value,
        "error",
        error.map(|error| failure(error, tried)),
    );
    put(
        &mut value,
        "output",
        execution.output.as_ref().map(|output| json!(output)),
    );
    if !execution.attempts.is_empty() {
        value["attempts"] = execution.attempts.iter().map(attempt).collect();
    }
    value
}

/// The step of an execution's path as the workflow has it: without the numbers of inputs, rounds and
/// cases.
pub fn step_of(path: &str) -> String {
    let is_name = |part: &&str| !part.starts_with('@') && part.parse::<u64>().is_err();
    let names = path.split('/').filter(is_name);
    names.collect::<Vec<_>>().join("/")
}

/// Say where the steps were written that a run's error and executions name, as far as the
/// definition knows.
pub fn add_sources(run: &mut Value, definition: &Definition) {
    let sources = definition.sources();
    let put_source = |value: &mut Value| {
        let found = value
            .get("step")
            .and_then(Value::as_str)
            .and_then(|step| sources.get(step).or_else(|| sources.get(&step_of(step))))
            .cloned();
        let exact = found
            .as_deref()
            .and_then(|source| line_in_code(value, source));
        put(value, "source", exact.or(found).map(Value::from));
    };
    run.get_mut("error").into_iter().for_each(put_source);
    for execution in run
        .get_mut("executions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        put_source(execution);
        execution.get_mut("error").into_iter().for_each(put_source);
    }
}

/// Where code between awaits failed: its step names the first line of it, and the traceback the line
/// itself.
fn line_in_code(error: &Value, source: &str) -> Option<String> {
    let step = error.get("step")?.as_str()?;
    let (file, _) = source.rsplit_once(':')?;
    let traceback = error.get("traceback")?.as_str()?;
    step.rsplit('/').next()?.strip_prefix("code-")?;
    let (_, rest) = traceback.split_once(&format!("{file}\", line "))?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    Some(format!("{file}:{}", &rest[..end]))
}

fn attempt(attempt: &AttemptRecord) -> Value {
    let mut value = json!({
        "attempt": attempt.number,
        "action": &*attempt.action,
        "status": attempt.status.as_str(),
        "dispatched_at": time(attempt.dispatched_at),
        "started_at": attempt.started_at.map(time),
        "finished_at": attempt.finished_at.map(time),
    });
    put(
        &mut value,
        "worker",
        attempt.worker.as_deref().map(Value::from),
    );
    put(
        &mut value,
        "run_id",
        attempt.child.map(|child| json!(child)),
    );
    put(
        &mut value,
        "error",
        attempt
            .failure
            .as_ref()
            .map(|error| failure(error, Some(attempt.number))),
    );
    value
}

/// One journal row; `step` is the step of the execution that it speaks of.
pub fn row(run: RunId, row: &JournalRow, event: &Event, step: Option<&str>) -> Value {
    let mut value = json!({ "seq": row.seq, "at": time(row.at), "event": &*row.event });
    if let Some((path, attempt)) = event.kind.execution() {
        put(&mut value, "step", step.map(Value::from));
        value["execution"] = json!(run.execution(path));
        value["path"] = json!(&**path);
        put(&mut value, "attempt", attempt.map(Value::from));
    }
    value
}

/// The same, where the history right behind the row is at hand.
pub fn told(run: RunId, of: &JournalRow, event: &Event, history: &Historian<'_>) -> Value {
    let path = event.kind.execution().map(|(path, _)| path);
    let execution = path.and_then(|path| history.execution(path));
    row(run, of, event, execution.map(|it| &*it.step))
}

/// What a row holds, decoded: the event's own fields under the names they are stored with.
pub fn body(event: &Event) -> Value {
    match serde_json::to_value(&event.kind) {
        Ok(Value::Object(fields)) => fields
            .into_iter()
            .next()
            .map_or(Value::Null, |(_, body)| body),
        _ => Value::Null,
    }
}

/// A failure; its step and its attempt are always there. What is not tried again fails at its
/// first attempt.
pub fn failure(failure: &Failure, attempt: Option<u32>) -> Value {
    let mut value = json!(failure);
    value["step"] = json!(failure.step);
    value["attempt"] = json!(failure.attempt.or(attempt).unwrap_or(1));
    value
}

/// What became of an input.
pub fn result(input: &str, settled: &Settled) -> Value {
    match settled {
        Settled::Done(value) => {
            json!({ "input": input, "status": "completed", "result": value, "error": null })
        }
        Settled::Failed(error) => {
            json!({ "input": input, "status": "failed", "result": null, "error": failure(error, None) })
        }
        Settled::Cancelled => {
            json!({ "input": input, "status": "cancelled", "result": null, "error": null })
        }
    }
}

/// One reason why a run is not moving.
pub fn why(why: &Why, run: RunId, now: Timestamp) -> Value {
    let mut value = json!({ "why": why.word(), "message": why.message(now) });
    put(&mut value, "hint", why.hint(run).map(Value::from));
    put(
        &mut value,
        "path",
        why.execution().map(|path| json!(&**path)),
    );
    put(
        &mut value,
        "until",
        why.until().map(|until| json!(time(until))),
    );
    let holders = why.holders().iter().map(|named| {
        let Holder {
            runner,
            attempt,
            since,
        } = &named.holder;
        json!({ "run": attempt.run, "path": &*attempt.execution, "runner": runner, "since": time(*since) })
    });
    let holders: Vec<Value> = holders.collect();
    put(
        &mut value,
        "heldBy",
        (!holders.is_empty()).then(|| Value::from(holders)),
    );
    value
}

/// A runner, as the registry knows it.
pub fn runner(runner: &RunnerRecord) -> Value {
    json!({
        "id": runner.runner,
        "name": runner.name,
        "host": runner.host,
        "pid": runner.pid,
        "program": runner.program,
        "startedAt": time(runner.started_at),
        "heartbeatAt": time(runner.heartbeat_at),
        "live": runner.live,
        "endedAt": runner.ended_at.map(time),
        "owns": runner.owns,
    })
}

/// A snapshot, decoded without its large values: where it stands, and the state as it is stored.
pub fn snapshot(snapshot: &Snapshot) -> Value {
    // The first byte says how the rest is written.
    let state = snapshot.body.get(1..).and_then(loose);
    json!({ "seq": snapshot.seq, "law": snapshot.law, "bytes": snapshot.body.len(), "state": state })
}

/// What waits for a run.
pub fn mail(mail: &Mail) -> Value {
    json!({ "id": mail.id, "kind": mail.kind, "at": time(mail.at), "body": loose(&mail.body) })
}

/// A definition, as it can be deployed again.
pub fn definition(definition: &Definition) -> Value {
    serde_json::from_str(&definition.to_json()).unwrap_or_default()
}

/// A deployed workflow.
pub fn workflow(name: &str, version: VersionId, deployed_at: Timestamp) -> Value {
    json!({ "workflow": name, "version": version, "deployed_at": time(deployed_at) })
}

pub fn time(at: Timestamp) -> String {
    at.to_string()
}

fn put(value: &mut Value, name: &str, field: Option<Value>) {
    let object: Option<&mut Map<String, Value>> = value.as_object_mut();
    if let (Some(object), Some(field)) = (object, field) {
        object.insert(name.to_owned(), field);
    }
}
