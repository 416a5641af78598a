//! The list of runs: filters in the URL, one box that takes any id or key, live.

use std::sync::Arc;

use lope::RunId;
use lope::runs::{FoundRun, RunFilter, RunRecord};
use maud::{Markup, html};

use super::parts::{ago, brief, cut, empty, lasted, state};
use super::shell::{self, Page};
use super::{encoded, to};
use crate::api_error::{ApiError, ApiErrorKind};
use crate::call::ApiCall;
use crate::clock;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;
use crate::search::{FoundRuns, RunSearch};
use lope_http::run_filters;

/// Runs of a page.
const ROWS: usize = 50;
/// Letters of an id that lists show, and how far a run is looked for by them, in pages of runs.
const SHORT: usize = 8;
const LISTED: usize = 500;
const PAGES: usize = 20;
/// Workflows that the filter offers.
const OFFERED: usize = 200;

const PRESETS: [(&str, &str); 5] = [
    ("All", ""),
    (
        "In flight",
        "status=queued&status=running&status=waiting&status=sleeping&status=idle&status=paused",
    ),
    ("Failed", "status=failed"),
    ("Waiting", "status=waiting&status=sleeping"),
    ("Paused", "status=paused"),
];

pub(crate) async fn show(context: Arc<ServerContext>, mut call: ApiCall) -> ApiResult {
    if let Some(text) = call.query("q").map(str::to_owned) {
        if let Some(run) = named(&context, text.trim()).await? {
            return Ok(to(&context.path(&format!("/runs/{run}"))));
        }
        call.query.extend(run_filters::of_words(&text));
    }
    let cursor = context.run_feed.cursor(&context.client).await?;
    let (found, refused) = match found(&context, &call).await {
        Ok(found) => (found, None),
        Err(error) if is_of_filters(&error) => (FoundRuns::default(), Some(error)),
        Err(error) => return Err(error),
    };
    let next = found.next.as_deref();
    let filters = run_filters::in_words(&call);
    let first = call.query("after").is_none() && refused.is_none();
    let shown = Page {
        title: "Runs",
        section: "/",
        events: first.then(|| format!("{}?after={cursor}", context.path("/api/events"))),
    };
    let body = html! {
        div.head {
            h1 { "Runs" }
            span.grow {}
            @if !filters.is_empty() && !found.records.is_empty() { a.button href=(format!("{}?{}", context.path("/bulk/ask"), run_filters::in_link(&call, ""))) { "Act on all…" } }
            @if first { span.dim #live {} button #fresh.fresh {} button #hold hidden {} }
        }
        @if refused.is_none() { p.sentence data-part="sentence" { (sentence(&call, &found, &filters)) } }
        (search_form(&context, &call).await?)
        (presets(&context, &call))
        @if let Some(error) = &refused { p.note.bad role="alert" { (error.message) @if let Some(hint) = &error.hint { " (" (hint) ")" } } }
        @else { div.card.flush data-part="runs" { (table(&context, &found.records, &filters)) } }
        @if let Some(searched) = found.searched { p.dim { (searched) " runs were looked at" @if next.is_some() { "; go on with Older" } "." } }
        (pager(&context, &call, next))
    };
    let mut reply = shell::show(&context, &call.caller, &shown, &body);
    if let Some(error) = refused {
        *reply.status_mut() = error.kind.status();
    }
    Ok(reply)
}

async fn found(context: &ServerContext, call: &ApiCall) -> Result<FoundRuns, ApiError> {
    if let Some(conflict) = conflict(call) {
        return Err(ApiError::bad(conflict));
    }
    let wanted = RunSearch::read(&context.client, call).await?;
    wanted.page(&context.client, ROWS).await
}

/// Is it what was asked for that makes no sense? Then it can be mended where it was written.
fn is_of_filters(error: &ApiError) -> bool {
    let kinds = [ApiErrorKind::BadRequest, ApiErrorKind::NotFound];
    kinds.contains(&error.kind)
}

/// How many runs there are, or fit, as far as a page knows.
fn sentence(call: &ApiCall, found: &FoundRuns, filters: &str) -> Markup {
    let count = found.records.len();
    let (older, more) = (call.query("after").is_some(), found.next.is_some());
    html! {
        @match (older, more, count) {
            (true, _, 1) => "1 older run",
            (true, ..) => { (count) " older runs" }
            (false, false, 0) => "No run",
            (false, false, 1) => "1 run",
            (false, false, _) => { (count) " runs" }
            (false, true, _) => { "More than " (count) " runs" }
        }
        @if !filters.is_empty() { @if count < 2 && !more { " fits " } @else { " fit " } code { (filters) } }
        @if more { @if older { ", and there are more" } @else { "; the newest are here" } }
        "."
    }
}

/// The run that a text names: by its id or key, or by the end of its id, as lists show it.
async fn named(context: &ServerContext, text: &str) -> Result<Option<RunId>, ApiError> {
    if let FoundRun::Run(run) = context.client.find(text).await? {
        return Ok(Some(run));
    }
    let end = text.trim_start_matches('…');
    if end.len() < SHORT || !end.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return Ok(None);
    }
    let mut filter = RunFilter {
        limit: LISTED,
        ..RunFilter::default()
    };
    for _ in 0..PAGES {
        let records = context.client.list(filter.clone()).await?;
        let mut all = records.iter();
        if let Some(found) = all.find(|it| it.run.to_string().ends_with(end)) {
            return Ok(Some(found.run));
        }
        let Some(last) = records.last().filter(|_| records.len() == LISTED) else {
            break;
        };
        filter.after = Some(last.cursor());
    }
    Ok(None)
}

/// What cannot be true of one run.
fn conflict(call: &ApiCall) -> Option<String> {
    ["workflow", "queue", "parent", "key", "error"]
        .into_iter()
        .find_map(|name| {
            let mut said: Vec<&str> = call.query_all(name).collect();
            said.dedup();
            let [first, second, ..] = said[..] else {
                return None;
            };
            Some(format!(
                "No run fits: it has one {name}, not both '{first}' and '{second}'."
            ))
        })
}

async fn search_form(context: &ServerContext, call: &ApiCall) -> Result<Markup, ApiError> {
    let workflows = context.client.workflows().await?;
    let offered = workflows.iter().take(OFFERED).map(|it| it.name.as_str());
    let asked = call.query("workflow");
    let picked = offered.clone().find(|name| Some(*name) == asked);
    Ok(html! {
        form.row role="search" action=(context.path("/")) {
            input type="search" name="q" value=(run_filters::in_box(call, picked)) aria-label="Search"
                placeholder="Run id, key, or status:failed workflow:orders tag:plan=pro  ( / )";
            select name="workflow" aria-label="Workflow" {
                option value="" { "Any workflow" }
                @for name in offered { option value=(name) selected[picked == Some(name)] { (brief(name, 60)) } }
            }
            button { "Find" }
        }
    })
}

/// The statuses that a query asks for, in order.
fn statuses_of(query: &str) -> Vec<&str> {
    let words = query.split('&');
    let mut statuses: Vec<&str> = words.filter_map(|it| it.strip_prefix("status=")).collect();
    statuses.sort_unstable();
    statuses
}

fn presets(context: &ServerContext, call: &ApiCall) -> Markup {
    let mut current: Vec<&str> = call.query_all("status").collect();
    current.sort_unstable();
    current.dedup();
    let others = run_filters::in_link(call, "status");
    html! {
        div.presets role="group" aria-label="Presets" {
            @for (word, query) in PRESETS {
                @let statuses = statuses_of(query);
                a href=(format!("{}?{others}{query}", context.path("/"))) aria-current=[(statuses == current).then_some("true")] { (word) }
            }
        }
    }
}

fn table(context: &ServerContext, records: &[RunRecord], filters: &str) -> Markup {
    if records.is_empty() {
        return if filters.is_empty() {
            empty("No runs yet. Start one:", "lope start examples/hello.yaml")
        } else {
            html! { div.empty { p { "No run fits." } a href=(context.path("/")) { "Show all" } } }
        };
    }
    html! {
        table {
            (head())
            tbody { @for record in records { (row(context, record)) } }
        }
    }
}

pub(crate) fn head() -> Markup {
    html! {
        thead { tr {
            th { "Status" } th { "Run" } th { "Workflow" } th.less { "Key and tags" }
            th.less { "Queue" } th.number { "Started" } th.number.less { "Took" }
        } }
    }
}

pub(crate) fn row(context: &ServerContext, record: &RunRecord) -> Markup {
    html! {
        tr {
            td.tight { (state(record.status.as_str())) }
            td.tight { a.mono href=(context.path(&format!("/runs/{}", record.run))) title=(record.run) { (short(record)) } }
            td.wide title=(record.workflow) { a href=(context.path(&format!("/workflows/{}", encoded(&record.workflow)))) { (record.workflow) } }
            td.wide.less {
                @if let Some(key) = &record.key { span.mono title=(key) { (cut(key, 80)) } " " }
                @for (name, value) in &record.tags { span.tag { (name) "=" (value) } }
            }
            td.less { (record.queue) }
            td.number.tight { @if !has_begun(record) { "queued " } (ago(record.begun_at())) }
            td.number.tight.less { (took(record)) }
        }
    }
}

/// Did somebody take it up? One that is over needs nobody any more.
pub(crate) fn has_begun(record: &RunRecord) -> bool {
    record.started_at.or(record.finished_at).is_some()
}

/// How long it took, or takes so far; nothing before it began.
fn took(record: &RunRecord) -> Markup {
    let end = record.finished_at.unwrap_or_else(clock::now);
    html! {
        @if has_begun(record) { span title=[record.finished_at.is_none().then_some("so far")] { (lasted(end.since(record.begun_at()))) } }
        @else { span.dim { "–" } }
    }
}

/// The end of an id: its beginning is the time, which many share.
pub(crate) fn short(record: &RunRecord) -> String {
    let text = record.run.to_string();
    format!("…{}", &text[text.len() - SHORT..])
}

fn pager(context: &ServerContext, call: &ApiCall, next: Option<&str>) -> Markup {
    let kept = run_filters::in_link(call, "");
    html! {
        div.pager {
            @if call.query("after").is_some() { a.button href=(format!("{}?{kept}", context.path("/"))) { "← Newest" } } @else { span {} }
            @if let Some(next) = next { a.button href=(format!("{}?{kept}after={next}", context.path("/"))) { "Older →" } }
        }
    }
}
