//! Two runs side by side: their inputs, their results, and where their steps differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope::describe;
use lope::runs::{Execution, RunRecord, as_told};
use maud::{Markup, html};
use serde_json::{Value as Json, json};

use super::parts::{json as shown_json, lasted, pill, state};
use super::run_page::RunPage;
use super::run_result::RunResult;
use crate::api::find;
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::clock;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

/// Executions compared.
const ROWS: usize = 500;

/// A run with as many of its executions as are compared.
struct Side {
    record: RunRecord,
    executions: BTreeMap<Arc<str>, Execution>,
    input: Markup,
    /// What it failed with, or null.
    error: Json,
    result: Option<RunResult>,
}

impl Side {
    /// What is shown of its end.
    fn name(&self) -> &'static str {
        if self.error.is_null() {
            "Result"
        } else {
            "Error"
        }
    }

    fn end(&self, context: &ServerContext) -> Markup {
        match &self.result {
            Some(result) => result.markup(context, &self.record),
            None => shown_json(&self.error),
        }
    }
}

pub(crate) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let record = find::listed(&context.client, call.param("id")).await?;
    let page = RunPage {
        context: &context,
        call: &call,
        record: &record,
    };
    let sides = match call.query("with") {
        Some(other) => {
            let other = find::listed(&context.client, other.trim()).await?;
            let left = side(&context, record.clone()).await?;
            Some((left, side(&context, other).await?))
        }
        None => None,
    };
    let body = html! {
        (page.head())
        (page.tabs("compare"))
        form.row action=(page.path("compare")) {
            input type="search" name="with" value=[call.query("with")] placeholder="Another run: its id or key" aria-label="Another run";
            button { "Compare" }
        }
        @if let Some((left, right)) = &sides { (compared(&page, left, right)) }
        @else { div.card { div.empty { "Name a run to see where the two differ." } } }
    };
    Ok(page.reply(&body))
}

async fn side(context: &ServerContext, record: RunRecord) -> Result<Side, ApiError> {
    let (record, redaction) = find::for_page(context, record).await?;
    let record = find::with_error(context, record).await?;
    let plan = context.client.plan(&record).await?;
    let history = context.client.history(record.run, &plan, None).await?;
    let executions = history.executions().take(ROWS);
    let executions = executions
        .filter_map(|it| as_told(&record, it))
        .map(|it| match &redaction {
            Some(redaction) => (Arc::clone(&it.id), redaction.execution(&it)),
            None => (Arc::clone(&it.id), it.into_owned()),
        })
        .collect();
    let mut input = context.client.input(&record).await?;
    if let Some(redaction) = &redaction {
        input = input.map(|input| redaction.input(&input));
    }
    let input = shown_json(&json!(input));
    let error = describe::run(&record)["error"].take();
    let result = if error.is_null() {
        RunResult::of(context, &record, redaction.as_ref()).await?
    } else {
        None
    };
    Ok(Side {
        record,
        executions,
        input,
        error,
        result,
    })
}

fn compared(page: &RunPage<'_>, left: &Side, right: &Side) -> Markup {
    let mut names: Vec<&Arc<str>> = left
        .executions
        .keys()
        .chain(right.executions.keys())
        .collect();
    names.sort();
    names.dedup();
    let differ = |name: &&Arc<str>| !same(left.executions.get(*name), right.executions.get(*name));
    let different: Vec<&Arc<str>> = names.iter().copied().filter(differ).collect();
    let alike = names.len() - different.len();
    html! {
        p.sentence { (different.len()) @if different.len() == 1 { " execution differs, " } @else { " executions differ, " } (alike) @if alike == 1 { " is alike." } @else { " are alike." } }
        div.columns {
            @for side in [left, right] {
                div.card {
                    div.head { (pill(side.record.status.as_str())) a.mono href=(page.context.path(&format!("/runs/{}", side.record.run))) { (side.record.run) } }
                    p.dim { "Input" @if left.input.0 != right.input.0 { " – differs" } } (side.input)
                    p.dim { (side.name()) @if (&left.error, &left.result) != (&right.error, &right.result) { " – differs" } } (side.end(page.context))
                }
            }
        }
        div.card.flush { table {
            thead { tr { th { "Execution" } th { "This run" } th.number { "Took" } th { "The other" } th.number { "Took" } } }
            tbody { @for name in &different { tr {
                td.wide.mono title=(name) { (name) }
                (cells("this run", left.executions.get(*name))) (cells("the other", right.executions.get(*name)))
            } } }
        } @if different.is_empty() { div.empty { "They went the same way." } } }
    }
}

/// How it ended and with what; how long it took is another matter.
fn same(left: Option<&Execution>, right: Option<&Execution>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => {
            (left.status, &left.output, &left.failure)
                == (right.status, &right.output, &right.failure)
        }
        _ => false,
    }
}

fn cells(of: &str, execution: Option<&Execution>) -> Markup {
    let Some(it) = execution else {
        return html! { td.dim data-th=(of) { "not there" } td.number {} };
    };
    let took = it
        .finished_at
        .unwrap_or_else(clock::now)
        .since(it.opened_at);
    html! { td data-th=(of) { (state(it.status.as_str())) } td.number.tight { (lasted(took)) } }
}
