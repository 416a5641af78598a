//! Mailboxes: how much waits for whom, what is due later, what was given up; sending and mending.

use std::sync::Arc;

use axum::http::StatusCode;
use lope::describe;
use lope::mailbox::frame::{Flags, Message, MessageKind};
use lope::mailbox::key::{TimerKey, WorkerId};
use lope::mailbox::{Counting, Mailbox, MailboxError, TimerQuery};
use lope_model::Timestamp;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::api_error::ApiError;
use crate::call::{ApiCall, later};
use crate::context::ServerContext;
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::parameter::{count, flag, text};
use crate::reply;

/// Rows of a page.
const USUAL: usize = 50;
const MOST: usize = 1_000;
/// Dead letters that one request replays or drops.
pub(crate) const SWEPT: usize = 10_000;

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/mailboxes", "listMailboxes", |context, call| {
        Box::pin(stats(context, call))
    })
    .about("How much is in the inboxes, timers and dead letters. What ends with '_more' says that counting stopped there.")
    .does(&["mailbox stats"])
    .query(&[
        count("limit", "Workers shown, 1 to 1000; 50 unless it is said"),
        flag("exact", "Count everything, however long it takes"),
    ])
    .answers(Answer::Json("MailboxStats")),
    Endpoint::get(
        "/api/mailboxes/{worker}/messages",
        "listMessages",
        |context, call| Box::pin(messages(context, call)),
    )
    .about("The messages in a worker's inbox, oldest first.")
    .does(&["mailbox list"])
    .query(PAGE)
    .answers(Answer::Json("MessagePage")),
    Endpoint::post(
        "/api/mailboxes/{worker}/messages",
        "sendMessage",
        |context, call| Box::pin(send(context, call)),
    )
    .about("Put a message into a worker's inbox, now or at a time.")
    .does(&["mailbox send"])
    .takes("OutgoingMessage")
    .answers(Answer::Created("SentMessage")),
    Endpoint::get(
        "/api/mailboxes/{worker}/timers",
        "listTimers",
        |context, call| Box::pin(timers(context, call)),
    )
    .about("A worker's timers, earliest first.")
    .does(&["mailbox timers"])
    .query(&[
        text("from", "Due at this time or later, or in how long (2h)"),
        count("limit", "1 to 1000; 50 unless it is said"),
    ])
    .answers(Answer::Json("TimerPage")),
    Endpoint::get(
        "/api/mailboxes/{worker}/dead",
        "listDeadLetters",
        |context, call| Box::pin(dead(context, call)),
    )
    .about("A worker's dead letters, oldest first.")
    .does(&["mailbox dead"])
    .query(PAGE)
    .answers(Answer::Json("DeadLetterPage")),
    Endpoint::post(
        "/api/mailboxes/{worker}/replay",
        "replayDeadLetters",
        |context, call| Box::pin(replay(context, call)),
    )
    .about("Put a dead letter, or up to 10000 of them, at the end of the inbox again.")
    .does(&["mailbox replay"])
    .takes("Replay")
    .answers(Answer::Json("Replayed")),
    Endpoint::post(
        "/api/mailboxes/{worker}/drop",
        "dropMessages",
        |context, call| Box::pin(drop(context, call)),
    )
    .about("Take a dead letter away for good, or up to 10000 of them; or a message, or a timer.")
    .does(&["mailbox drop"])
    .takes("Drop")
    .answers(Answer::Json("Dropped")),
];

const PAGE: &[crate::parameter::Parameter] = &[
    count("after", "Behind this number"),
    count("limit", "1 to 1000; 50 unless it is said"),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutgoingRequest {
    payload: String,
    id: Option<String>,
    kind: Option<KindName>,
    #[serde(default)]
    dedupe: bool,
    #[serde(default)]
    priority: bool,
    at: Option<String>,
    from: Option<i64>,
    #[serde(default)]
    ack: bool,
    trace: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindName {
    Command,
    Event,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReplayRequest {
    seq: Option<u64>,
    all: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DropRequest {
    seq: Option<u64>,
    all: bool,
    what: DropWhat,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DropWhat {
    #[default]
    Dead,
    Message,
    Timer,
}

/// The worker that `{worker}` names.
pub(crate) fn worker(call: &ApiCall) -> Result<WorkerId, ApiError> {
    let text = call.param("worker");
    let parsed = text.parse();
    parsed.map_err(|error| ApiError::missing(format!("'{text}' is no worker: {error}")))
}

async fn stats(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let limit = call.limit(USUAL, MOST)?;
    let counting = if call.flag("exact")? {
        Counting::Exact
    } else {
        Counting::Quick
    };
    let mailbox = context.client.mailbox().await?;
    let stats = mailbox.stats(limit, counting).await?;
    Ok(reply::json(&describe::mailbox_stats(&stats)))
}

async fn messages(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let worker = worker(&call)?;
    let limit = call.limit(USUAL, MOST)?;
    let mailbox = context.client.mailbox().await?;
    let mut rows = mailbox
        .list(worker, call.number("after")?, limit + 1)
        .await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| row.seq);
    let now = context.client.moment().await?;
    let rows: Vec<Json> = rows.iter().map(|row| describe::queued(row, now)).collect();
    Ok(reply::json(&json!({ "messages": rows, "next": next })))
}

async fn timers(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let worker = worker(&call)?;
    let limit = call.limit(USUAL, MOST)?;
    let from = call.query("from").map(|text| later("from", text));
    let from = from.transpose()?.unwrap_or(Timestamp::EPOCH);
    let query = TimerQuery {
        from: from.max(Timestamp::EPOCH),
        limit,
    };
    let mailbox = context.client.mailbox().await?;
    let found = mailbox.query_timers(worker, query).await?;
    let rows: Vec<Json> = found.iter().map(describe::timer).collect();
    Ok(reply::json(&json!({ "timers": rows })))
}

async fn dead(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let worker = worker(&call)?;
    let limit = call.limit(USUAL, MOST)?;
    let mailbox = context.client.mailbox().await?;
    let mut rows = mailbox
        .dead(worker, call.number("after")?, limit + 1)
        .await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| row.seq);
    let rows: Vec<Json> = rows.iter().map(describe::dead_letter).collect();
    Ok(reply::json(&json!({ "dead_letters": rows, "next": next })))
}

async fn send(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: OutgoingRequest = call.body()?;
    let worker = worker(&call)?;
    let at = request.at.as_deref().map(|text| later("at", text));
    let at = at.transpose()?;
    if at.is_some_and(|at| at < Timestamp::EPOCH) {
        return Err(ApiError::bad(
            "at: the earliest time is 1970-01-01T00:00:00Z",
        ));
    }
    if request.ack && request.from.is_none() {
        return Err(ApiError::bad("ack: say with 'from' who is told"));
    }
    let id = request.id.clone();
    let id = id.or_else(|| call.header("idempotency-key").map(str::to_owned));
    let id = id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let message = message(&request, worker, &id);
    let mailbox = context.client.mailbox().await?;
    let sent = match at {
        None => mailbox.send(&message).await?,
        Some(due) => mailbox.send_at(&message, due).await?,
    };
    let value = json!({
        "worker": sent.worker.number(),
        "seq": sent.seq,
        "message_id": id,
        "kind": message.kind.name(),
        "due": sent.due.map(describe::time),
    });
    Ok(reply::json_with(StatusCode::CREATED, &value))
}

fn message<'a>(request: &'a OutgoingRequest, worker: WorkerId, id: &'a str) -> Message<'a> {
    let kind = match request.kind {
        None | Some(KindName::Command) => MessageKind::Command,
        Some(KindName::Event) => MessageKind::Event,
    };
    let plain = Message::new(
        kind,
        worker.number(),
        id.as_bytes(),
        request.payload.as_bytes(),
    );
    let flags = plain
        .flags
        .with(Flags::DEDUPE, request.dedupe)
        .with(Flags::HIGH_PRIORITY, request.priority)
        .with(Flags::REQUIRES_ACK, request.ack);
    Message {
        flags,
        from_worker: request.from,
        trace: request.trace.as_deref().map(str::as_bytes),
        ..plain
    }
}

async fn replay(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: ReplayRequest = call.body()?;
    let worker = worker(&call)?;
    one_or_all(request.seq, request.all)?;
    let mailbox = context.client.mailbox().await?;
    let value = match request.seq {
        Some(seq) => {
            let number = mailbox.replay(worker, seq).await?;
            json!({ "worker": worker.number(), "replayed": 1, "seq": seq, "new_seq": number })
        }
        None => {
            let replayed = mailbox.replay_all(worker, SWEPT).await?;
            json!({ "worker": worker.number(), "replayed": replayed })
        }
    };
    Ok(reply::json(&value))
}

async fn drop(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: DropRequest = call.body()?;
    let worker = worker(&call)?;
    one_or_all(request.seq, request.all)?;
    if request.all && request.what != DropWhat::Dead {
        return Err(ApiError::bad("all: only dead letters are dropped together"));
    }
    let mailbox = context.client.mailbox().await?;
    let dropped = match request.seq {
        None => mailbox.drop_all_dead(worker, SWEPT).await?,
        Some(seq) => {
            match request.what {
                DropWhat::Dead => mailbox.drop_dead(worker, seq).await?,
                DropWhat::Message => mailbox.drop_message(worker, seq).await?,
                DropWhat::Timer => drop_timer(&mailbox, worker, seq).await?,
            }
            1
        }
    };
    let value = json!({ "worker": worker.number(), "dropped": dropped, "seq": request.seq });
    Ok(reply::json(&value))
}

fn one_or_all(seq: Option<u64>, all: bool) -> Result<(), ApiError> {
    if seq.is_some() == all {
        return Err(ApiError::bad("body: give either 'seq' or 'all'"));
    }
    Ok(())
}

/// A timer is kept under its due time; its number is looked for.
async fn drop_timer(mailbox: &Mailbox, worker: WorkerId, seq: u64) -> Result<(), MailboxError> {
    let what = "timer";
    let missing = || MailboxError::NotFound { what, worker, seq };
    let timer = mailbox.timer(worker, seq).await?.ok_or_else(missing)?;
    let key = TimerKey::new(timer.due, timer.seq).map_err(|_| missing())?;
    mailbox.cancel_timer(worker, key).await
}
