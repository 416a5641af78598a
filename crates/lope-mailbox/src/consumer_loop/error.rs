//! Why a consumer does not do what it was asked.

use thiserror::Error;

use crate::error::ConsumerError;

/// Why a consumer does not do what it was asked.
#[derive(Debug, Error)]
pub enum ConsumerLoopError {
    /// It runs on its thread already.
    #[error("the worker was started already")]
    Busy,
    #[error("the worker was not started")]
    NotStarted,
    /// This build has no threads; call `tick` or `run`.
    #[error("this build has no threads")]
    NoThreads,
    #[error("the worker's thread could not be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The thread ended without an answer.
    #[error("the worker's thread panicked")]
    Panicked,
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
}
