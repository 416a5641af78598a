//! What a measurement cannot do.

use lope::mailbox::{BootError, ConsumerLoopError, MailboxError};
use lope::runs::InputError;
use lope::stores::StoreError;
use thiserror::Error;

pub type BenchResult<T> = Result<T, BenchError>;

/// Why there is no figure.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Something that was asked for makes no sense or cannot be reached here.
    #[error("{0}")]
    Input(String),
    #[error("no Postgres server is named")]
    NoServer,
    /// What was measured did not do what it should.
    #[error("{0}")]
    Broken(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Runner(#[from] lope::Error),
    #[error(transparent)]
    Start(#[from] InputError),
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
    #[error(transparent)]
    Boot(#[from] BootError),
    #[error(transparent)]
    Consumer(#[from] ConsumerLoopError),
}

impl BenchError {
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::Input(message.into())
    }

    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::Broken(message.into())
    }
}
