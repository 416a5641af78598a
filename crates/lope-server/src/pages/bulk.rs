//! Bulk actions: how many runs fit before anything is done, then how far it is and what became of
//! each run.

use std::sync::Arc;

use lope::tokens::Right;
use maud::{Markup, html};

use super::parts::{ago, copy, empty, state};
use super::shell::{self, Page};
use super::{encoded, to};
use crate::api::bulk::{begin, found};
use crate::api_error::ApiError;
use crate::bulk::{BulkAction, BulkOperation, ItemOutcome};
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;
use crate::search::RunSearch;
use lope_http::commands;
use lope_http::run_filters::{searched, words};
use lope_model::Timestamp;

/// Runs shown of an action.
const ROWS: usize = 200;

pub(crate) async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let all = BulkAction::all(&context.client).await?;
    let going = all.iter().filter(|it| !it.is_over()).count();
    let body = html! {
        div.head { h1 { "Bulk actions" } }
        p.sentence { @if going == 0 { "None is under way." } @else { (going) " under way." } }
        div.card.flush data-part="bulk" {
            @if all.is_empty() { (empty("Search for runs, then act on all that fit:", &curl(&context, &call, &serde_json::json!({ "action": "retry", "filter": { "status": "failed" } })))) }
            @else { table {
                thead { tr { th { "Status" } th { "Action" } th { "Runs that fit" } th.number { "Found" } th.number { "Done" } th.number.less { "Skipped" } th.number.less { "Failed" } th.number { "Asked" } } }
                tbody { @for action in &all { tr {
                    td.tight { (state(action.phase.as_str())) }
                    td { a href=(context.path(&format!("/bulk/{}", action.id))) { (action.operation.as_str()) } }
                    td.wide { (words(&action.query)) }
                    td.number data-th="found" { (action.found) @if action.more { "+" } } td.number data-th="done" { (action.done) } td.number.less { (action.skipped) } td.number.less { (action.failed) }
                    td.number.tight { (ago(Timestamp::from_millis(action.created_at))) }
                } } }
            } }
        }
    };
    Ok(show_page(&context, &call, "Bulk actions", &body))
}

fn show_page(
    context: &ServerContext,
    call: &ApiCall,
    title: &str,
    body: &Markup,
) -> crate::reply::Reply {
    let page = Page {
        title,
        section: "/",
        events: Some(context.path("/api/events")),
    };
    shell::show(context, &call.caller, &page, body)
}

/// How many runs fit, and what may be asked of them.
pub(crate) async fn ask(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let query = searched(&call);
    if query.is_empty() {
        return Err(
            ApiError::bad("which runs? Search first").hint("a filter narrows the list of runs")
        );
    }
    let search = RunSearch::read(&context.client, &ApiCall::of_query(&query)).await?;
    let (count, more) = search.count(&context.client).await?;
    let number = format!("{count}{}", if more { "+" } else { "" });
    let acts = call.caller.right >= Right::Act;
    let body = html! {
        div.head { h1 { "Act on " (number) " runs" } }
        p.sentence { "They fit " code { (words(&query)) } " now; runs that start later are left alone." }
        div.card {
            @if !acts { p.dim { "This token may only read." } }
            @else if count == 0 { p.dim { "No run fits." } }
            @else { @for operation in BulkOperation::ALL { (button(&context, &call, &query, operation, &number)) } }
            p { a href=(format!("{}?{}", context.path("/"), encoded_query(&query))) { "Look at them first" } }
        }
    };
    Ok(show_page(&context, &call, "Bulk action", &body))
}

fn encoded_query(query: &[(String, String)]) -> String {
    let pairs = query
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

const fn word(operation: BulkOperation) -> &'static str {
    match operation {
        BulkOperation::Cancel => "Cancel",
        BulkOperation::Pause => "Pause",
        BulkOperation::Resume => "Resume",
        BulkOperation::Retry => "Retry",
    }
}

fn curl(context: &ServerContext, call: &ApiCall, body: &serde_json::Value) -> String {
    let body = commands::quoted(&body.to_string());
    let options = format!("-H content-type:application/json -d {body}");
    commands::curl(context, call, &options, "/api/bulk")
}

fn button(
    context: &ServerContext,
    call: &ApiCall,
    query: &[(String, String)],
    operation: BulkOperation,
    number: &str,
) -> Markup {
    let (about, class) = match operation {
        BulkOperation::Cancel => ("asked to end; 'finally' blocks still run", "danger"),
        BulkOperation::Pause => ("start no further step until they are resumed", ""),
        BulkOperation::Resume => ("go on after a pause", ""),
        BulkOperation::Retry => ("go on where they failed", "main"),
    };
    let word = word(operation);
    let filter: serde_json::Map<_, _> =
        query
            .iter()
            .fold(serde_json::Map::new(), |mut all, (name, value)| {
                let list = all
                    .entry(name.clone())
                    .or_insert_with(|| serde_json::json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(serde_json::json!(value));
                }
                all
            });
    let body = serde_json::json!({ "action": operation.as_str(), "filter": filter });
    let curl = curl(context, call, &body);
    html! {
        form.row.asked method="post" action=(context.path("/bulk")) data-ask=(format!("{word} {number} runs?")) {
            input type="hidden" name="operation" value=(operation.as_str());
            @for (name, value) in query { input type="hidden" name=(format!("q.{name}")) value=(value); }
            button class=(class) { (word) " " (number) } span.dim { (about) } span.grow {} (copy("as curl", &curl))
        }
    }
}

/// A form asks for an action.
pub(crate) async fn start(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    call.expect_type(&["application/x-www-form-urlencoded"])?;
    let said = call.field("operation").unwrap_or_default();
    let operation = BulkOperation::ALL
        .into_iter()
        .find(|operation| operation.as_str() == said);
    let operation =
        operation.ok_or_else(|| ApiError::bad(format!("runs cannot be asked to '{said}'")))?;
    let fields = form_urlencoded::parse(&call.body);
    let query = fields.filter_map(|(name, value)| {
        let name = name.strip_prefix("q.")?.to_owned();
        Some((name, value.into_owned()))
    });
    let action = begin(&context, &call, operation, query.collect()).await?;
    Ok(to(&context.path(&format!("/bulk/{}", action.id))))
}

pub(crate) async fn stop(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let action = found(&context, &call).await?;
    BulkAction::stop(&context.client, &action.id).await?;
    Ok(to(&context.path(&format!("/bulk/{}", action.id))))
}

pub(crate) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let action = found(&context, &call).await?;
    let after: usize = call.number("after")?.unwrap_or(0);
    let (items, more) = action.items(&context.client, after, ROWS).await?;
    let asked = action.done + action.skipped + action.failed;
    let path = context.path(&format!("/bulk/{}", action.id));
    let body = html! {
        div.head data-part="head" {
            (super::parts::pill(action.phase.as_str())) h1 { (word(action.operation)) " " (action.found) @if action.more { "+" } " runs" }
            span.grow {} span.dim #live {}
            @if !action.is_over() && call.caller.right >= Right::Act {
                form.inline method="post" action=(format!("{path}/stop")) data-ask="Ask no further run?" { button.danger { "Stop" } }
            }
        }
        div data-part="progress" {
            p.sentence { (asked) " of " (action.found) " asked: " (action.done) " done, " (action.skipped) " skipped, " (action.failed) " failed." }
            progress max=(action.found.max(1)) value=(if action.is_over() { action.found.max(1) } else { asked }) aria-label="Progress" {}
            p.dim { "Runs that fitted " code { (words(&action.query)) } @if let Some(by) = &action.by { ", asked by " (by) } ", " (ago(Timestamp::from_millis(action.created_at))) "." }
        }
        div.card.flush data-part="runs" {
            @if items.is_empty() { div.empty { "No run fitted." } }
            @else { table {
                thead { tr { th { "Outcome" } th { "Run" } th { "Why" } } }
                tbody { @for item in &items { tr {
                    td.tight { (state(if item.outcome == ItemOutcome::Pending { "queued" } else { item.outcome.as_str() })) }
                    td.tight { a.mono href=(context.path(&format!("/runs/{}", item.run))) { (item.run) } }
                    td { (item.message.as_deref().unwrap_or_default()) }
                } } }
            } }
        }
        div.pager { span {} @if more { a.button href=(format!("{path}?after={}", after + ROWS)) { "More →" } } }
    };
    Ok(show_page(&context, &call, "Bulk action", &body))
}
