//! The expression language from outside.
//!
//! One program for all tests of this crate, so that its dependencies are linked once: every file
//! beside this one is a module of it, and `cargo xtask tidy` finds one that was forgotten.
#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod expr_limits;
mod expr_properties;
mod expr_template;
mod expr_text;
