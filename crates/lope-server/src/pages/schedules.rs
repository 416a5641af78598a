//! Schedules: when each starts its workflow next, and what became of its ticks.

use std::sync::Arc;

use lope::describe;
use lope::schedules::{FireError, ScheduleRecord};
use lope::tokens::Right;
use maud::{Markup, html};

use super::parts::{ahead, empty, note, state};
use super::shell::{self, Page};
use super::{encoded, to};
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

/// Next ticks told on hover.
const TICKS: usize = 5;

pub(crate) async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let cursor = context.schedule_feed.cursor(&context.client).await?;
    let all = context.client.schedules().await?;
    let acts = call.caller.right >= Right::Act;
    let paused = all.iter().filter(|it| it.entry.schedule.paused).count();
    let body = html! {
        div.head { h1 { "Schedules" } }
        p.sentence data-part="sentence" { (all.len() - paused) " active, " (paused) " paused." }
        (note(call.query("said")))
        div.card.flush data-part="schedules" {
            @if all.is_empty() { (empty("Nothing is started by itself yet:", "lope schedules add nightly examples/hello.yaml --cron '30 6 * * *'")) }
            @else { table {
                thead { tr { th { "Status" } th { "Schedule" } th { "When" } th.less { "Workflow" } th { "Next" } th.number.less { "Fired" } th.number.less { "Skipped" } th { "Last run" } th {} } }
                tbody { @for record in &all { (row(&context, record, acts)) } }
            } }
        }
    };
    let page = Page {
        title: "Schedules",
        section: "/schedules",
        events: Some(context.path(&format!("/api/events/schedules?after={cursor}"))),
    };
    Ok(shell::show(&context, &call.caller, &page, &body))
}

fn row(context: &ServerContext, record: &ScheduleRecord, acts: bool) -> Markup {
    let (schedule, standing) = (&record.entry.schedule, &record.entry.standing);
    let upcoming = schedule.upcoming(standing.next.filter(|_| !schedule.paused), TICKS);
    let upcoming: Vec<String> = upcoming.iter().map(ToString::to_string).collect();
    let form = |verb: &str, word: &str| {
        let action = context.path(&format!("/schedules/{}/{verb}", encoded(&schedule.name)));
        html! { form.inline method="post" action=(action) { button { (word) } " " } }
    };
    html! {
        tr {
            td.tight { (state(describe::schedule_status(&record.entry))) }
            td.wide title=(schedule.name) { (schedule.name) @if let Some(trouble) = &standing.trouble { br; span.state.failed { (trouble.message) } } }
            td.words title=(schedule.timing) { @match schedule.timing.in_words() { Some(words) => (words), None => (schedule.timing) } }
            td.wide.less { a href=(context.path(&format!("/workflows/{}", encoded(&schedule.workflow)))) { (schedule.workflow) } }
            td.tight title=(upcoming.join("\n")) { @if let Some(due) = record.entry.due() { (ahead(due)) } @else { span.dim { "–" } } }
            td.number.less { (standing.counts.fired) } td.number.less { (standing.counts.skipped) }
            td.tight { @if let Some(run) = record.last_run { a.mono href=(context.path(&format!("/runs/{run}"))) { @if record.running { "running" } @else { "last" } } } @else { span.dim { "none" } } }
            td.tight { @if acts { (form("run", "Run now")) @if schedule.paused { (form("resume", "Resume")) } @else { (form("pause", "Pause")) } } }
        }
    }
}

pub(crate) async fn act(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let name = call.param("name");
    let client = &context.client;
    let missing = || ApiError::missing(format!("there is no schedule '{name}'"));
    let said = match call.param("verb") {
        "pause" => client
            .pause_schedule(name)
            .await?
            .map(|_| "It starts nothing until it is resumed."),
        "resume" => client
            .resume_schedule(name)
            .await?
            .map(|_| "It goes on with its next tick."),
        "run" => match client.fire_schedule(name).await {
            Ok(run) => return Ok(to(&context.path(&format!("/runs/{run}")))),
            Err(FireError::Missing) => None,
            Err(FireError::NoRun(why)) => return Err(ApiError::conflict(why)),
            Err(FireError::Store(error)) => return Err(error.into()),
        },
        other => {
            return Err(ApiError::missing(format!(
                "a schedule cannot be asked to '{other}'"
            )));
        }
    };
    let said = said.ok_or_else(missing)?;
    let path = context.path("/schedules");
    Ok(to(&format!("{path}?said={}", encoded(said))))
}
