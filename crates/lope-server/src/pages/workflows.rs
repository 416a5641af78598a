//! Workflows: what is deployed, how it looks, and a form that starts it, made from what it says
//! about its input.

use std::sync::Arc;

use lope::describe;
use lope::runs::{FinalStatus, RunFilter, RunRecord, RunStatus};
use lope::tokens::Right;
use lope::workflows::{self as drawings, Format};
use lope_http::commands::command;
use lope_model::Value;
use lope_model::value::from_json;
use maud::{Markup, html};
use serde_json::{Map, Value as Json};

use super::parts::{ago, copy, cut, empty};
use super::run::svg;
use super::run_actions::json_field;
use super::shell::{self, Page};
use super::{encoded, runs, to, versions};
use crate::api::find::no_workflow;
use crate::api::start::{self, StartRequest};
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

/// Workflows on a page.
const ROWS: usize = 500;
/// Runs beside a workflow.
const RUNS: usize = 10;

pub(crate) async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let all = context.client.workflows().await?;
    let body = html! {
        div.head { h1 { "Workflows" } }
        p.sentence { @if all.len() == 1 { "1 workflow is deployed." } @else { (all.len()) " workflows are deployed." } }
        div.card.flush {
            @if all.is_empty() { (empty("Nothing is deployed yet. Deploy a file:", "lope workflows deploy examples/hello.yaml")) }
            @else { table {
                thead { tr { th { "Workflow" } th { "Version" } th.number { "Deployed" } } }
                tbody { @for it in all.iter().take(ROWS) { tr {
                    td.wide { a href=(context.path(&format!("/workflows/{}", encoded(&it.name)))) title=(it.name) { (it.name) } }
                    td.mono.dim { (it.version.to_string().get(..12).unwrap_or_default()) }
                    td.number.tight data-th="deployed" { (ago(it.deployed_at)) }
                } } }
            } }
            @if all.len() > ROWS { p.dim { "and " (all.len() - ROWS) " more" } }
        }
    };
    Ok(reply(&context, &call, "Workflows", &body))
}

fn reply(
    context: &ServerContext,
    call: &ApiCall,
    title: &str,
    body: &Markup,
) -> crate::reply::Reply {
    let page = Page {
        title,
        section: "/workflows",
        events: None,
    };
    shell::show(context, &call.caller, &page, body)
}

pub(crate) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let name = call.param("name");
    let plan = context.client.latest_plan(name).await?;
    let plan = plan.ok_or_else(|| no_workflow(name))?;
    let filter = RunFilter {
        workflow: Some(name.to_owned()),
        limit: RUNS,
        ..RunFilter::default()
    };
    let records = context.client.list(filter).await?;
    let versions = versions::known(&context, name, plan.version()).await?;
    let definition = describe::definition(plan.definition());
    let acts = call.caller.right >= Right::Act;
    let body = html! {
        div.head { h1 { (cut(name, 200)) } span.mono.dim { (plan.version().to_string().get(..12).unwrap_or_default()) } (copy("as command", &command("lope start", name))) }
        p.sentence { (last_run(records.first())) }
        div.split {
            div.card { h2 { "Graph" } div.graph { (svg(drawings::draw(plan.definition(), None, Format::Svg).ok())) } }
            @if acts { div.card { h2 { "Start a run" } (start_form(&context, name, &definition["input"])) } }
        }
        div {
            div.card.flush { table {
                (runs::head())
                tbody { @for record in &records { (runs::row(&context, record)) } }
            } @if records.is_empty() { div.empty { "No run of it yet." } } }
            @if records.len() == RUNS { p { a href=(format!("{}?workflow={}", context.path("/"), encoded(name))) { "All runs of this workflow" } } }
        }
        (versions::card(&context, name, &versions))
    };
    Ok(reply(&context, &call, name, &body))
}

/// How a workflow fares, by its youngest run.
fn last_run(youngest: Option<&RunRecord>) -> Markup {
    let Some(run) = youngest else {
        return html! { "It has not run yet." };
    };
    let ended = run.finished_at.unwrap_or(run.created_at);
    let (how, at) = match run.status {
        RunStatus::Live(status) => (format!("is {}, begun", status.as_str()), run.begun_at()),
        RunStatus::Final(FinalStatus::Cancelled) => ("was cancelled".to_owned(), ended),
        RunStatus::Final(status) => (status.as_str().to_owned(), ended),
    };
    html! { "Its last run " (how) " " (ago(at)) "." }
}

/// The fields that an input of this schema has, by name; nothing if a form cannot ask for them.
fn fields(schema: &Json) -> Option<&Map<String, Json>> {
    let fields = schema["properties"].as_object()?;
    (schema["type"] == "object" && !fields.is_empty() && fields.len() <= 50).then_some(fields)
}

fn start_form(context: &ServerContext, name: &str, schema: &Json) -> Markup {
    let action = context.path(&format!("/workflows/{}/start", encoded(name)));
    html! {
        form method="post" action=(action) {
            @match fields(schema) {
                Some(fields) => { @for (name, of) in fields {
                    (field(name, of, is_needed(schema, name)))
                } }
                None => label.field { span { "Input, as JSON" } textarea name="input" { "null" } },
            }
            label.field { span { "Key" } input name="key" placeholder="a name of your own, optional"; }
            button.main { "Start" }
        }
    }
}

/// A value as a person reads it in a list of choices.
fn plain(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn is_needed(schema: &Json, name: &str) -> bool {
    let needed = schema["required"].as_array();
    needed.is_some_and(|all| all.iter().any(|it| it == name))
}

/// What may be chosen, each under its JSON; a field that may be left out can be.
fn choice(named: &str, all: &[Json], usual: &Json, needed: bool) -> Markup {
    html! {
        select name=(named) {
            @if !needed { option value="" { "–" } }
            @for one in all { option value=(one) selected[one == usual] { (plain(one)) } }
        }
    }
}

fn field(name: &str, schema: &Json, needed: bool) -> Markup {
    let label = schema["title"].as_str().unwrap_or(name);
    let named = format!("input.{name}");
    let usual = match &schema["default"] {
        Json::Null => None,
        other => Some(plain(other)),
    };
    let default = &schema["default"];
    let truths = [Json::Bool(true), Json::Bool(false)];
    html! {
        label.field {
            span { (label) @if needed { " *" } }
            @if let Some(words) = schema["enum"].as_array() { (choice(&named, words, default, needed)) }
            @else { @match schema["type"].as_str() {
                Some("string") => input name=(named) value=[usual] required[needed];,
                Some("integer") => input type="number" step="1" name=(named) value=[usual] required[needed];,
                Some("number") => input type="number" step="any" name=(named) value=[usual] required[needed];,
                Some("boolean") if needed => input type="checkbox" name=(named) value="true" checked[*default == true];,
                Some("boolean") => (choice(&named, &truths, default, false)),
                _ => textarea name=(named) required[needed] placeholder="JSON" { (usual.unwrap_or_default()) },
            } }
            @if let Some(about) = schema["description"].as_str() { small { (about) } }
        }
    }
}

pub(crate) async fn start(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    call.expect_type(&["application/x-www-form-urlencoded"])?;
    let name = call.param("name").to_owned();
    let plan = context.client.latest_plan(&name).await?;
    let plan = plan.ok_or_else(|| no_workflow(&name))?;
    let definition = describe::definition(plan.definition());
    let input = match fields(&definition["input"]) {
        Some(_) => from_fields(&call, &definition["input"])?,
        None => json_field(&call, "input")?.unwrap_or_default(),
    };
    let request = StartRequest {
        workflow: name,
        input: Some(input),
        key: call.field("key"),
        ..StartRequest::default()
    };
    let (run, _) = start::begin(&context, request).await?;
    Ok(to(&context.path(&format!("/runs/{run}"))))
}

/// What was typed, as the schema says it is meant.
fn from_fields(call: &ApiCall, schema: &Json) -> Result<Value, ApiError> {
    let mut input = Vec::new();
    for (name, of) in fields(schema).into_iter().flatten() {
        let named = format!("input.{name}");
        let text = call.field(&named);
        let choices = of["enum"].as_array();
        let value = match (of["type"].as_str(), text) {
            (_, Some(text)) if choices.is_some() => Some(chosen(choices, text)),
            (Some("boolean"), None) if is_needed(schema, name) => Some(Value::from(false)),
            (_, None) => None,
            (Some("string"), Some(text)) => Some(Value::from(text)),
            (_, Some(_)) => json_field(call, &named)?,
        };
        input.extend(value.map(|value| (name.as_str(), value)));
    }
    Ok(Value::map(input))
}

/// The choice that was made, by its JSON or as it is read; anything else is left to the workflow.
fn chosen(choices: Option<&Vec<Json>>, text: String) -> Value {
    let all = || choices.into_iter().flatten();
    let found = all().find(|one| one.to_string() == text);
    let found = found.or_else(|| all().find(|one| plain(one) == text));
    let read = found.and_then(|one| from_json(&one.to_string()).ok());
    read.unwrap_or_else(|| Value::from(text))
}
