//! Sending: a message into an inbox, now or at a time. Numbers are given in the commit.

use lope_model::Timestamp;
use lope_store::tables::{At, Batch, TableId, Write};
use lope_store::{StoreError, StoreResult};

use super::{Mailbox, MailboxError};
use crate::error::BadMessage;
use crate::frame::Message;
use crate::key::{self, TimerKey, WorkerId};
use crate::message::{delivery, seal, validate_sealed};

/// Where a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub worker: WorkerId,
    pub seq: u64,
    /// When it is delivered, if it was sent for later.
    pub due: Option<Timestamp>,
}

impl Mailbox {
    /// Put a message into its worker's inbox.
    pub async fn send(&self, message: &Message<'_>) -> Result<Sent, MailboxError> {
        let mut sent = self.send_frames(vec![seal(message)?]).await?;
        sent.pop().ok_or_else(lost)
    }

    /// Put many frames into the inboxes of those they are for, in one commit call. Each arrives on
    /// its own.
    pub async fn send_frames(&self, frames: Vec<Vec<u8>>) -> Result<Vec<Sent>, MailboxError> {
        let mut workers = Vec::with_capacity(frames.len());
        let mut batches = Vec::with_capacity(frames.len());
        for frame in frames {
            let worker = validate_sealed(&frame)?;
            workers.push(worker);
            batches.push(Batch {
                guards: Vec::new(),
                writes: vec![key::append_inbox(worker, frame)],
            });
        }
        let numbers = self.numbers(batches).await?;
        Ok(workers
            .into_iter()
            .zip(numbers)
            .map(|(worker, seq)| Sent {
                worker,
                seq,
                due: None,
            })
            .collect())
    }

    /// Arm a timer that delivers a message to its worker.
    pub async fn send_at(
        &self,
        message: &Message<'_>,
        due: Timestamp,
    ) -> Result<Sent, MailboxError> {
        let worker = WorkerId::try_from(message.to_worker).map_err(BadMessage::from)?;
        let write = delivery(message, Some(due))?;
        let numbers = self
            .numbers(vec![Batch {
                guards: Vec::new(),
                writes: vec![write],
            }])
            .await?;
        let seq = numbers.first().copied().ok_or_else(lost)?;
        Ok(Sent {
            worker,
            seq,
            due: Some(due),
        })
    }

    /// Put bytes under a number of the caller's choice, unchecked. A number that is taken is
    /// refused.
    pub async fn put(
        &self,
        worker: WorkerId,
        seq: u64,
        frame: Vec<u8>,
    ) -> Result<(), MailboxError> {
        let at = At::new(TableId::INBOX, key::inbox(worker, seq));
        if self.create(at, frame).await? {
            Ok(())
        } else {
            Err(MailboxError::Exists { worker, seq })
        }
    }

    /// Put bytes under a timer key of the caller's choice, unchecked. A key that is taken is
    /// refused.
    pub async fn put_timer(
        &self,
        worker: WorkerId,
        key: TimerKey,
        frame: Vec<u8>,
    ) -> Result<(), MailboxError> {
        let at = At::new(TableId::TIMERS, key.to_bytes());
        if self.create(at, frame).await? {
            Ok(())
        } else {
            Err(MailboxError::Exists {
                worker,
                seq: key.seq,
            })
        }
    }

    async fn create(&self, at: At, value: Vec<u8>) -> StoreResult<bool> {
        let batch = Batch {
            guards: Vec::new(),
            writes: vec![Write::Create(at, value)],
        };
        Ok(self
            .tables
            .commit(vec![batch])
            .await?
            .iter()
            .all(Result::is_ok))
    }

    async fn numbers(&self, batches: Vec<Batch>) -> Result<Vec<u64>, MailboxError> {
        let replies = self.tables.commit(batches).await?;
        let numbers = replies.into_iter().map(|reply| {
            reply
                .ok()
                .and_then(|applied| applied.appended.first().copied())
        });
        numbers.map(|number| number.ok_or_else(lost)).collect()
    }
}

/// A batch without guards cannot be refused.
fn lost() -> MailboxError {
    MailboxError::Store(StoreError::corrupt("an append without guards was refused"))
}
