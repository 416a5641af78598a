//! The law of a mailbox worker: what to claim, when to try again, what is a duplicate, how long to
//! sleep.
//!
//! Pure functions over what was read from the store and a time that comes in; they write nothing,
//! read no clock and know no store. The consumer reads, asks the law, commits what it decided.

pub mod availability;
pub mod claim_plan;
pub mod dedupe;
pub mod idle;
pub mod lease;
pub mod order;
pub mod read_cursor;
pub mod retry;
pub mod weight;
