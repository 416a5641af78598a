//! Live events of what changes, by one of the feeds: schedules, mailboxes, and all runs. A client that
//! was cut off comes back with the id of its last event and is given what came after it, each once.

use std::sync::Arc;

use lope_http::feed::{Feed, FeedKind};
use serde_json::json;
use tokio::sync::watch;

use crate::call::ApiCall;
use crate::context::{ServerContext, ended};
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::event_stream::{self, BEAT, EventSink, Gone};
use crate::parameter::text;

pub(super) const AFTER: &[crate::parameter::Parameter] = &[text(
    "after",
    "As 'Last-Event-ID': what came after this event",
)];

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/events/schedules", "watchSchedules", |context, call| {
        Box::pin(watch_feed(context, call, |context| &context.schedule_feed))
    })
    .about("Schedules as they change: events 'schedule', 'removed', and 'reset' if what was missed is not known any more.")
    .query(AFTER)
    .answers(Answer::Events("ScheduleEvent")),
    Endpoint::get("/api/events/mailboxes", "watchMailboxes", |context, call| {
        Box::pin(watch_feed(context, call, |context| &context.mailbox_feed))
    })
    .about("How much waits for whom, as it changes: events 'mailbox' (the sum of all has no worker), 'removed', and 'reset' if what was missed is not known any more.")
    .query(AFTER)
    .answers(Answer::Events("MailboxEvent")),
];

/// One of the feeds, from an event on or from now on.
pub(super) async fn watch_feed<K: FeedKind>(
    context: Arc<ServerContext>,
    call: ApiCall,
    feed: fn(&ServerContext) -> &Arc<Feed<K>>,
) -> ApiResult {
    let feed = Arc::clone(feed(&context));
    let (sink, reply) = event_stream::open(&context)?;
    let numbers = feed.subscribe(&context.client, context.runner.as_ref());
    let after = call.header("last-event-id").or_else(|| call.query("after"));
    let cursor = match after {
        Some(after) => after.to_owned(),
        None => feed.cursor(&context.client).await?,
    };
    tokio::spawn(async move {
        let mut ending = context.ending.clone();
        tokio::select! {
            _ = tell(&feed, cursor, numbers, &sink) => {}
            () = sink.gone() => {}
            () = ended(&mut ending) => {}
        }
    });
    Ok(reply)
}

async fn tell<K: FeedKind>(
    feed: &Feed<K>,
    mut cursor: String,
    mut numbers: watch::Receiver<u64>,
    sink: &EventSink,
) -> Result<(), Gone> {
    sink.beat().await?;
    loop {
        let last = *numbers.borrow_and_update();
        match feed.since(&cursor) {
            Some(events) => {
                let told = events.last().map(|event| event.number);
                for event in events {
                    sink.send_frame(event.frame).await?;
                }
                if let Some(told) = told {
                    cursor = feed.text(told);
                }
            }
            None => {
                cursor = feed.text(last);
                sink.send(&cursor, "reset", &json!({})).await?;
            }
        }
        tokio::select! {
            changed = numbers.changed() => changed.map_err(|_| Gone)?,
            () = tokio::time::sleep(BEAT) => sink.beat().await?,
        }
    }
}
