//! The list of runs: filters in the URL, one box that takes any id or key, live.

use std::sync::Arc;

use lope::RunId;
use lope::runs::{FoundRun, RunFilter, RunRecord};
use maud::{Markup, html};

use super::parts::{ago, cut, empty, lasted, state};
use super::shell::{self, Page};
use super::{bulk, encoded, to};
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::clock;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;
use crate::search::{FoundRuns, RunSearch};

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
    let search = call.query("q").map(str::to_owned);
    if let Some(text) = &search {
        if let Some(run) = named(&context, text.trim()).await? {
            return Ok(to(&context.path(&format!("/runs/{run}"))));
        }
        call.query.extend(words(text));
    }
    let cursor = context.run_feed.cursor(&context.client).await?;
    let wanted = RunSearch::read(&context.client, &call).await?;
    let conflict = conflict(&call);
    let FoundRuns {
        records,
        next,
        searched,
    } = match &conflict {
        None => wanted.page(&context.client, ROWS).await?,
        Some(_) => FoundRuns::default(),
    };
    let first = call.query("after").is_none();
    let shown = Page {
        title: "Runs",
        section: "/",
        events: first.then(|| format!("{}?after={cursor}", context.path("/api/events"))),
    };
    let body = html! {
        div.head {
            h1 { "Runs" }
            span.grow {}
            @if !bulk::searched(&call).is_empty() && !records.is_empty() { a.button href=(format!("{}?{}", context.path("/bulk/ask"), kept(&call))) { "Act on all…" } }
            @if first { span.dim #live {} button #fresh.fresh {} button #hold hidden {} }
        }
        (search_form(&context, search.as_deref(), call.query("workflow")).await?)
        (presets(&context, &call))
        @if let Some(conflict) = &conflict { p.note.bad { (conflict) } }
        div.card.flush data-part="runs" { (table(&context, &records, &call)) }
        @if let Some(searched) = searched { p.dim { (searched) " runs were looked at" @if next.is_some() { "; go on with Older" } "." } }
        (pager(&context, &call, next.as_deref()))
    };
    Ok(shell::show(&context, &call.caller, &shown, &body))
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

/// `status:failed tag:a=b` as parameters; a word alone names a workflow.
fn words(text: &str) -> Vec<(String, String)> {
    let known = [
        "status", "workflow", "queue", "tag", "since", "until", "parent", "key", "error",
    ];
    text.split_whitespace()
        .map(|word| match word.split_once(':') {
            _ if word.starts_with("input.") && word.contains(':') => {
                ("input".to_owned(), word["input.".len()..].to_owned())
            }
            Some((name, value)) if known.contains(&name) => (name.to_owned(), value.to_owned()),
            _ => ("workflow".to_owned(), word.to_owned()),
        })
        .collect()
}

async fn search_form(
    context: &ServerContext,
    search: Option<&str>,
    workflow: Option<&str>,
) -> Result<Markup, ApiError> {
    let workflows = context.client.workflows().await?;
    Ok(html! {
        form.row role="search" action=(context.path("/")) {
            input type="search" name="q" value=[search] aria-label="Search"
                placeholder="Run id, key, or status:failed workflow:orders tag:plan=pro  ( / )";
            select name="workflow" aria-label="Workflow" {
                option value="" { "Any workflow" }
                @for known in workflows.iter().take(OFFERED) {
                    option value=(known.name) selected[workflow == Some(known.name.as_str())] { (cut(&known.name, 60)) }
                }
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
    html! {
        div.presets role="group" aria-label="Presets" {
            @for (word, query) in PRESETS {
                @let statuses = statuses_of(query);
                a href=(format!("{}?{query}", context.path("/"))) aria-current=[(statuses == current).then_some("true")] { (word) }
            }
        }
    }
}

fn table(context: &ServerContext, records: &[RunRecord], call: &ApiCall) -> Markup {
    if records.is_empty() {
        let filtered = call.query.iter().any(|(_, value)| !value.is_empty());
        return if filtered {
            html! { div.empty { p { "No run fits." } a href=(context.path("/")) { "Show all" } } }
        } else {
            empty("No runs yet. Start one:", "lope start examples/hello.yaml")
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
    let end = record.finished_at.unwrap_or_else(clock::now);
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
            td.number.tight { (ago(record.begun_at())) }
            td.number.tight.less { (lasted(end.since(record.begun_at()))) }
        }
    }
}

/// The end of an id: its beginning is the time, which many share.
pub(crate) fn short(record: &RunRecord) -> String {
    let text = record.run.to_string();
    format!("…{}", &text[text.len() - SHORT..])
}

/// What is searched for, as parameters of another page.
fn kept(call: &ApiCall) -> String {
    let kept = call
        .query
        .iter()
        .filter(|(name, value)| name != "after" && name != "q" && !value.is_empty());
    kept.map(|(name, value)| format!("{}={}&", encoded(name), encoded(value)))
        .collect()
}

fn pager(context: &ServerContext, call: &ApiCall, next: Option<&str>) -> Markup {
    let kept = kept(call);
    html! {
        div.pager {
            @if call.query("after").is_some() { a.button href=(format!("{}?{kept}", context.path("/"))) { "← Newest" } } @else { span {} }
            @if let Some(next) = next { a.button href=(format!("{}?{kept}after={next}", context.path("/"))) { "Older →" } }
        }
    }
}
