//! Mailboxes: how much waits for whom, and what could not be handled.

use std::sync::Arc;

use lope::mailbox::frame::Message;
use lope::mailbox::{Armed, Counting, Depth, TimerQuery};
use lope::tokens::Right;
use lope_model::Timestamp;
use maud::{Markup, html};

use super::parts::{ahead, cut, empty, exact, note, told};
use super::shell::{self, Page};
use crate::api::mailboxes::{SWEPT, worker};
use crate::api_error::ApiError;
use crate::call::ApiCall;
use crate::context::ServerContext;
use crate::endpoint::ApiResult;

const WORKERS: usize = 200;
const ROWS: usize = 50;

pub(crate) async fn list(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let cursor = context.mailbox_feed.cursor(&context.client).await?;
    let mailbox = context.client.mailbox().await?;
    let stats = mailbox.stats(WORKERS, Counting::Quick).await?;
    let body = html! {
        div.head { h1 { "Mailboxes" } }
        p.sentence data-part="sentence" { (depth(stats.inbox)) " messages wait, " (depth(stats.timers)) " timers are armed, " (depth(stats.dead_letters)) " dead letters." }
        div.card.flush data-part="mailboxes" {
            @if stats.workers.is_empty() { (empty("No message waits for anybody.", "lope mailbox send 7 --payload hello")) }
            @else { table {
                thead { tr { th { "Worker" } th.number { "Waiting" } th.number { "Dead letters" } } }
                tbody { @for worker in &stats.workers { tr {
                    td { a.mono href=(context.path(&format!("/mailboxes/{}", worker.worker))) { (worker.worker) } }
                    td.number data-th="waiting" { (depth(worker.inbox)) } td.number data-th="dead letters" { (depth(worker.dead_letters)) }
                } } }
            } }
        }
    };
    Ok(reply(&context, &call, "Mailboxes", &cursor, &body))
}

fn reply(
    context: &ServerContext,
    call: &ApiCall,
    title: &str,
    cursor: &str,
    body: &Markup,
) -> crate::reply::Reply {
    let page = Page {
        title,
        section: "/mailboxes",
        events: Some(context.path(&format!("/api/events/mailboxes?after={cursor}"))),
    };
    shell::show(context, &call.caller, &page, body)
}

fn depth(depth: Depth) -> String {
    match depth {
        Depth::Exactly(rows) => rows.to_string(),
        Depth::MoreThan(rows) => format!("{rows}+"),
        Depth::AtMost(rows) => format!("at most {rows}"),
    }
}

pub(crate) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let worker = worker(&call)?;
    let cursor = context.mailbox_feed.cursor(&context.client).await?;
    let mailbox = context.client.mailbox().await?;
    let waiting = mailbox.list(worker, None, ROWS).await?;
    let dead = mailbox.dead(worker, None, ROWS).await?;
    let query = TimerQuery {
        from: Timestamp::EPOCH,
        limit: ROWS,
    };
    let timers = mailbox.query_timers(worker, query).await?;
    let acts = call.caller.right >= Right::Act;
    let path = |verb: &str| context.path(&format!("/mailboxes/{worker}/{verb}"));
    let body = html! {
        div.head { h1 { "Mailbox " (worker) } }
        p.sentence data-part="sentence" { (counted(dead.len(), "dead letter")) ", " (counted(waiting.len(), "message").to_lowercase()) " in the inbox, " (counted(timers.len(), "timer").to_lowercase()) " armed." }
        (note(&context, &call))
        h2 { "Dead letters" }
        div.card.flush data-part="dead" {
            @if dead.is_empty() { div.empty { "Everything could be handled so far." } } @else { table {
                thead { tr { th.number { "Number" } th { "Message" } th { "Reason" } th.number.less { "Attempts" } th.less { "Failed" } th {} } }
                tbody { @for letter in &dead { tr {
                    td.number data-th="no." { (letter.seq) } td.wide { (glance(&letter.frame)) } td.wide title=(letter.reason) { (letter.reason) }
                    td.number.less { (letter.attempts) } td.tight.less { (exact(letter.failed_at)) }
                    td.tight { @if acts { form.inline method="post" action=(path("replay")) { input type="hidden" name="seq" value=(letter.seq); button title=(format!("lope mailbox replay {worker} {}", letter.seq)) { "Replay" } } } }
                } } }
            } }
        }
        @if acts && dead.len() > 1 { form.inline method="post" action=(path("replay")) data-ask="Replay all dead letters of this worker?" { button title=(format!("lope mailbox replay {worker} --all")) { "Replay all" } } }
        h2 { "Waiting" }
        div.card.flush data-part="waiting" {
            @if waiting.is_empty() { div.empty { "Nothing waits." } } @else { table {
                thead { tr { th.number { "Number" } th { "Message" } th { "In hand" } } }
                tbody { @for message in &waiting { tr {
                    td.number data-th="no." { (message.seq) } td.wide { (glance(&message.frame)) }
                    td { @if let Some(lease) = &message.lease { (lease.owner.as_str()) ", attempt " (lease.attempts) } }
                } } }
            } }
        }
        h2 { "Timers" }
        div.card.flush data-part="timers" { (armed(&timers)) }
    };
    let title = format!("Mailbox {worker}");
    Ok(reply(&context, &call, &title, &cursor, &body))
}

/// Messages that come at a time of their own, the next first.
fn armed(timers: &[Armed]) -> Markup {
    html! {
        @if timers.is_empty() { div.empty { "No timer is armed." } } @else { table {
            thead { tr { th.number { "Number" } th { "Due" } th { "Message" } } }
            tbody { @for timer in timers { tr {
                td.number data-th="no." { (timer.seq) } td.tight { (exact(timer.due)) " · " (ahead(timer.due)) } td.wide { (glance(&timer.frame)) }
            } } }
        } }
    }
}

/// How many there are, as far as a page shows them.
fn counted(rows: usize, word: &str) -> String {
    let many = if rows == 1 { "" } else { "s" };
    let more = if rows == ROWS { "+" } else { "" };
    match rows {
        0 => format!("No {word}{many}"),
        _ => format!("{rows}{more} {word}{many}"),
    }
}

/// What a message says, short enough for a row.
fn glance(frame: &[u8]) -> Markup {
    let Ok(message) = Message::decode(frame) else {
        return html! { span.dim { (frame.len()) " bytes that are no message" } };
    };
    let payload = String::from_utf8_lossy(message.payload);
    html! { span.mono { (String::from_utf8_lossy(message.id)) } " " (cut(&payload, 120)) }
}

pub(crate) async fn act(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let worker = worker(&call)?;
    let mailbox = context.client.mailbox().await?;
    if call.param("verb") != "replay" {
        return Err(ApiError::missing("a mailbox cannot be asked that"));
    }
    let said = match call.field("seq") {
        Some(seq) => {
            let seq = seq
                .parse()
                .map_err(|_| ApiError::bad("seq: it is no number"))?;
            mailbox.replay(worker, seq).await?;
            "1 dead letter was put into the inbox again.".to_owned()
        }
        None => {
            let count = mailbox.replay_all(worker, SWEPT).await?;
            format!("{count} dead letters were put into the inbox again.")
        }
    };
    let path = context.path(&format!("/mailboxes/{worker}"));
    Ok(told(&context, &path, &said))
}
