//! Why an engine works no more, as a decision for whoever runs it: start it again, or put the store
//! back first.

use lope_store::StoreError;
use thiserror::Error;

/// Why an engine can do no more work.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Breakdown {
    /// The store was there and is not any more; what it held does not come back by itself.
    #[error(transparent)]
    StoreGone(StoreError),
    /// A part of the engine kept panicking.
    #[error("its {part} panicked {times} times in a minute ({panic})")]
    Panicking {
        part: &'static str,
        times: usize,
        /// What the last panic said.
        panic: String,
    },
    /// A part of the engine panicked and could not begin again.
    #[error("the {part} cannot be picked up after a panic ({panic})")]
    Unrecoverable { part: &'static str, panic: String },
}
