//! What every endpoint and every page of the server is made of: requests as handlers see them,
//! the gate before them, the shape of the table of endpoints, replies, event streams, and what
//! stands around a page.
//!
//! A request's head flows in, a caller or a refusal flows out; handlers give replies. Which
//! endpoints there are is not known here: `lope-server` has the table and the listener.

pub mod api_error;
pub mod asked_together;
pub mod call;
pub mod clock;
pub mod commands;
pub mod context;
pub mod endpoint;
pub mod event_frame;
pub mod event_stream;
pub mod execution_pages;
pub mod feed;
pub mod gate;
pub mod guesses;
pub mod log_file;
pub mod notes;
pub mod parameter;
pub mod parts;
pub mod redactions;
pub mod reply;
pub mod run_filters;
pub mod settings;
pub mod shell;
pub mod store_probe;
