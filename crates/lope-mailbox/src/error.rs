//! What can go wrong while a message is handled, sorted by what then happens to the message, and
//! what a consumer answers.

use lope_store::StoreError;
use lope_store::tables::BadManifest;
use lope_store::tables::marker::MarkerError;
use thiserror::Error;

use crate::frame::{EncodeError, FrameError};
use crate::key::BadKey;

/// Why a handler did not handle its message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandlerError {
    /// Something it needs is taken for now. The message is tried again later, within the budget.
    #[error("busy: {0}")]
    Busy(String),
    /// What it saw changed under its hands. The message is tried again later, within the budget.
    #[error("conflict: {0}")]
    Conflict(String),
    /// It never will. The message becomes a dead letter at once.
    #[error("failed: {0}")]
    Failed(String),
    /// The handler can handle no message at all. The message stays where it is, untouched, and the
    /// worker stops.
    #[error("the handler cannot work: {0}")]
    Unfit(String),
    /// A read went wrong. The message stays where it is; what happens next depends on the store.
    #[error(transparent)]
    Store(StoreError),
}

/// Why something cannot be sent, emitted or armed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadMessage {
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("not a message: {0}")]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Key(#[from] BadKey),
    #[error("a message id has at most {max} bytes, not {length}")]
    LongId { length: usize, max: usize },
    #[error("a message has at most {max} bytes, not {length}")]
    Large { length: usize, max: usize },
}

/// Why a consumer is not running.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BootError {
    /// The list of tables is not a manifest; nothing was opened.
    #[error("the table manifest is refused: {0}")]
    Manifest(#[from] BadManifest),
    /// The schema marker is missing and may not be written.
    #[error("the schema marker is missing")]
    NotFound,
    /// The schema marker is another one.
    #[error("the schema marker is {found:02x?}, expected {expected:02x?}")]
    Conflict { found: Vec<u8>, expected: Vec<u8> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a consumer did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConsumerError {
    /// It is not running.
    #[error("the consumer is stopped")]
    Busy,
    /// The frame is for another worker.
    #[error("the frame is for worker {to}, this is worker {worker}")]
    NotFound { to: i64, worker: i64 },
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The handler said no.
    #[error(transparent)]
    Handler(HandlerError),
    /// What the handler read changed until the commit, again and again.
    #[error("what the handler read was changed by others {0} times in a row")]
    Conflict(u32),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<StoreError> for HandlerError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused { message } => Self::Failed(message),
            error => Self::Store(error),
        }
    }
}

impl From<BadMessage> for HandlerError {
    fn from(error: BadMessage) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<MarkerError> for BootError {
    fn from(error: MarkerError) -> Self {
        match error {
            MarkerError::NotFound => Self::NotFound,
            MarkerError::Conflict { found, expected } => Self::Conflict { found, expected },
            MarkerError::Store(error) => Self::Store(error),
        }
    }
}
