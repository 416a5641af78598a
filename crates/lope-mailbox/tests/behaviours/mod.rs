//! The behaviours of the message consumer, line by line: each test quotes the line that it holds
//! the mailbox to.
//!
//! On the memory store, with a clock that is moved by hand. `stand` has what the tests stand on.

#![allow(
    clippy::unwrap_used,
    reason = "these are tests, also where a function of theirs is not marked as one"
)]

mod boot;
mod commit;
mod dedupe;
mod inbox;
mod leases;
mod operations;
mod outbox;
mod retry;
mod stand;
mod step;
mod timers;
mod worker;
