//! What a worker does now and then, beside its messages: forward what others left in the outbox,
//! forget ids whose window has ended, find out how long it may sleep.

use lope_model::{Span, Timestamp};
use lope_store::StoreResult;
use lope_store::tables::{At, Batch, Direction, Guard, Range, Row, TableId, Write};

use super::{BootState, Consumer};
use crate::error::ConsumerError;
use crate::frame::addressee;
use crate::key::{MessagePosition, TimerKey, rows};
use crate::law::idle::{idle_sleep, until};
use crate::limit;
use crate::record::Dedupe;

/// How many timers are looked at to find the next of one worker: few at first.
const NEXT_DUE_PAGES: [usize; 3] = [8, 128, limit::TIMERS_PAGE];

impl Consumer {
    /// Do what is to be done now and then, if it is time. Answers whether anything was forwarded.
    pub async fn keep_up(&mut self) -> Result<bool, ConsumerError> {
        if matches!(self.state, BootState::Stopped(_)) {
            return Err(ConsumerError::Busy);
        }
        if !self.upkeep.begins(self.time.clock.moment()) {
            return Ok(false);
        }
        let forwarded = self.forward_outbox().await?;
        self.forget_old_ids().await?;
        Ok(forwarded > 0)
    }

    /// Look at a page of dedupe rows, from where the last look ended, and remove those whose window
    /// has ended.
    async fn forget_old_ids(&mut self) -> StoreResult<()> {
        let range = Range {
            table: TableId::DEDUPE,
            from: self.upkeep.cursor.clone(),
            to: None,
            direction: Direction::Forward,
            limit: limit::DEDUPE_PAGE,
        };
        let page = self.tables.range(range).await?;
        let last = page.last().filter(|_| page.len() == limit::DEDUPE_PAGE);
        self.upkeep.cursor = last
            .map(|row| [row.key.as_slice(), &[0]].concat())
            .unwrap_or_default();
        let now = self.time.clock.now();
        let batches: Vec<Batch> = page
            .into_iter()
            .filter_map(|row| forgetting(row, now))
            .collect();
        if !batches.is_empty() {
            self.tables.commit(batches).await?;
        }
        Ok(())
    }

    /// How long the worker may sleep when there is nothing to do: until its next timer, the next
    /// message that waits for another attempt, the end of somebody's lease, or the longest idle.
    pub async fn idle_sleep(&self) -> StoreResult<Span> {
        let next_due = self.next_due().await?;
        let sleep = idle_sleep(next_due, self.time.clock.now(), self.config.max_idle);
        let now = self.time.clock.moment();
        Ok(self
            .next_open
            .map_or(sleep, |moment| sleep.min(until(moment, now))))
    }

    /// When the next timer of this worker is due. If many timers of others come before it, a time
    /// at which to look again.
    pub async fn next_due(&self) -> StoreResult<Option<Timestamp>> {
        let worker = self.config.worker;
        let Ok(beginning) = TimerKey::new(Timestamp::EPOCH, 0) else {
            return Ok(None);
        };
        let is_mine = |row: &&Row| addressee(&row.value).is_none_or(|to| to == worker.number());
        for size in NEXT_DUE_PAGES {
            let page = self
                .tables
                .range(rows(worker, MessagePosition::Timer(beginning), None, size))
                .await?;
            let last = page
                .last()
                .filter(|_| size == limit::TIMERS_PAGE && page.len() == size);
            if let Some(row) = page.iter().find(is_mine).or(last) {
                return Ok(TimerKey::from_bytes(&row.key).map(TimerKey::due));
            }
            if page.len() < size {
                break;
            }
        }
        Ok(None)
    }
}

fn forgetting(row: Row, now: Timestamp) -> Option<Batch> {
    let is_old = Dedupe::decode(&row.value).is_ok_and(|record| record.expires <= now);
    is_old.then(|| {
        let at = At::new(TableId::DEDUPE, row.key);
        Batch {
            guards: vec![Guard::Equals(at.clone(), row.value)],
            writes: vec![Write::Delete(at)],
        }
    })
}
