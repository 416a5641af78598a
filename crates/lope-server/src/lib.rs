//! The server: an HTTP API, live events, a dashboard and metrics over a store, in a process that
//! also works or one that only looks.
//!
//! Requests come in over TCP and go through one gate (`gate`: host, origin, token, right) to one
//! handler of the table in `api::ENDPOINTS`, or to a page. The OpenAPI document is made from the
//! same table. Everything about runs is a call of the crate `lope`; nothing here decides what
//! becomes of a run, reads the environment or knows which store it is.

mod api;
mod api_error;
mod bulk;
mod call;
mod clock;
mod context;
mod endpoint;
mod event_stream;
mod gate;
mod guesses;
mod openapi;
mod pages;
mod parameter;
mod redactions;
mod reply;
mod router;
mod run_feed;
mod schemas;
mod search;
mod serve;
mod settings;

pub use context::ServerParts;
pub use serve::{Listening, Server, ServerError};
pub use settings::{Authentication, BadSetting, ServerSettings};

/// The OpenAPI document of the API.
pub fn openapi_document() -> serde_json::Value {
    openapi::document(api::endpoints())
}
