//! Dead letters: listed, sent again, dropped. And messages and timers that are taken away by hand.

use lope_model::Timestamp;
use lope_store::StoreError;
use lope_store::tables::{At, Batch, Direction, Guard, Range, TableId, Write};

use super::{Mailbox, MailboxError};
use crate::frame::Message;
use crate::key::{self, TimerKey, WorkerId};
use crate::record::DeadLetter;

/// Dead letters that are swept at a time; each may be as large as a message.
const SWEEP_PAGE: usize = 64;

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    pub worker: WorkerId,
    pub seq: u64,
    pub reason: String,
    pub attempts: u32,
    pub failed_at: Timestamp,
    pub frame: Vec<u8>,
}

impl Dead {
    pub fn message(&self) -> Option<Message<'_>> {
        Message::decode(&self.frame).ok()
    }
}

impl Mailbox {
    /// Dead letters of a worker in the order of their numbers, behind `after`.
    pub async fn dead(
        &self,
        worker: WorkerId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Dead>, MailboxError> {
        let Some(from) = after.map_or(Some(0), |seq| seq.checked_add(1)) else {
            return Ok(Vec::new());
        };
        let mut range = Range::prefix(TableId::DEAD_LETTER, &worker.to_bytes(), limit);
        range.from = key::inbox(worker, from).to_vec();
        let rows = self.tables.range(range).await?;
        let dead = rows.into_iter().map(|row| {
            let seq = key::read_inbox(&row.key)
                .ok_or_else(|| StoreError::corrupt("a strange dead letter key"))?
                .1;
            let letter = DeadLetter::decode(&row.value).map_err(StoreError::corrupt)?;
            let DeadLetter {
                reason,
                attempts,
                failed_at,
                frame,
            } = letter;
            Ok(Dead {
                worker,
                seq,
                reason,
                attempts,
                failed_at,
                frame,
            })
        });
        dead.collect()
    }

    /// Put a dead letter at the end of its worker's inbox again. Answers with its number there.
    pub async fn replay(&self, worker: WorkerId, seq: u64) -> Result<u64, MailboxError> {
        let at = key::dead_letter(worker, seq);
        let bytes = self
            .value(
                &at,
                MailboxError::NotFound {
                    what: "dead letter",
                    worker,
                    seq,
                },
            )
            .await?;
        let letter = DeadLetter::decode(&bytes).map_err(StoreError::corrupt)?;
        let writes = vec![
            Write::Delete(at.clone()),
            key::append_inbox(worker, letter.frame),
        ];
        let appended = self.replace(at, bytes, writes).await?;
        appended.first().copied().ok_or(MailboxError::Changed)
    }

    /// Put up to `limit` dead letters of a worker into its inbox again, oldest first. Answers with
    /// how many it were.
    pub async fn replay_all(&self, worker: WorkerId, limit: usize) -> Result<usize, MailboxError> {
        let again = |letter: DeadLetter| Some(key::append_inbox(worker, letter.frame));
        self.sweep_dead(worker, limit, again).await
    }

    /// Take up to `limit` dead letters of a worker away for good, oldest first. Answers with how
    /// many it were.
    pub async fn drop_all_dead(
        &self,
        worker: WorkerId,
        limit: usize,
    ) -> Result<usize, MailboxError> {
        self.sweep_dead(worker, limit, |_| None).await
    }

    /// Remove the dead letters that are there now, page by page, with a write each instead.
    /// What somebody else was faster with is passed over; what dies meanwhile stands behind the
    /// last and is left alone.
    async fn sweep_dead(
        &self,
        worker: WorkerId,
        limit: usize,
        instead: impl Fn(DeadLetter) -> Option<Write>,
    ) -> Result<usize, MailboxError> {
        let mut range = Range::prefix(TableId::DEAD_LETTER, &worker.to_bytes(), 1);
        let last = self
            .tables
            .range(Range {
                direction: Direction::Backward,
                ..range.clone()
            })
            .await?
            .pop();
        let Some(last) = last else { return Ok(0) };
        range.to = Some([last.key.as_slice(), &[0]].concat());
        let mut swept = 0;
        while swept < limit {
            range.limit = SWEEP_PAGE.min(limit - swept);
            let page = self.tables.range(range.clone()).await?;
            let Some(row) = page.last() else { break };
            range.from = [row.key.as_slice(), &[0]].concat();
            let batches = page.into_iter().map(|row| {
                let letter = DeadLetter::decode(&row.value).map_err(StoreError::corrupt)?;
                let at = At::new(TableId::DEAD_LETTER, row.key);
                let writes = [Write::Delete(at.clone())]
                    .into_iter()
                    .chain(instead(letter))
                    .collect();
                Ok(Batch {
                    guards: vec![Guard::Equals(at, row.value)],
                    writes,
                })
            });
            let batches = batches.collect::<Result<Vec<Batch>, StoreError>>()?;
            swept += self
                .tables
                .commit(batches)
                .await?
                .iter()
                .filter(|reply| reply.is_ok())
                .count();
        }
        Ok(swept)
    }

    /// Take a dead letter away for good.
    pub async fn drop_dead(&self, worker: WorkerId, seq: u64) -> Result<(), MailboxError> {
        let missing = MailboxError::NotFound {
            what: "dead letter",
            worker,
            seq,
        };
        self.remove(key::dead_letter(worker, seq), missing).await
    }

    /// Take a message out of an inbox for good. A worker that has it in hand finds it gone when it
    /// commits.
    pub async fn drop_message(&self, worker: WorkerId, seq: u64) -> Result<(), MailboxError> {
        let missing = MailboxError::NotFound {
            what: "message",
            worker,
            seq,
        };
        self.remove(At::new(TableId::INBOX, key::inbox(worker, seq)), missing)
            .await
    }

    /// Cancel a timer.
    pub async fn cancel_timer(
        &self,
        worker: WorkerId,
        timer: TimerKey,
    ) -> Result<(), MailboxError> {
        let missing = MailboxError::NotFound {
            what: "timer",
            worker,
            seq: timer.seq,
        };
        self.remove(At::new(TableId::TIMERS, timer.to_bytes()), missing)
            .await
    }

    async fn remove(&self, at: At, missing: MailboxError) -> Result<(), MailboxError> {
        let bytes = self.value(&at, missing).await?;
        let writes = vec![Write::Delete(at.clone())];
        self.replace(at, bytes, writes).await.map(|_| ())
    }

    async fn value(&self, at: &At, missing: MailboxError) -> Result<Vec<u8>, MailboxError> {
        self.tables
            .get(std::slice::from_ref(at))
            .await?
            .pop()
            .flatten()
            .ok_or(missing)
    }

    /// Write, as long as a key holds what was read.
    async fn replace(
        &self,
        at: At,
        bytes: Vec<u8>,
        writes: Vec<Write>,
    ) -> Result<Vec<u64>, MailboxError> {
        let batch = Batch {
            guards: vec![Guard::Equals(at, bytes)],
            writes,
        };
        let reply = self.tables.commit(vec![batch]).await?.pop();
        match reply {
            Some(Ok(applied)) => Ok(applied.appended),
            Some(Err(_)) | None => Err(MailboxError::Changed),
        }
    }
}
