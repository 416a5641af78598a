//! The agents' room from outside: its law in tables and by properties, the board on a store in
//! memory.
#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod board;
mod board_bounds;
mod clock_set_back;
mod fixture;
mod hooks;
mod imports;
mod law;
mod lost_claims;
mod task_lists;
mod watched;
