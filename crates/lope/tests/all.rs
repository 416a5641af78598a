//! The library from outside, as a program that embeds it sees it.
//!
//! One program for all tests of this crate, so that its dependencies are linked once: every file
//! beside this one is a module of it, and `cargo xtask tidy` finds one that was forgotten.
#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod chaos_embedding;
mod client_inputs;
mod copy;
mod embedding_by_hand;
mod embedding_checkpoints;
mod embedding_concurrency;
mod embedding_policies;
mod embedding_runner;
mod embedding_stop;
mod embedding_store;
mod embedding_telemetry;
mod mailbox_handlers;
mod rig;
