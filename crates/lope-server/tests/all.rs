//! The server from outside: real sockets, a real engine, every answer held against the document.
//!
//! One program for all tests of this crate: every file beside this one is a module of it.
#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agents;
mod api;
mod browser;
mod browser_keys;
mod browser_live;
mod browser_rooms;
mod browser_timeline;
mod bulk;
mod dashboard;
mod events;
mod executions;
mod feed_statements;
mod fixture;
mod forms;
mod generated;
mod limits;
mod metrics;
mod openapi;
mod page_sizes;
mod pages;
mod proxied_pages;
mod redact;
mod room_pages;
mod run_pages;
mod run_reads;
mod run_search;
mod search_bounds;
mod security;
mod spaces;
mod steering;
mod stored;
mod tls;
