//! Queues and runners: all of them, and each by itself.

use std::sync::Arc;

use lope::agents::ROUND_ENGINE;
use lope::runs::{FinalStatus, LiveStatus, RunFilter, RunRecord, RunStatus, RunnerRecord};
use lope_model::{QueueName, Span, Timestamp};
use maud::{Markup, html};

use super::parts::{ago, empty, exact, pill, state};
use super::shell::{self, Page};
use super::{encoded, runs};
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::clock;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

/// Runners shown.
const RUNNERS: usize = 200;
/// Runs that are looked at to tell how old the oldest is and how many ended.
const LOOKED_AT: usize = 500;
/// Runs shown of a queue or a runner.
const RUNS: usize = 50;
/// Queues whose pace is told in the list; each has its page.
const PACED: usize = 20;
/// The time in which ended runs are counted.
const RECENTLY: Span = Span::from_secs(300);
/// How soon a page looks again that no events tell of, in seconds.
const EVERY: u32 = 5;

/// How a queue moves: how many of its youngest have ended.
struct Pace(usize);

impl Pace {
    async fn of(context: &ServerContext, queue: &QueueName) -> Result<Self, ApiError> {
        let ends = [
            FinalStatus::Completed,
            FinalStatus::Failed,
            FinalStatus::Cancelled,
        ];
        let recent = RunFilter {
            since: Some(clock::now().minus(RECENTLY)),
            ..of_queue(queue, ends.map(RunStatus::Final).to_vec())
        };
        Ok(Self(context.client.list(recent).await?.len()))
    }

    fn ended(&self) -> Markup {
        html! { (self.0) @if self.0 == LOOKED_AT { "+" } }
    }
}

/// Runs of a queue that wait for a runner.
async fn waiting(context: &ServerContext, queue: &QueueName) -> Result<Vec<RunRecord>, ApiError> {
    let queued = of_queue(queue, vec![RunStatus::Live(LiveStatus::Queued)]);
    let now = clock::now();
    let mut waiting = context.client.list(queued).await?;
    waiting.retain(|it| it.due.is_some_and(|due| due <= now));
    Ok(waiting)
}

fn of_queue(queue: &QueueName, statuses: Vec<RunStatus>) -> RunFilter {
    RunFilter {
        statuses,
        queue: Some(queue.clone()),
        limit: LOOKED_AT,
        ..RunFilter::default()
    }
}

/// How it stands with runs that are due and runs that are owned, in words.
fn standing_of(due: u64, owned: u64) -> String {
    match (due, owned) {
        (0, 0) => "No run waits for a runner, and none is in the hands of one.".to_owned(),
        (due, owned) => format!("{due} due and waiting for a runner, {owned} in the hands of one."),
    }
}

/// Since when the oldest due run waits.
fn age(oldest: Option<Timestamp>) -> Markup {
    html! { @match oldest { Some(oldest) => (ago(oldest)), None => span.dim { "–" } } }
}

fn limit(context: &ServerContext, queue: &QueueName) -> Markup {
    html! {
        @match context.config.engine.queue_limits.get(queue) {
            Some(limit) => { @if let Some(most) = limit.concurrency { (most) " at once " } @if let Some(rate) = &limit.rate { (rate.count) " in " (rate.per) } }
            None => span.dim { "none" }
        }
    }
}

fn queue_path(context: &ServerContext, queue: &QueueName) -> String {
    context.path(&format!("/queues/{}", encoded(queue.as_str())))
}

pub(crate) async fn queues(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let queues = context.questions.queues(&context.client).await?;
    let mut paces = Vec::new();
    for queue in queues.iter().take(PACED) {
        paces.push(Pace::of(&context, &queue.queue).await?);
    }
    let due: u64 = queues.iter().map(|queue| queue.due).sum();
    let owned: u64 = queues.iter().map(|queue| queue.owned).sum();
    let body = html! {
        div.head { h1 { "Queues" } span.grow {} span.dim #live {} }
        p.sentence data-part="sentence" { (standing_of(due, owned)) }
        div.card.flush data-part="queues" {
            @if queues.is_empty() { (empty("No run waits anywhere.", "lope start examples/hello.yaml --queue default")) }
            @else { table {
                thead { tr { th { "Queue" } th.number { "Due" } th.number { "Oldest due" } th.number { "At work" } th.number { "Later" } th.number { "Set aside" } th.number.less { "Ended in 5 min" } th.less { "Limit" } } }
                tbody { @for (place, queue) in queues.iter().enumerate() { tr {
                    @let pace = paces.get(place);
                    td { a href=(queue_path(&context, &queue.queue)) { (queue.queue) } }
                    td.number data-th="due" { (queue.due) } td.number.tight data-th="oldest" { (age(queue.oldest)) }
                    td.number data-th="at work" { (queue.owned) } td.number data-th="later" { (queue.later) } td.number data-th="set aside" { (queue.parked) }
                    td.number.less { @if let Some(pace) = pace { (pace.ended()) } } td.less { (limit(&context, &queue.queue)) }
                } } }
            } }
        }
    };
    Ok(shown(&context, &call, "Queues", "/queues", &body))
}

/// A page that moves with the runs.
fn shown(
    context: &ServerContext,
    call: &ApiCall,
    title: &str,
    section: &str,
    body: &Markup,
) -> crate::reply::Reply {
    let page = Page {
        title,
        section,
        events: Some(context.path("/api/events")),
    };
    shell::show(context, &call.caller, &page, body)
}

pub(crate) async fn queue(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let name = QueueName::parse(call.param("name"))
        .map_err(|error| ApiError::bad(format!("queue: {error}")))?;
    let queues = context.questions.queues(&context.client).await?;
    let counts = queues.iter().find(|it| it.queue == name);
    let pace = Pace::of(&context, &name).await?;
    let waiting = waiting(&context, &name).await?;
    let runners = context.client.runners(RUNNERS).await?;
    let serves = |it: &RunnerRecord| it.live && it.serves.queues.contains_key(&name);
    let is_served = runners.iter().any(serves);
    let count = |of: fn(&lope::runs::QueueCount) -> u64| counts.map_or(0, of);
    let body = html! {
        div.head { h1 { "Queue " (name) } span.grow {} span.dim #live {} }
        p.sentence data-part="sentence" { (standing_of(count(|it| it.due), count(|it| it.owned))) @if !is_served { " No runner that is up serves it." } }
        div.card data-part="facts" { dl.facts {
            dt { "Oldest due" } dd { (age(counts.and_then(|it| it.oldest))) }
            dt { "Ended" } dd { (pace.ended()) " of the runs of the last 5 minutes" }
            dt { "Due later" } dd { (count(|it| it.later)) }
            dt { "Set aside" } dd { (count(|it| it.parked)) }
            dt { "Limit" } dd { (limit(&context, &name)) }
        } }
        h2 { "Due" }
        div.card.flush data-part="due" { (table(&context, &waiting, count(|it| it.due), "No run waits for a runner.")) }
        p { a href=(format!("{}?queue={}", context.path("/"), encoded(name.as_str()))) { "All runs of this queue" } }
    };
    let title = format!("Queue {name}");
    Ok(shown(&context, &call, &title, "/queues", &body))
}

/// Runs, of so many that there are.
fn table(context: &ServerContext, records: &[RunRecord], all: u64, none: &str) -> Markup {
    let shown = records.len().min(RUNS) as u64;
    html! {
        @if all == 0 && records.is_empty() { div.empty { (none) } }
        @if !records.is_empty() { table { (runs::head()) tbody { @for record in records.iter().take(RUNS) { (runs::row(context, record)) } } } }
        @if all > shown { p.dim.single { "and " (all - shown) " more" } }
    }
}

/// How a runner is.
fn standing(runner: &RunnerRecord) -> &'static str {
    if runner.live { "live" } else { "ended" }
}

fn serves(runner: &RunnerRecord) -> String {
    let served = runner.serves.to_string();
    served.lines().collect::<Vec<_>>().join(", ")
}

pub(crate) async fn runners(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let mut all = context.client.runners(RUNNERS).await?;
    // What a runner of agents works with is no runner of its own.
    let of_agents = all.extract_if(.., |it| it.name == ROUND_ENGINE).count();
    all.sort_by_key(|runner| !runner.live);
    let live = all.iter().filter(|runner| runner.live).count();
    let body = html! {
        div.head { h1 { "Runners" } }
        p.sentence data-part="sentence" data-every=(EVERY) { @if live == 0 { "Nobody works: no run will move." } @else if live == 1 { "1 runner is up." } @else { (live) " runners are up." } }
        div.card.flush data-part="runners" {
            @if all.is_empty() { (empty("No runner was ever up.", "lope up")) }
            @else { table {
                thead { tr { th { "State" } th { "Name" } th.less { "Host" } th.number.less { "Process" } th.number { "Owns" } th { "Serves" } th.number { "Heartbeat" } th.number.less { "Up since" } } }
                tbody { @for runner in &all { tr {
                    td { (state(standing(runner))) }
                    td.wide title=(runner.runner) { a href=(context.path(&format!("/runners/{}", runner.runner))) { (runner.name) } }
                    td.wide.less { (runner.host) } td.number.less { (runner.pid) } td.number data-th="owns" { (runner.owns) }
                    td.wide { (serves(runner)) }
                    td.number.tight data-th="heartbeat" { (ago(runner.heartbeat_at)) } td.number.tight.less { (ago(runner.started_at)) }
                } } }
            } }
        }
        @if of_agents > 0 { p { "Those of agents are at " a href=(context.path("/agents")) { "Agents" } "." } }
    };
    Ok(still(&context, &call, "Runners", &body))
}

/// A page that looks again by itself: a heartbeat is no event of a run.
fn still(
    context: &ServerContext,
    call: &ApiCall,
    title: &str,
    body: &Markup,
) -> crate::reply::Reply {
    let page = Page {
        title,
        section: "/runners",
        events: None,
    };
    shell::show(context, &call.caller, &page, body)
}

pub(crate) async fn runner(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let asked = call.param("id");
    let all = context.client.runners(RUNNERS).await?;
    let mut known = all.iter();
    let found = known.find(|it| it.runner.to_string() == asked || it.name == asked);
    let runner = found.ok_or_else(|| ApiError::missing(format!("there is no runner '{asked}'")))?;
    let filter = RunFilter {
        statuses: RunStatus::ALL
            .into_iter()
            .filter(|it| matches!(it, RunStatus::Live(_)))
            .collect(),
        limit: LOOKED_AT,
        ..RunFilter::default()
    };
    let mut owned = context.client.list(filter).await?;
    owned.retain(|record| record.owner == Some(runner.runner));
    let body = html! {
        div.head data-part="head" { (pill(standing(runner))) h1 { "Runner " (runner.name) } }
        p.sentence data-part="sentence" data-every=(EVERY) { @if runner.live { "It owns " (runner.owns) @if runner.owns == 1 { " run." } @else { " runs." } } @else { "It has ended." } }
        div.card data-part="facts" { dl.facts {
            dt { "Id" } dd.mono { (runner.runner) }
            dt { "Heartbeat" } dd { (ago(runner.heartbeat_at)) }
            dt { "Up since" } dd { (exact(runner.started_at)) " · " (ago(runner.started_at)) }
            @if let Some(at) = runner.ended_at { dt { "Ended" } dd { (exact(at)) } }
            dt { "Host" } dd { (runner.host) ", process " (runner.pid) }
            dt { "Program" } dd { (runner.program) }
            dt { "Serves" } dd { (serves(runner)) }
        } }
        h2 { "Its runs" }
        div.card.flush data-part="runs" { (table(&context, &owned, runner.owns, "It has no run in hand.")) }
    };
    let title = format!("Runner {}", runner.name);
    Ok(still(&context, &call, &title, &body))
}
