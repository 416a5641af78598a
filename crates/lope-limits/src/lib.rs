//! Limits that all runners of a store share: idempotency keys, permits of concurrency keys,
//! circuits and rates, those of queues too.
//!
//! Each is a row of the table `limits`. What may happen to a row is decided by pure functions from
//! what was read (`turn`); it is written by a batch that is guarded by what was read, so that of
//! many runners that decide at once one is right and the others decide again (`limits_store`).
//! What a runner holds is held as long as its session; nobody need take it away from a dead one.
//! Nothing here knows what a step is.

mod blocking;
mod circuit_row;
mod codec;
mod decide;
mod holder;
mod key;
mod limits_store;
mod outcome_row;
mod permits;
mod prune;
mod rate_line;
mod rate_row;
mod request;
mod upkeep;

pub use blocking::{BlockingLimit, blocking_limit};
pub use holder::{AttemptRef, Holder};
pub use key::LimitKey;
pub use limits_store::{LimitsReply, LimitsStore, StartsRequest};
pub use prune::prune;
pub use request::{LimitEnd, LimitRequest, LimitVerdict, LimitWork};
pub use upkeep::check;
