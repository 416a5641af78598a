//! Schedules: when each starts its workflow next, and what became of its ticks.

use std::sync::Arc;

use lope::describe;
use lope::schedules::{FireError, ScheduleRecord};
use lope::tokens::Right;
use lope_http::commands::command;
use lope_model::Timestamp;
use maud::{Markup, html};

use super::parts::{ahead, copy, cut, empty, exact, note, pill, state, told};
use super::shell::{self, Page};
use super::{encoded, to};
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

/// Next ticks that are told.
const TICKS: usize = 5;

pub(crate) async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let cursor = context.schedule_feed.cursor(&context.client).await?;
    let all = context.client.schedules().await?;
    let acts = call.caller.right >= Right::Act;
    let paused = all.iter().filter(|it| it.entry.schedule.paused).count();
    let body = html! {
        div.head { h1 { "Schedules" } }
        p.sentence data-part="sentence" { (all.len() - paused) " active, " (paused) " paused." }
        (note(&context, &call))
        div.card.flush data-part="schedules" {
            @if all.is_empty() { (empty("Nothing is started by itself yet:", "lope schedules add nightly examples/hello.yaml --cron '30 6 * * *'")) }
            @else { table.schedules {
                thead { tr { th { "Status" } th { "Schedule" } th { "When" } th.less.room { "Workflow" } th { "Next" } th.number.less.spare { "Fired" } th.number.less.spare { "Skipped" } th.room { "Last run" } th {} } }
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

fn path(context: &ServerContext, name: &str) -> String {
    context.path(&format!("/schedules/{}", encoded(name)))
}

fn buttons(context: &ServerContext, record: &ScheduleRecord) -> Markup {
    let schedule = &record.entry.schedule;
    let form = |verb: &str, word: &str| {
        let action = format!("{}/{verb}", path(context, &schedule.name));
        let same = command(&format!("lope schedules {verb}"), &schedule.name);
        html! { form.inline method="post" action=(action) { button title=(same) { (word) } " " } }
    };
    html! {
        (form("run", "Run now")) @if schedule.paused { (form("resume", "Resume")) } @else { (form("pause", "Pause")) }
    }
}

/// Its next ticks; a schedule that is paused has none.
fn upcoming(record: &ScheduleRecord) -> Vec<Timestamp> {
    let (schedule, standing) = (&record.entry.schedule, &record.entry.standing);
    schedule.upcoming(standing.next.filter(|_| !schedule.paused), TICKS)
}

pub(crate) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let name = call.param("name");
    let cursor = context.schedule_feed.cursor(&context.client).await?;
    let record = context.client.schedule(name).await?;
    let record = record.ok_or_else(|| missing(name))?;
    let (schedule, standing) = (&record.entry.schedule, &record.entry.standing);
    let ticks = upcoming(&record);
    let acts = call.caller.right >= Right::Act;
    let body = html! {
        div.head data-part="head" { (pill(describe::schedule_status(&record.entry))) h1 { "Schedule " (cut(name, 200)) } (copy("as command", &command("lope schedules show", name))) span.grow {} span.dim #live {} }
        (note(&context, &call))
        p.sentence data-part="sentence" {
            @match schedule.timing.in_words() { Some(words) => (words), None => (schedule.timing) }
            @match ticks.first() { Some(next) => { "; next " (ahead(*next)) "." } None => { "; no tick will come." } }
        }
        @if acts { div.head data-part="actions" { (buttons(&context, &record)) } }
        @if let Some(trouble) = &standing.trouble { div.card.bad role="alert" { h2 { "Its last tick started nothing" } pre { (trouble.message) } } }
        div.columns data-part="facts" {
            div.card { h2 { "Next ticks" }
                @if ticks.is_empty() { p.dim { "none" } } @else { ol { @for tick in &ticks { li { (exact(*tick)) span.dim { " · " (ahead(*tick)) } } } } }
            }
            div.card { h2 { "Facts" } dl.facts {
                dt { "Workflow" } dd { a href=(context.path(&format!("/workflows/{}", encoded(&schedule.workflow)))) { (schedule.workflow) } }
                dt { "Timing" } dd.mono { (schedule.timing) }
                dt { "Last run" } dd { @match record.last_run { Some(run) => { a.mono href=(context.path(&format!("/runs/{run}"))) { (run) } @if record.running { " (running)" } } None => "none" } }
                dt { "Ticks" } dd { (standing.counts.fired) " fired, " (standing.counts.skipped) " skipped" }
            } }
        }
    };
    let page = Page {
        title: &format!("Schedule {}", cut(name, 60)),
        section: "/schedules",
        events: Some(context.path(&format!("/api/events/schedules?after={cursor}"))),
    };
    Ok(shell::show(&context, &call.caller, &page, &body))
}

fn missing(name: &str) -> ApiError {
    ApiError::missing(format!("there is no schedule '{name}'"))
}

fn row(context: &ServerContext, record: &ScheduleRecord, acts: bool) -> Markup {
    let (schedule, standing) = (&record.entry.schedule, &record.entry.standing);
    let upcoming: Vec<String> = upcoming(record).iter().map(ToString::to_string).collect();
    html! {
        tr {
            td.tight { (state(describe::schedule_status(&record.entry))) }
            td.wide title=(schedule.name) { a href=(path(context, &schedule.name)) { (schedule.name) } @if let Some(trouble) = &standing.trouble { br; span.state.failed { (trouble.message) } } }
            td.words title=(schedule.timing) { @match schedule.timing.in_words() { Some(words) => (words), None => (schedule.timing) } }
            td.wide.less.room { a href=(context.path(&format!("/workflows/{}", encoded(&schedule.workflow)))) { (schedule.workflow) } }
            td.tight data-th="next" title=(upcoming.join("\n")) { @if let Some(due) = record.entry.due() { (ahead(due)) } @else { span.dim { "–" } } }
            td.number.less.spare { (standing.counts.fired) } td.number.less.spare { (standing.counts.skipped) }
            td.tight.room data-th="last run" { @if let Some(run) = record.last_run { a.mono href=(context.path(&format!("/runs/{run}"))) { @if record.running { "running" } @else { "last" } } } @else { span.dim { "none" } } }
            td.tight { @if acts { (buttons(context, record)) } }
        }
    }
}

pub(crate) async fn act(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let name = call.param("name");
    let client = &context.client;
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
    let said = said.ok_or_else(|| missing(name))?;
    let path = context.path("/schedules");
    Ok(told(&context, &path, said))
}
