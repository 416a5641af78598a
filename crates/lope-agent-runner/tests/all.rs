//! The tests of this room, as one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod invocations;
mod transcripts;
