//! The mailboxes of a store as people and programs beside the workers see them: send, list, replay,
//! drop, count.
//!
//! Answers are plain data. Nothing here claims a message or calls a handler; what is taken away is
//! taken away in one guarded commit, so that a worker in between keeps what it holds.

mod dead;
mod list;
mod send;
mod stats;

use std::sync::Arc;

use lope_store::{StoreError, Tables};
use thiserror::Error;

pub use dead::Dead;
pub use list::{Armed, Leased, Queued, TimerQuery};
pub use send::Sent;
pub use stats::{Counting, Depth, Stats, WorkerStats};

use crate::boot::boot;
use crate::config::Boot;
use crate::error::{BadMessage, BootError};
use crate::key::WorkerId;

/// The mailboxes of one store.
#[derive(Clone)]
pub struct Mailbox {
    tables: Arc<dyn Tables>,
}

/// Why a mailbox did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MailboxError {
    #[error(transparent)]
    Message(#[from] BadMessage),
    /// There is a message under this number; it is never overwritten.
    #[error("worker {worker} has a message under number {seq} already")]
    Exists { worker: WorkerId, seq: u64 },
    #[error("worker {worker} has no {what} under number {seq}")]
    NotFound {
        what: &'static str,
        worker: WorkerId,
        seq: u64,
    },
    /// Somebody changed it at the same time; look again.
    #[error("it was changed by somebody else at the same time")]
    Changed,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Mailbox {
    /// On tables that were booted before.
    pub fn new(tables: Arc<dyn Tables>) -> Self {
        Self { tables }
    }

    /// Open the tables and check their marker first.
    pub async fn open(tables: Arc<dyn Tables>, options: &Boot) -> Result<Self, BootError> {
        boot(&*tables, options).await?;
        Ok(Self::new(tables))
    }
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mailbox")
    }
}
