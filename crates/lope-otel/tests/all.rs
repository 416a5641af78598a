//! Traces and metrics as a collector gets them, from a runner that works.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod collector;
mod traces;
