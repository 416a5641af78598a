//! What a person can do to a run: each button says what happens, and each is a form that works
//! without a script.

use std::sync::Arc;

use lope::runs::{FinalStatus, RunRecord, RunStatus};
use lope::tokens::Right;
use lope::workflows::Plan;
use lope_model::Value;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::parts::{copy, told};
use super::run_page::RunPage;
use super::to;
use crate::api::find;
use crate::api::start::{self, StartRequest};
use crate::api::steer::{self, SignalRequest, taken};
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;
use lope_http::commands;

/// Inputs with more text than this are not edited in a page.
const EDITED_MAX: usize = 32 * 1024;

/// What a page knows of a run besides its record; the more, the more it offers.
#[derive(Default)]
pub(crate) struct Known<'a> {
    pub(crate) plan: Option<&'a Plan>,
    pub(crate) input: Option<Json>,
    /// It takes inputs beside its first.
    pub(crate) is_open: bool,
}

pub(crate) fn bar(page: &RunPage<'_>, known: Known<'_>) -> Markup {
    if page.call.caller.right < Right::Act {
        return html! {};
    }
    let run = page.record.run;
    let live = matches!(page.record.status, RunStatus::Live(_));
    let paused = page.record.status.as_str() == "paused";
    let failed = page.record.status == RunStatus::Final(FinalStatus::Failed);
    html! {
        div.head data-part="actions" {
            @if failed { (button(page, "retry", "Retry from where it failed", "main", None)) }
            @if live && !paused { (button(page, "pause", "Pause", "", None)) }
            @if paused { (button(page, "resume", "Resume", "main", None)) }
            @if live { (button(page, "cancel", "Cancel", "danger", Some(&format!("Cancel run {run}?")))) (signal(page, known.plan)) @if known.is_open { (feed(page)) } }
            (again(page, known.input))
            (copy("as curl", &commands::curl(page.context, page.call, "", &format!("/api/runs/{run}"))))
        }
    }
}

fn button(page: &RunPage<'_>, verb: &str, word: &str, class: &str, ask: Option<&str>) -> Markup {
    html! {
        form.inline method="post" action=(page.path(verb)) data-ask=[ask] {
            button class=(class) title=(format!("lope runs {verb} {}", page.record.run)) { (word) }
        }
    }
}

fn signal(page: &RunPage<'_>, plan: Option<&Plan>) -> Markup {
    let names = plan.map(|plan| signals(&lope::describe::definition(plan.definition())));
    let names = names.unwrap_or_default();
    html! {
        details.menu {
            summary.button.signal { "Signal…" }
            div.panel { form method="post" action=(page.path("signal")) {
                label.field { span { "Signal" } input name="name" required value=[names.first()] list="signals"; }
                datalist #signals { @for name in &names { option value=(name) {} } }
                label.field { span { "Value, as JSON" } textarea name="value" { "null" } }
                button.main { "Send the signal" }
                p.dim { code { "lope runs signal " (page.record.run) " NAME JSON" } }
            } }
        }
    }
}

/// Names that steps wait for, as far as a definition says them.
fn signals(definition: &Json) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![definition];
    while let Some(value) = waiting.pop() {
        match value {
            Json::Object(fields) => {
                let name = fields
                    .get("wait")
                    .map(|wait| wait.get("signal").unwrap_or(wait));
                found.extend(name.and_then(only_text));
                waiting.extend(fields.values());
            }
            Json::Array(all) => waiting.extend(all),
            _ => {}
        }
    }
    found
}

/// The text that a value is, or the only one in it: a name that nothing is computed for.
fn only_text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Array(all) if all.len() == 1 => only_text(&all[0]),
        Json::Object(fields) => {
            let only = (fields.len() == 1).then(|| fields.values().next());
            fields.get("code").or(only.flatten()).and_then(only_text)
        }
        _ => None,
    }
}

/// A new run like this one. A page that has not read the input says so and sends none: the new run is
/// given that of the old one.
fn again(page: &RunPage<'_>, input: Option<Json>) -> Markup {
    let text = input.map(|input| serde_json::to_string_pretty(&input).unwrap_or_default());
    html! {
        details.menu {
            summary.button.again { "Run again…" }
            div.panel { form method="post" action=(page.path("again")) {
                @match text {
                    None => p.dim { "With the same input; " a href=(page.path("")) { "Overview" } " has a field to edit it." },
                    Some(text) if text.len() > EDITED_MAX => p.dim { "The input is too large to be edited here: it stays as it is." },
                    Some(text) => label.field { span { "Input, as JSON" } textarea name="input" { (text) } },
                }
                button.main { "Start a new run" }
                p.dim { code { (commands::command("lope start", &page.record.workflow)) " --input JSON" } }
            } }
        }
    }
}

/// An open run takes inputs beside its first.
fn feed(page: &RunPage<'_>) -> Markup {
    html! {
        details.menu {
            summary.button.feed { "Feed…" }
            div.panel { form method="post" action=(page.path("feed")) {
                label.field { span { "Input, as JSON" } textarea name="input" required { "null" } }
                button.main { "Feed this input" }
                p.dim { code { "lope runs feed " (page.record.run) " JSON" } }
            } }
        }
    }
}

pub(crate) async fn act(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    call.expect_type(&["application/x-www-form-urlencoded"])
        .or_else(|error| {
            if call.body.is_empty() {
                Ok(())
            } else {
                Err(error)
            }
        })?;
    let record = find::run(&context, &call).await?;
    let said = match call.param("verb") {
        "again" => {
            let run = begin_again(&context, &call, &record).await?;
            return Ok(to(&context.path(&format!("/runs/{run}"))));
        }
        "from" => {
            let path = call.field("execution").unwrap_or_default();
            let run = steer::fork_from(&context, &record, &path).await?;
            return Ok(to(&context.path(&format!("/runs/{run}"))));
        }
        verb => steered(&context, &call, &record, verb).await?,
    };
    let path = context.path(&format!("/runs/{}", record.run));
    Ok(told(&context, &path, said))
}

async fn steered(
    context: &ServerContext,
    call: &ApiCall,
    record: &RunRecord,
    verb: &str,
) -> Result<&'static str, ApiError> {
    let client = &context.client;
    match verb {
        "cancel" => {
            steer::stop(context, record, false).await?;
            Ok("The run was asked to end.")
        }
        "pause" => {
            taken(record, &client.pause(record.run, None).await?)?;
            Ok("The run was asked to pause.")
        }
        "resume" => {
            taken(record, &client.resume(record.run).await?)?;
            Ok("The run goes on.")
        }
        "retry" => {
            steer::again(context, record).await?;
            Ok("The run is tried again from where it failed.")
        }
        "signal" => {
            let name = call.field("name").unwrap_or_default();
            let value = json_field(call, "value")?.unwrap_or_default();
            steer::send_signal(context, record, SignalRequest { name, value }, None).await?;
            Ok("The signal was sent.")
        }
        "feed" => {
            let input = json_field(call, "input")?.unwrap_or_default();
            taken(record, &client.feed(record, input).await?)?;
            Ok("The input was fed to the run.")
        }
        other => Err(ApiError::missing(format!(
            "a run cannot be asked to '{other}'"
        ))),
    }
}

async fn begin_again(
    context: &ServerContext,
    call: &ApiCall,
    record: &RunRecord,
) -> Result<lope::RunId, ApiError> {
    let input = match json_field(call, "input")? {
        Some(input) => Some(unhidden(context, record, input).await?),
        None => context.client.input(record).await?,
    };
    let request = StartRequest {
        workflow: record.workflow.clone(),
        input,
        queue: Some(record.queue.to_string()),
        tags: record.tags.clone(),
        ..StartRequest::default()
    };
    Ok(start::begin(context, request).await?.0)
}

/// An input that was edited where some of it is hidden: what was left as it was shown is as it was.
async fn unhidden(
    context: &ServerContext,
    record: &RunRecord,
    edited: Value,
) -> Result<Value, ApiError> {
    let Some(redaction) = context.redaction(record).await? else {
        return Ok(edited);
    };
    let original = context.client.input(record).await?;
    let found = redaction.restored(edited, &original.unwrap_or_default());
    found.ok_or_else(|| {
        ApiError::bad("input: what is hidden ('***') is known only where it stood before")
            .hint("write the values out, or keep the lists as long as they were")
    })
}

/// A field that holds JSON.
pub(crate) fn json_field(call: &ApiCall, name: &str) -> Result<Option<Value>, ApiError> {
    let parse = |text: String| {
        lope_model::value::from_json(&text)
            .map_err(|error| ApiError::bad(format!("{name}: it is {error}")))
    };
    call.field(name).map(parse).transpose()
}
