//! Policies as decisions: which policy a step has, what follows a failed attempt, and the two
//! limits that many runs share.
//!
//! All of it is pure. The law asks `after_failure` and journals the answer's cause; the circuit
//! breaker and the rate limiter are machines that an engine holds, since a run sees them only as
//! refusals.

mod breaker;
mod decide;
mod delay;
mod limiter;
mod preset;
mod resolve;

pub use breaker::{Admission, Breaker};
pub use decide::{
    FailureVerdict, LOSS_BUDGET, Tried, WORKER_LOST_RETRIES, after_failure, is_retried,
};
pub use delay::jitter;
pub use delay::{BASE_DELAY, MAX_DELAY, delay};
pub use limiter::Limiter;
pub use preset::{PRESETS, compose, preset};
pub use resolve::{override_with, resolve};
