//! Listing: what waits in an inbox, which timers are armed, who holds a message.

use lope_model::{Epoch, Moment, Timestamp};
use lope_store::tables::{Direction, Range, Row, TableId};
use lope_store::{StoreError, StoreResult};

use super::{Mailbox, MailboxError};
use crate::frame::{Message, addressee};
use crate::key::{self, LeaseKey, MessagePosition, TimerKey, WorkerId};
use crate::limit;
use crate::record::{Lease, LeaseState, Owner};

/// A message in an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    pub worker: WorkerId,
    pub seq: u64,
    /// The frame; it may be one that does not decode.
    pub frame: Vec<u8>,
    pub lease: Option<Leased>,
}

/// An armed timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Armed {
    pub worker: WorkerId,
    pub due: Timestamp,
    pub seq: u64,
    pub frame: Vec<u8>,
}

/// Which timers of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerQuery {
    /// The earliest due time.
    pub from: Timestamp,
    /// Most timers that are found.
    pub limit: usize,
}

/// A lease on a message, its own or that of the stretch it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    pub owner: Owner,
    pub until: Moment,
    pub attempts: u32,
    pub epoch: Epoch,
    /// It failed, and waits for its next attempt.
    pub waiting: bool,
}

impl Mailbox {
    /// Messages of a worker in the order of their numbers, behind `after`.
    pub async fn list(
        &self,
        worker: WorkerId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Queued>, MailboxError> {
        let Some(from) = after.map_or(Some(0), |seq| seq.checked_add(1)) else {
            return Ok(Vec::new());
        };
        let leases = self.leases(worker).await?;
        let rows = self
            .tables
            .range(key::rows(worker, MessagePosition::Inbox(from), None, limit))
            .await?;
        let queued = rows.into_iter().map(|row| {
            let (worker, seq) = key::read_inbox(&row.key)
                .ok_or_else(|| StoreError::corrupt("a strange inbox key"))?;
            let lease = covering(&leases, MessagePosition::Inbox(seq));
            Ok(Queued {
                worker,
                seq,
                frame: row.value,
                lease,
            })
        });
        queued.collect()
    }

    /// Timers of a worker, the earliest first.
    pub async fn timers(&self, worker: WorkerId, limit: usize) -> Result<Vec<Armed>, MailboxError> {
        let from = Timestamp::EPOCH;
        self.query_timers(worker, TimerQuery { from, limit }).await
    }

    /// Timers of a worker from a due time on, the earliest first. Those of others are not read.
    pub async fn query_timers(
        &self,
        worker: WorkerId,
        query: TimerQuery,
    ) -> Result<Vec<Armed>, MailboxError> {
        let mut found = Vec::new();
        let mut from = TimerKey::new(query.from, 0).ok();
        while let Some(start) = from.filter(|_| found.len() < query.limit) {
            let most = query.limit - found.len();
            let (page, next) = self.timer_page(worker, start, most).await?;
            found.extend(page);
            from = next;
        }
        Ok(found)
    }

    /// The timer of a worker with this number, whenever it is due.
    pub async fn timer(&self, worker: WorkerId, seq: u64) -> Result<Option<Armed>, MailboxError> {
        let mut from = TimerKey::new(Timestamp::EPOCH, 0).ok();
        while let Some(start) = from {
            let (page, next) = self.timer_page(worker, start, limit::TIMERS_PAGE).await?;
            if let Some(timer) = page.into_iter().find(|timer| timer.seq == seq) {
                return Ok(Some(timer));
            }
            from = next;
        }
        Ok(None)
    }

    /// A page of a worker's timers, and where the next one begins.
    async fn timer_page(
        &self,
        worker: WorkerId,
        start: TimerKey,
        most: usize,
    ) -> StoreResult<(Vec<Armed>, Option<TimerKey>)> {
        let size = most.min(limit::TIMERS_PAGE);
        let range = key::rows(worker, MessagePosition::Timer(start), None, size);
        let named = worker.number().to_le_bytes();
        let page = self.tables.timers_of(&named, range).await?;
        let last = page.last().filter(|_| page.len() == size);
        let next = last
            .and_then(|row| TimerKey::from_bytes(&row.key))
            .and_then(TimerKey::next);
        let its = page.into_iter().filter_map(|row| of_worker(row, worker));
        Ok((its.collect(), next))
    }

    /// Who holds a message, or since when it waits.
    pub async fn lease(
        &self,
        worker: WorkerId,
        position: MessagePosition,
    ) -> Result<Option<Leased>, MailboxError> {
        Ok(covering(&self.leases(worker).await?, position))
    }

    async fn leases(&self, worker: WorkerId) -> StoreResult<Vec<(LeaseKey, Lease)>> {
        let mut leases = Vec::new();
        let mut range = Range::prefix(TableId::LEASES, &worker.to_bytes(), limit::LEASES_PAGE);
        loop {
            let page = self.tables.range(range.clone()).await?;
            let rows = page.iter().filter_map(|row| {
                Some((LeaseKey::of_row(&row.key)?, Lease::decode(&row.value).ok()?))
            });
            leases.extend(rows);
            match page.last().filter(|_| page.len() == limit::LEASES_PAGE) {
                Some(last) => range.from = [last.key.as_slice(), &[0]].concat(),
                None => return Ok(leases),
            }
        }
    }

    /// The first row of a table from a key on.
    pub(super) async fn first_row(
        &self,
        table: TableId,
        from: Vec<u8>,
    ) -> StoreResult<Option<Row>> {
        let range = Range {
            table,
            from,
            to: None,
            direction: Direction::Forward,
            limit: 1,
        };
        Ok(self.tables.range(range).await?.pop())
    }
}

impl Queued {
    pub fn message(&self) -> Option<Message<'_>> {
        Message::decode(&self.frame).ok()
    }
}

impl Armed {
    pub fn message(&self) -> Option<Message<'_>> {
        Message::decode(&self.frame).ok()
    }
}

fn of_worker(row: Row, worker: WorkerId) -> Option<Armed> {
    let key = TimerKey::from_bytes(&row.key)?;
    let is_its = addressee(&row.value) == Some(worker.number());
    is_its.then(|| Armed {
        worker,
        due: key.due(),
        seq: key.seq,
        frame: row.value,
    })
}

/// A message's own lease goes before that of the stretch around it.
fn covering(leases: &[(LeaseKey, Lease)], position: MessagePosition) -> Option<Leased> {
    let own = leases
        .iter()
        .find(|(key, _)| *key == LeaseKey::Single(position));
    let around = || {
        leases.iter().find(|(key, lease)| match key {
            LeaseKey::Stretch(first) => {
                *first <= position && lease.through.is_some_and(|last| position <= last)
            }
            LeaseKey::Head | LeaseKey::Single(_) => false,
        })
    };
    own.or_else(around).map(|(_, lease)| Leased {
        owner: lease.owner.clone(),
        until: lease.until,
        attempts: lease.attempts,
        epoch: lease.epoch,
        waiting: lease.state == LeaseState::Waiting,
    })
}
