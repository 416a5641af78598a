//! Queues and runners.

use std::sync::Arc;

use maud::html;

use super::parts::{ago, empty, state};
use super::shell::{self, Page};
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

/// Runners shown.
const RUNNERS: usize = 200;

pub(crate) async fn queues(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let queues = context.client.queues().await?;
    let limits = &context.config.engine.queue_limits;
    let due: u64 = queues.iter().map(|queue| queue.due).sum();
    let owned: u64 = queues.iter().map(|queue| queue.owned).sum();
    let body = html! {
        div.head { h1 { "Queues" } }
        p.sentence data-part="sentence" { (due) " due and waiting for a runner, " (owned) " in the hands of one." }
        div.card.flush data-part="queues" {
            @if queues.is_empty() { (empty("No run waits anywhere.", "lope start examples/hello.yaml --queue default")) }
            @else { table {
                thead { tr { th { "Queue" } th.number { "Due" } th.number { "At work" } th.number { "Later" } th.number { "Set aside" } th.less { "Limit" } } }
                tbody { @for queue in &queues { tr {
                    td { a href=(format!("{}?queue={}", context.path("/"), super::encoded(&queue.queue.to_string()))) { (queue.queue) } }
                    td.number { (queue.due) } td.number { (queue.owned) } td.number { (queue.later) } td.number { (queue.parked) }
                    td.less { @match limits.get(&queue.queue) {
                        Some(limit) => { @if let Some(most) = limit.concurrency { (most) " at once " } @if let Some(rate) = &limit.rate { (rate.count) " in " (rate.per) } }
                        None => span.dim { "none" }
                    } }
                } } }
            } }
        }
    };
    let page = Page {
        title: "Queues",
        section: "/queues",
        events: Some(context.path("/api/events")),
    };
    Ok(shell::show(&context, &call.caller, &page, &body))
}

pub(crate) async fn runners(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let mut all = context.client.runners(RUNNERS).await?;
    all.sort_by_key(|runner| !runner.live);
    let live = all.iter().filter(|runner| runner.live).count();
    let body = html! {
        div.head { h1 { "Runners" } }
        p.sentence { @if live == 0 { "Nobody works: no run will move." } @else if live == 1 { "1 runner is up." } @else { (live) " runners are up." } }
        div.card.flush data-part="runners" {
            @if all.is_empty() { (empty("No runner was ever up.", "lope up")) }
            @else { table {
                thead { tr { th { "State" } th { "Name" } th.less { "Host" } th.number.less { "Process" } th.number { "Owns" } th { "Serves" } th.number { "Heartbeat" } th.number.less { "Up since" } } }
                tbody { @for runner in &all { tr {
                    td { (state(if runner.live { "live" } else { "ended" })) }
                    td.wide title=(runner.runner) { (runner.name) }
                    td.wide.less { (runner.host) } td.number.less { (runner.pid) } td.number { (runner.owns) }
                    td.wide { (runner.serves.to_string().lines().collect::<Vec<_>>().join(", ")) }
                    td.number.tight { (ago(runner.heartbeat_at)) } td.number.tight.less { (ago(runner.started_at)) }
                } } }
            } }
        }
    };
    let page = Page {
        title: "Runners",
        section: "/runners",
        events: None,
    };
    Ok(shell::show(&context, &call.caller, &page, &body))
}
