//! The behaviours of the message runner, line by line: each test quotes the line that it holds the mailbox to.
//!
//! On the memory store, with a clock that is moved by hand. `stand` has what the tests stand on.

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
