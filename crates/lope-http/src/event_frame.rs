//! A server-sent event as bytes. Knows no stream and nobody who watches.

use bytes::Bytes;
use serde_json::Value as Json;

/// An event as it is sent.
pub fn event_frame(id: &str, event: &str, data: &Json) -> Bytes {
    format!("id: {id}\nevent: {event}\ndata: {data}\n\n").into()
}
