//! The server: an HTTP API, live events, a dashboard and metrics over a store, in a process that
//! also works or one that only looks.
//!
//! Requests come in over TCP and go through one gate (`gate`: host, origin, token, right) to one
//! handler of the table in `api::ENDPOINTS`, or to a page. The OpenAPI document is made from the
//! same table. Everything about runs is a call of the crate `lope`; nothing here decides what
//! becomes of a run, reads the environment or knows which store it is.

use lope_http::{
    api_error, call, clock, context, endpoint, event_stream, gate, guesses, parameter, redactions,
    reply, settings, store_probe,
};

mod api;
mod bulk;
mod openapi;
mod pages;
mod patient_stream;
mod router;
mod schemas;
mod search;
mod serve;

pub use context::ServerParts;
pub use serve::{Listening, Server, ServerError};
pub use settings::{Authentication, BadSetting, ServerSettings};

/// The OpenAPI document of the API.
pub fn openapi_document() -> serde_json::Value {
    openapi::document(api::endpoints())
}
