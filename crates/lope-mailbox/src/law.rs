//! The law of a mailbox worker: what to claim, when to try again, what is a duplicate, how long to sleep.
//!
//! Pure functions over what was read from the store and a time that comes in; they write nothing, read no clock and know
//! no store. The runner reads, asks the law, commits what it decided.

pub mod dedupe;
pub mod draw;
pub mod floor;
pub mod idle;
pub mod lease;
pub mod order;
pub mod retry;
pub mod survey;
pub mod weight;
