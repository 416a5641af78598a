//! Live events of schedules and mailboxes. A client that was cut off comes back with the id of its
//! last event and is given what came after it, each once.

use std::sync::Arc;

use lope_http::change_feed::ChangeFeed;
use serde_json::json;
use tokio::sync::watch;

use crate::call::ApiCall;
use crate::context::{ServerContext, ended};
use crate::endpoint::{Answer, ApiResult, Endpoint};
use crate::event_stream::{self, BEAT, EventSink, Gone};
use crate::parameter::text;

const AFTER: &[crate::parameter::Parameter] = &[text(
    "after",
    "As 'Last-Event-ID': what came after this event",
)];

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get("/api/events/schedules", "watchSchedules", |context, call| {
        Box::pin(async move {
            let feed = Arc::clone(&context.schedule_changes);
            serve(feed, context, call).await
        })
    })
    .about("Schedules as they change: events 'schedule', 'removed', and 'reset' if what was missed is not known any more.")
    .query(AFTER)
    .answers(Answer::Events("ScheduleEvent")),
    Endpoint::get("/api/events/mailboxes", "watchMailboxes", |context, call| {
        Box::pin(async move {
            let feed = Arc::clone(&context.mailbox_changes);
            serve(feed, context, call).await
        })
    })
    .about("How much waits for whom, as it changes: events 'mailbox' (the sum of all has no worker), 'removed', and 'reset' if what was missed is not known any more.")
    .query(AFTER)
    .answers(Answer::Events("MailboxEvent")),
];

async fn serve(feed: Arc<ChangeFeed>, context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let after = call.header("last-event-id").or_else(|| call.query("after"));
    let cursor = match after {
        Some(after) => after.to_owned(),
        None => feed.cursor(&context.client).await?,
    };
    let (sink, reply) = event_stream::open(&context)?;
    let bell = feed.subscribe(&context.client);
    tokio::spawn(async move {
        let mut ending = context.ending.clone();
        tokio::select! {
            _ = tell(&feed, cursor, bell, &sink) => {}
            () = sink.gone() => {}
            () = ended(&mut ending) => {}
        }
    });
    Ok(reply)
}

async fn tell(
    feed: &ChangeFeed,
    mut cursor: String,
    mut bell: watch::Receiver<u64>,
    sink: &EventSink,
) -> Result<(), Gone> {
    sink.beat().await?;
    loop {
        let last = *bell.borrow_and_update();
        match feed.since(&cursor) {
            Some(changes) => {
                for change in changes {
                    cursor = feed.text(change.number);
                    sink.send(&cursor, change.event, &change.value).await?;
                }
            }
            None => {
                cursor = feed.text(last);
                sink.send(&cursor, "reset", &json!({})).await?;
            }
        }
        tokio::select! {
            changed = bell.changed() => changed.map_err(|_| Gone)?,
            () = tokio::time::sleep(BEAT) => sink.beat().await?,
        }
    }
}
