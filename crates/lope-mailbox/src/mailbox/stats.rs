//! Counting: how much is where. Counting takes time in proportion to what is counted, so it stops
//! at a limit unless the exact number is asked for; the answer then says on which side of it the
//! number lies.

use lope_store::StoreResult;
use lope_store::tables::{Direction, Range, Row, TableId, after_prefix};

use super::{Mailbox, MailboxError};
use crate::key::{self, WorkerId};
use crate::limit;

/// The mailboxes of a store in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub inbox: Depth,
    pub outbox: Depth,
    pub timers: Depth,
    pub dedupe: Depth,
    pub dead_letters: Depth,
    /// Workers with messages or dead letters, up to the limit that was asked for.
    pub workers: Vec<WorkerStats>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerStats {
    pub worker: WorkerId,
    pub inbox: Depth,
    pub dead_letters: Depth,
}

/// How many rows there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Counted.
    Exactly(u64),
    /// So many were counted, and there are more.
    MoreThan(u64),
    /// Too many to count; there are at most so many by the first and the last number.
    AtMost(u64),
}

/// How far to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Up to [`limit::COUNTED_MAX`] rows of a table, and [`limit::COUNTED_EACH`] of each worker
    /// where there are more.
    Quick,
    /// Every row.
    Exact,
}

impl Depth {
    /// The number, whatever it says about the rows.
    pub const fn number(self) -> u64 {
        match self {
            Self::Exactly(rows) | Self::MoreThan(rows) | Self::AtMost(rows) => rows,
        }
    }
}

impl Default for Depth {
    fn default() -> Self {
        Self::Exactly(0)
    }
}

impl Mailbox {
    /// Count, and look at up to `limit` workers.
    pub async fn stats(&self, limit: usize, counting: Counting) -> Result<Stats, MailboxError> {
        let most = match counting {
            Counting::Quick => limit::COUNTED_MAX,
            Counting::Exact => usize::MAX,
        };
        let whole = async |table| self.counted(Range::whole(table), most).await;
        let mut stats = Stats {
            inbox: whole(TableId::INBOX).await?,
            outbox: whole(TableId::OUTBOX).await?,
            timers: whole(TableId::TIMERS).await?,
            dedupe: whole(TableId::DEDUPE).await?,
            dead_letters: whole(TableId::DEAD_LETTER).await?,
            workers: Vec::new(),
        };
        stats.workers = self
            .workers(limit, most_each(stats.inbox), most_each(stats.dead_letters))
            .await?;
        Ok(stats)
    }

    /// Count up to `most` rows of a range.
    async fn counted(&self, range: Range, most: usize) -> StoreResult<Depth> {
        let range = Range {
            limit: most.saturating_add(1),
            ..range
        };
        let rows = self.tables.count(range).await?;
        Ok(if rows > most as u64 {
            Depth::MoreThan(most as u64)
        } else {
            Depth::Exactly(rows)
        })
    }

    /// Workers with messages or dead letters, in order. So many of each are counted.
    async fn workers(
        &self,
        limit: usize,
        messages: usize,
        letters: usize,
    ) -> StoreResult<Vec<WorkerStats>> {
        let mut workers = Vec::new();
        let mut next = self.next_worker(Vec::new()).await?;
        while let Some(worker) = next.filter(|_| workers.len() < limit) {
            let inbox = self.depth(TableId::INBOX, worker, messages).await?;
            let dead_letters = self.depth(TableId::DEAD_LETTER, worker, letters).await?;
            workers.push(WorkerStats {
                worker,
                inbox,
                dead_letters,
            });
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
        let worker = |row: Row| key::read_inbox(&row.key).map(|(worker, _)| worker);
        Ok(queued
            .and_then(worker)
            .into_iter()
            .chain(dead.and_then(worker))
            .min())
    }

    /// What a worker has in a table. Numbers are given one after the other, so the first and the
    /// last bound what is too much to count, and mostly say how much it is.
    async fn depth(&self, table: TableId, worker: WorkerId, most: usize) -> StoreResult<Depth> {
        let range = Range::prefix(table, &worker.to_bytes(), 1);
        match self.counted(range.clone(), most).await? {
            Depth::MoreThan(_) => {}
            depth @ (Depth::Exactly(_) | Depth::AtMost(_)) => return Ok(depth),
        }
        let first = self.end_of(&range, Direction::Forward).await?;
        let last = self.end_of(&range, Direction::Backward).await?;
        Ok(Depth::AtMost(last.saturating_sub(first).saturating_add(1)))
    }

    /// The first or the last number of a worker's range.
    async fn end_of(&self, range: &Range, direction: Direction) -> StoreResult<u64> {
        let row = self
            .tables
            .range(Range {
                direction,
                ..range.clone()
            })
            .await?
            .pop();
        Ok(row
            .and_then(|row| key::read_inbox(&row.key))
            .map_or(0, |(_, seq)| seq))
    }
}

/// How many rows of each worker are counted. Where the whole was counted, its parts are not many.
const fn most_each(whole: Depth) -> usize {
    match whole {
        Depth::Exactly(_) => usize::MAX,
        Depth::MoreThan(_) | Depth::AtMost(_) => limit::COUNTED_EACH,
    }
}
