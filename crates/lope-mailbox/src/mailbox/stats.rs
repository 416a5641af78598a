//! Counting: how much is where. Whole tables are counted by the store; an inbox by its first and last number when it is long.

use lope_store::tables::{Direction, Range, TableId, after_prefix};
use lope_store::{StoreResult, Tables};

use super::{Mailbox, MailboxError};
use crate::key::{self, WorkerId};

/// An inbox with at most this many messages is counted row by row.
const COUNTED_MAX: usize = 1_000;

/// The mailboxes of a store in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub inbox: u64,
    pub outbox: u64,
    pub timers: u64,
    pub dedupe: u64,
    pub dead_letters: u64,
    /// Workers with messages or dead letters, up to the limit that was asked for.
    pub workers: Vec<WorkerStats>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerStats {
    pub worker: WorkerId,
    pub inbox: Depth,
    pub dead_letters: Depth,
}

/// How many rows there are under one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    pub rows: u64,
    /// Not counted, but taken from the first and the last number: there may be fewer.
    pub at_most: bool,
}

impl Mailbox {
    /// Count, and look at up to `limit` workers.
    pub async fn stats(&self, limit: usize) -> Result<Stats, MailboxError> {
        let tables: &dyn Tables = &*self.tables;
        Ok(Stats {
            inbox: tables.count(TableId::INBOX).await?,
            outbox: tables.count(TableId::OUTBOX).await?,
            timers: tables.count(TableId::TIMERS).await?,
            dedupe: tables.count(TableId::DEDUPE).await?,
            dead_letters: tables.count(TableId::DEAD_LETTER).await?,
            workers: self.workers(limit).await?,
        })
    }

    /// Workers with messages or dead letters, in order.
    async fn workers(&self, limit: usize) -> StoreResult<Vec<WorkerStats>> {
        let mut workers = Vec::new();
        let mut next = self.next_worker(Vec::new()).await?;
        while let Some(worker) = next.filter(|_| workers.len() < limit) {
            let inbox = self.depth(TableId::INBOX, worker).await?;
            let dead_letters = self.depth(TableId::DEAD_LETTER, worker).await?;
            workers.push(WorkerStats { worker, inbox, dead_letters });
            next = match after_prefix(&worker.to_bytes()) {
                Some(from) => self.next_worker(from).await?,
                None => None,
            };
        }
        Ok(workers)
    }

    async fn next_worker(&self, from: Vec<u8>) -> StoreResult<Option<WorkerId>> {
        let queued = self.first_row(TableId::INBOX, from.clone()).await?;
        let dead = self.first_row(TableId::DEAD_LETTER, from).await?;
        let worker = |row: lope_store::tables::Row| key::read_inbox(&row.key).map(|(worker, _)| worker);
        Ok(queued.and_then(worker).into_iter().chain(dead.and_then(worker)).min())
    }

    async fn depth(&self, table: TableId, worker: WorkerId) -> StoreResult<Depth> {
        let range = Range::prefix(table, &worker.to_bytes(), COUNTED_MAX);
        let rows = self.tables.range(range.clone()).await?;
        if rows.len() < COUNTED_MAX {
            return Ok(Depth { rows: rows.len() as u64, at_most: false });
        }
        let last = Range { direction: Direction::Backward, limit: 1, ..range };
        let last = self.tables.range(last).await?;
        let seq = |row: Option<&lope_store::tables::Row>| {
            row.and_then(|row| key::read_inbox(&row.key)).map_or(0, |(_, seq)| seq)
        };
        let span = seq(last.first()).saturating_sub(seq(rows.first())).saturating_add(1);
        Ok(Depth { rows: span, at_most: true })
    }
}
