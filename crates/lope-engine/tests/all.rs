//! The engine on the memory store, with a clock that is moved by hand.
//!
//! One program for all tests of this crate, so that its dependencies are linked once: every file
//! beside this one is a module of it, and `cargo xtask tidy` finds one that was forgotten.
#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod containment;
mod damage;
mod engine;
mod fixture;
mod policies;
mod promises;
mod query;
mod schedules;
