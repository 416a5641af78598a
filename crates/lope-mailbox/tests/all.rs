//! The mailbox from outside: frames, behaviours, and what crashes may not change.
//!
//! One program for all tests of this crate, so that its dependencies are linked once: every file
//! beside this one is a module of it, and `cargo xtask tidy` finds one that was forgotten.
#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod behaviours;
mod chaos_crowd;
mod chaos_frames;
mod chaos_kill;
mod chaos_million;
mod chaos_pipeline;
mod examples;
mod frames;
mod pipeline;
