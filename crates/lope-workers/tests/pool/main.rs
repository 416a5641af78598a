//! The worker pool with real Python processes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod remote;
mod running;
mod trouble;
