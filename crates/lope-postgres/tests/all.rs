//! The store on Postgres from outside: its promises, its schema, its failures.
//!
//! One program for all tests of this crate, so that its dependencies are linked once: every file
//! beside this one is a module of it, and `cargo xtask tidy` finds one that was forgotten.
#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod board_trips;
mod chaos_pooler;
mod chaos_server;
mod chaos_store;
mod chaos_wire;
mod clock_steps;
mod conformance;
mod damage;
mod encryption;
mod failures;
mod fixture;
mod look_statements;
mod partitions;
mod remove_verdict;
mod schema;
mod server_meter;
mod standstill;
mod verdicts;
