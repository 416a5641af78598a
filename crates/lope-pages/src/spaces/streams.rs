//! Events to streams. An event that is sent again under its id takes effect once.

use std::sync::Arc;

use lope::reactive::{Arrival, HostError, SpaceStore, StoredReceipt, StreamEvent};
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::{Answer, ApiResult, Endpoint};
use lope_http::reply;
use serde::Deserialize;
use serde_json::Value as Json;

use super::{asked, cell, message_id, receipt_json, stored, worded};

pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::get(
        "/api/spaces/{space}/receipts/{event}",
        "getReceipt",
        |context, call| Box::pin(receipt(context, call)),
    )
    .about("What became of an event or a change that was sent under an id. 'outcome' is null if nothing has yet, or if nobody sent it.")
    .answers(Answer::Json("Receipt")),
    Endpoint::post(
    "/api/spaces/{space}/streams/{document}/send",
    "sendEvent",
    |context, call| Box::pin(send(context, call)),
)
.about("Send an event to a stream and wait until it has taken effect. 'outcome' is null if it is on disk and not handled yet. Sent again under its id, it takes effect once; something else under that id is a conflict.")
.does(&["streams send"])
.takes("SpaceEvent")
.answers(Answer::Json("Receipt")),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventRequest {
    path: Option<String>,
    event: Json,
    id: Option<String>,
    wait: Option<bool>,
}

async fn receipt(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let space = super::space(&call)?;
    let id = call.param("event");
    let receipt = match context.client.spaces().await? {
        Some(directory) => directory.space(space).receipt(id).await?,
        None => None,
    };
    Ok(reply::json(&receipt_json(id, receipt.as_ref())))
}

async fn send(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let request: EventRequest = call.body()?;
    let (stream, text) = cell(&call, request.path.as_deref())?;
    let space = stream.space.clone();
    let id = message_id(&call, request.id);
    let arrival = Arrival::Event(StreamEvent {
        id: Arc::clone(&id),
        stream: stream.clone(),
        payload: stored(request.event),
    });
    let store = context.spaces().await?.space(&space);
    // An event for what is no stream waits for a handler, or for the dead letters; its sender does not.
    let waits = request.wait.unwrap_or(true) && store.is_stream(&stream).await?;
    let receipt = if waits {
        asked(&context, &space, &arrival).await
    } else {
        delivered(&store, &arrival).await.map_err(Into::into)
    };
    let receipt = receipt.map_err(|error| worded(error, &stream, &text))?;
    Ok(reply::json(&receipt_json(&id, receipt.as_ref())))
}

/// Sends something unless it was sent before; what became of it, if it is done.
async fn delivered(
    store: &SpaceStore,
    arrival: &Arrival,
) -> Result<Option<StoredReceipt>, HostError> {
    let known = store.receipt(arrival.id()).await?;
    match &known {
        Some(receipt) => receipt.validate(arrival)?,
        None => {
            store.deliver(arrival).await?;
        }
    }
    Ok(known)
}
