//! The other pages of a run: its steps with the one that was picked, its logs, its journal.

use std::borrow::Cow;
use std::sync::Arc;

use lope::runs::{Execution, ExecutionStatus, RunStatus, as_told};
use lope::tokens::Right;
use lope_model::Value;
use maud::{Markup, html};
use serde_json::json;

use super::encoded;
use super::parts::{cut, exact, json as shown_json, lasted, state};
use super::run;
use super::run_actions::{self, Known};
use super::run_logs::ShownLogs;
use super::run_page::RunPage;
use crate::api::find;
use crate::call::ApiCall;
use crate::clock;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

const ROWS: usize = 200;

pub(crate) async fn steps(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (record, redaction) = find::on_page(&context, &call).await?;
    let after: usize = call.number("after")?.unwrap_or(0);
    let plan = context.client.plan(&record).await?;
    let recent = context.client.recent_history(&record, &plan).await?;
    let history = recent.as_ref().map(|recent| &recent.history);
    let page = RunPage {
        context: &context,
        call: &call,
        record: &record,
    };
    let only = call.query("status").map(str::to_owned);
    let fits = |it: &Cow<'_, Execution>| {
        only.as_deref()
            .is_none_or(|only| it.status.as_str() == only)
    };
    let all = history
        .into_iter()
        .flat_map(lope::runs::Historian::executions);
    let asked = all.filter_map(|it| as_told(&record, it)).filter(fits);
    let rows: Vec<Cow<'_, Execution>> = asked.skip(after).take(ROWS + 1).collect();
    let picked = call
        .query("execution")
        .zip(history)
        .and_then(|(path, history)| as_told(&record, history.execution(path)?));
    let picked = picked.map(|it| match &redaction {
        Some(redaction) => redaction.execution(&it),
        None => it.into_owned(),
    });
    let kept = only
        .as_ref()
        .map(|it| format!("status={it}&"))
        .unwrap_or_default();
    let body = html! {
        (page.head())
        (run_actions::bar(&page, Known { plan: Some(&plan), ..Known::default() }))
        (page.tabs("steps"))
        div.presets {
            @for (word, query) in [("All", ""), ("Failed", "?status=failed"), ("Running", "?status=running")] {
                a href=(format!("{}{query}", page.path("steps"))) aria-current=[(query.strip_prefix("?status=") == only.as_deref()).then_some("true")] { (word) }
            }
        }
        (run::cut_off(&page, recent.as_ref().map(|recent| recent.from)))
        @if let Some(picked) = &picked { (drawer(&page, picked, &ShownLogs::of(&page, Some(&picked.id), history, redaction.as_ref()))) }
        div.card.flush data-part="steps" { table {
            thead { tr { th { "Status" } th { "Execution" } th.less { "Step" } th.number { "Attempts" } th.less { "Began" } th.number { "Took" } } }
            tbody { @for row in rows.iter().take(ROWS) {
                @let end = row.finished_at.unwrap_or_else(clock::now);
                tr class=[(picked.as_ref().is_some_and(|it| it.id == row.id)).then_some("picked")] {
                    td.tight { (state(row.status.as_str())) }
                    td.wide { a.mono href=(format!("{}?{kept}after={after}&execution={}", page.path("steps"), encoded(&row.id))) title=(row.id) { (row.id) } }
                    td.wide.less.dim { (row.step) }
                    td.number data-th="attempts" { (row.attempts.len()) }
                    td.tight.less { (exact(row.opened_at)) }
                    td.number.tight data-th="took" { (lasted(end.since(row.opened_at))) }
                }
            } }
        }
        @if rows.is_empty() { div.empty { "No execution fits." } } }
        div.pager { span {} @if rows.len() > ROWS { a.button href=(format!("{}?{kept}after={}", page.path("steps"), after + ROWS)) { "More →" } } }
    };
    Ok(page.reply(&body))
}

/// One execution with its attempts, what it was given and gave, and its log.
fn drawer(page: &RunPage<'_>, execution: &Execution, logs: &ShownLogs) -> Markup {
    let close = page.path("steps");
    let failed = execution.status == ExecutionStatus::Failed;
    let mark = format!(
        "{} {} {}",
        execution.status.as_str(),
        execution.attempts.len(),
        logs.mark()
    );
    html! {
        section.card.bad[failed] aria-label="Step" data-part="drawer" data-keep=(mark) {
            div.head { (state(execution.status.as_str())) h2 { code { (execution.id) } } span.grow {}
                @if page.call.caller.right >= Right::Act {
                    form.inline method="post" action=(page.path("from")) { input type="hidden" name="execution" value=(execution.id); button { "Run again from here" } }
                }
                a.button href=(close) { "Close" } }
            @if let Some(failure) = &execution.failure { (shown_json(&json!(failure))) }
            @if !execution.attempts.is_empty() { table {
                thead { tr { th.number { "Attempt" } th { "Status" } th { "Action" } th.less { "Worker" } th.less { "Began" } th.number { "Took" } } }
                tbody { @for attempt in &execution.attempts {
                    @let from = attempt.started_at.unwrap_or(attempt.dispatched_at);
                    @let end = attempt.finished_at.unwrap_or_else(clock::now);
                    tr {
                        td.number data-th="attempt" { (attempt.number) } td { (state(attempt.status.as_str())) } td.mono { (attempt.action) }
                        td.wide.less { (attempt.worker.as_deref().unwrap_or_default()) } td.tight.less { (exact(from)) }
                        td.number.tight { (lasted(end.since(from))) }
                    }
                    @if let Some(failure) = &attempt.failure { tr { td {} td.full colspan="5" { (cut(&failure.message, 2_000)) } } }
                } }
            } }
            @if let Some(input) = execution.input.as_ref().filter(|it| **it != Value::Null) { p.dim { "Input" } (shown_json(&json!(input))) }
            @if let Some(output) = &execution.output { p.dim { "Output" } (shown_json(&json!(output))) }
            (logs.markup(true))
        }
    }
}

pub(crate) async fn logs(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let (record, redaction) = find::on_page(&context, &call).await?;
    let page = RunPage {
        context: &context,
        call: &call,
        record: &record,
    };
    let plan = context.client.plan(&record).await?;
    // Nothing of a run that is over is followed.
    let recent = match record.status {
        RunStatus::Live(_) => context.client.recent_history(&record, &plan).await?,
        RunStatus::Final(_) => None,
    };
    let history = recent.as_ref().map(|recent| &recent.history);
    let logs = ShownLogs::of(&page, None, history, redaction.as_ref());
    let body = html! {
        (page.head())
        (run_actions::bar(&page, Known::default()))
        (page.tabs("logs"))
        div.head { input #filter type="search" hidden placeholder="Only lines with…" aria-label="Only lines with"; a.button href=(page.context.path(&format!("/api/runs/{}/logs/text", record.run))) download="log.txt" { "Download" } }
        div data-part="logs" data-keep=(logs.mark()) { (logs.markup(false)) }
    };
    Ok(page.reply(&body))
}

pub(crate) async fn journal(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let record = find::listed(&context.client, call.param("id")).await?;
    let after: u64 = call.number("after")?.unwrap_or(0);
    let rows = context
        .client
        .journal_outline(record.run, after, ROWS + 1)
        .await?;
    let page = RunPage {
        context: &context,
        call: &call,
        record: &record,
    };
    let last = rows.get(ROWS.wrapping_sub(1)).map_or(0, |row| row.seq);
    let body = html! {
        (page.head())
        (run_actions::bar(&page, Known::default()))
        (page.tabs("journal"))
        p.dim { "Everything that happened to this run. A row's number shows the run as it was after it." }
        div.card.flush data-part="journal" { table {
            thead { tr { th.number { "Row" } th { "When" } th { "Event" } th { "Execution" } th.number { "Attempt" } } }
            tbody { @for row in rows.iter().take(ROWS) { tr {
                td.number { a href=(format!("{}?at={}", page.path(""), row.seq)) { (row.seq) } }
                td.tight { (exact(row.at)) } td.mono { (row.event) }
                td.wide.mono { (row.path.as_deref().unwrap_or_default()) }
                td.number data-th=[row.attempt.map(|_| "attempt")] { @if let Some(attempt) = row.attempt { (attempt) } }
            } } }
        } }
        div.pager { span {} @if rows.len() > ROWS { a.button href=(format!("{}?after={last}", page.path("journal"))) { "More →" } } }
        p { a href=(page.context.path(&format!("/api/runs/{}/export", record.run))) { "Download everything" } span.dim { " of this run, as JSON" } }
    };
    Ok(page.reply(&body))
}
