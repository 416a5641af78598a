//! Runs: which there are, and what one is.

use std::borrow::Cow;
use std::sync::Arc;

use lope::runs::{Execution, ExecutionStatus, Historian, as_told};
use lope::{Redaction, RunId, describe};
use serde_json::{Value as Json, json};

use super::find;
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::parameter::{Parameter, count, text};
use crate::reply;
use crate::search::{self, RunSearch};

/// Runs of a page, unless it is said.
const USUAL: usize = 50;
/// Most runs of a page.
const MOST: usize = 1_000;
/// Executions that come with a run, or in a page.
const EXECUTIONS: usize = 500;
const EXECUTIONS_MOST: usize = 1_000;
/// Executions that are looked at for those of a step or a status.
const SEARCHED: u64 = 5_000;
/// Bytes of what one execution gave, and of all in an answer.
const VALUE_MAX: usize = 64 * 1024;
const VALUES_MAX: usize = 512 * 1024;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/runs", "listRuns", |context, call| {
        Box::pin(list(context, call))
    })
    .about("Runs, youngest first. 'next' is the 'after' of the next page.")
    .does(&["runs list"])
    .query(LISTED)
    .answers(Answer::Json("RunPage")),
    Endpoint::get("/api/count/runs", "countRuns", |context, call| {
        Box::pin(count_runs(context, call))
    })
    .about("How many runs there are, counted to 50000 and no further: then 'more' is true.")
    .query(&search::PARAMETERS)
    .answers(Answer::Json("RunCount")),
    Endpoint::get("/api/runs/{id}", "getRun", |context, call| {
        Box::pin(get(context, call))
    })
    .about(
        "A run with its first executions, or the youngest of a long one: those since row \
         'executions_from'. The id may be its key, or the beginning of its id.",
    )
    .does(&["runs show"])
    .answers(Answer::Json("RunWithExecutions")),
    Endpoint::get(
        "/api/runs/{id}/executions",
        "listExecutions",
        |context, call| Box::pin(executions(context, call)),
    )
    .about(
        "Executions of a run's steps, in the order in which they began. Those of a step or a status \
         are looked for among 5000 at a time: a page may be short, and 'next' is where to go on.",
    )
    .query(&[
        text("step", "Of this step, by its path in the workflow"),
        text(
            "status",
            "running, done, skipped, failed, forgiven, cancelled",
        ),
        count("after", "The 'next' of the page before"),
        count("limit", "1 to 1000; 500 unless it is said"),
    ])
    .answers(Answer::Json("ExecutionPage")),
];

/// What a list of runs is asked with.
const LISTED: &[Parameter] = &{
    let mut all = [const { count("limit", "1 to 1000; 50 unless it is said") }; 12];
    let mut at = 0;
    while at < search::PARAMETERS.len() {
        all[at] = search::PARAMETERS[at];
        at += 1;
    }
    all[10] = text("after", "The 'next' of the page before");
    all
};

async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let search = RunSearch::read(&context.client, &call).await?;
    let limit = call.limit(USUAL, MOST)?;
    let mut found = search.page(&context.client, limit).await?;
    for record in &mut found.records {
        context.redactions.listed(&context.client, record).await;
    }
    let runs: Vec<Json> = found.records.iter().map(describe::run).collect();
    let value = json!({ "runs": runs, "next": found.next, "searched": found.searched });
    Ok(reply::json(&value))
}

async fn count_runs(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let search = RunSearch::read(&context.client, &call).await?;
    let (count, more) = search.count(&context.client).await?;
    Ok(reply::json(&json!({ "count": count, "more": more })))
}

/// Never reads more of a run than its last part, however long it is.
async fn get(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (record, redaction) = find::shown_in_part(&context, &call).await?;
    let plan = context.client.plan(&record).await?;
    let recent = context.client.recent_history(&record, &plan).await?;
    let described = |it: Cow<'_, Execution>| described(record.run, &it, redaction.as_ref());
    let mut value = describe::run(&record);
    leave_out(std::slice::from_mut(&mut value));
    let from = recent.as_ref().map_or(record.head, |recent| recent.from);
    let history = recent.as_ref().map(|recent| &recent.history);
    let all = history.into_iter().flat_map(Historian::executions);
    let all: Vec<Cow<'_, Execution>> = all.filter_map(|it| as_told(&record, it)).collect();
    let known = all.len();
    let all = all.into_iter();
    let is_whole = from == 0 && recent.is_some();
    let mut executions: Vec<Json> = if is_whole {
        all.take(EXECUTIONS).map(described).collect()
    } else {
        all.skip(known.saturating_sub(EXECUTIONS))
            .map(described)
            .collect()
    };
    leave_out(&mut executions);
    let next = (is_whole && executions.len() < known).then_some(EXECUTIONS);
    let dropped = history.map_or(0, Historian::dropped);
    value["steps"] = json!(is_whole.then_some(known as u64 + dropped));
    value["executions"] = Json::Array(executions);
    value["executions_from"] = json!(from);
    value["executions_next"] = json!(next);
    describe::add_sources(&mut value, plan.definition());
    Ok(reply::json(&value))
}

async fn executions(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let limit = call.limit(EXECUTIONS, EXECUTIONS_MOST)?;
    let after: u64 = call.number("after")?.unwrap_or(0);
    let (step, status) = (call.query("step"), call.query("status"));
    if let Some(status) = status.filter(|it| !EXECUTION_STATUSES.iter().any(|s| s.as_str() == *it))
    {
        let known = EXECUTION_STATUSES.map(ExecutionStatus::as_str).join(", ");
        return Err(ApiError::bad(format!("status: '{status}' is none")).hint(known));
    }
    let (record, redaction) = find::shown_in_part(&context, &call).await?;
    let plan = context.client.plan(&record).await?;
    let is_filtered = step.is_some() || status.is_some();
    let span = if is_filtered { SEARCHED } else { limit as u64 };
    let numbers = after..after.saturating_add(span);
    let pages = &context.execution_pages;
    let part = pages.part(&context.client, &record, &plan, numbers.clone());
    let part = part.await?;
    let told = part.executions.iter();
    let told = told.filter_map(|(number, it)| Some((*number, as_told(&record, it)?)));
    let mut asked = told.filter(|(_, it)| {
        step.is_none_or(|step| &*it.step == step)
            && status.is_none_or(|status| it.status.as_str() == status)
    });
    let page = asked.by_ref().take(limit);
    let mut page: Vec<Json> = page
        .map(|(_, it)| described(record.run, &it, redaction.as_ref()))
        .collect();
    let behind = part.more.then_some(numbers.end);
    let next = asked.next().map(|(number, _)| number).or(behind);
    leave_out(&mut page);
    let mut value = json!({ "executions": page, "next": next });
    describe::add_sources(&mut value, plan.definition());
    Ok(reply::json(&value))
}

/// Outputs, results and errors that are too much for one answer go; `…/value` and `…/wait` have them.
pub(crate) fn leave_out(executions: &mut [Json]) {
    let mut room = VALUES_MAX;
    for execution in executions {
        for name in ["output", "result", "error", "attempts"] {
            let Some(value) = execution.get(name) else {
                continue;
            };
            let bytes = value.to_string().len();
            if bytes <= room.min(VALUE_MAX) {
                room -= bytes;
                continue;
            }
            if let Some(fields) = execution.as_object_mut() {
                fields.remove(name);
                fields.insert(format!("{name}_bytes"), json!(bytes));
            }
        }
    }
}

/// An execution as it may be shown.
fn described(run: RunId, execution: &Execution, redaction: Option<&Redaction>) -> Json {
    match redaction {
        Some(redaction) => describe::execution(run, &redaction.execution(execution)),
        None => describe::execution(run, execution),
    }
}

const EXECUTION_STATUSES: [ExecutionStatus; 6] = [
    ExecutionStatus::Running,
    ExecutionStatus::Done,
    ExecutionStatus::Skipped,
    ExecutionStatus::Failed,
    ExecutionStatus::Forgiven,
    ExecutionStatus::Cancelled,
];
