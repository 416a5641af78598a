//! Claiming: read the leases, then the rows, ask the law what to take, and commit that before
//! anything is handled.
//!
//! Leases are read before rows: a message that was handled in between is then missing, not
//! unleased. Whoever else claims in between moves the head on, and this claim is refused and made
//! again.

use lope_model::{Epoch, Timestamp};
use lope_store::tables::{At, Batch, BatchReply, Guard, Range, TableId, Write};
use lope_store::{StoreError, StoreResult};

use super::Consumer;
use super::claimed_batch::ClaimedBatch;
use crate::frame::addressee;
use crate::key::{LeaseKey, MessagePosition, MessageSource, TimerKey, rows};
use crate::law::availability::{Availability, ClaimFacts, Gap, LeaseRow};
use crate::law::claim_plan::{AbandonedStretch, Candidates, ClaimPlan, ClaimPlanner, ReadMessage};
use crate::law::lease::{Claimer, takeover_batch};
use crate::law::order::inbox_share;
use crate::law::weight::CLAIMED_BYTES_MAX;
use crate::limit;
use crate::record::{Lease, LeaseHead};

/// What a claim is to take from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PollSources {
    Inbox,
    Timers,
    Both,
}

/// A claim that waits for its commit.
pub(super) struct Prepared {
    pub(super) batch: Batch,
    pub(super) claimed: ClaimedBatch,
}

/// How much may still be read.
struct ReadBudget {
    wanted: usize,
    bytes: usize,
}

/// How far a search among the timers of all workers has come.
struct Search {
    wanted: usize,
    pages: usize,
    reached: Option<MessagePosition>,
}

/// What the lease table holds of this worker.
struct Leases {
    head: Option<(LeaseHead, Vec<u8>)>,
    rows: Vec<LeaseRow>,
}

impl Consumer {
    /// Claim up to `wanted` messages. What waits to be let go of goes into the same commit.
    pub(super) async fn claim(
        &mut self,
        sources: PollSources,
        wanted: usize,
    ) -> StoreResult<Option<ClaimedBatch>> {
        for _ in 0..limit::CLAIM_TRIES {
            let Some(prepared) = self.prepare(sources, wanted).await? else {
                if self.closing.is_empty() {
                    return Ok(None);
                }
                // What is let go of may be what is there to claim.
                self.close().await?;
                continue;
            };
            let mut batches = self.take_closing();
            batches.push(prepared.batch.clone());
            // A claim is worth nothing after a power failure: its holder is gone with it.
            let reply = self.tables.commit_unflushed(batches).await?.pop();
            if let Some(claimed) = self.claimed(prepared, reply) {
                return Ok(Some(claimed));
            }
        }
        // There is something, but others are always faster.
        self.busy = self.busy.max(1);
        Ok(None)
    }

    /// The batch of a claim whose commit was applied.
    pub(super) fn claimed(
        &mut self,
        prepared: Prepared,
        reply: Option<BatchReply>,
    ) -> Option<ClaimedBatch> {
        reply?.ok()?;
        self.claimed_epochs.push(prepared.claimed.epoch);
        Some(prepared.claimed)
    }

    /// Read what can be claimed and decide what is. None if there is nothing.
    pub(super) async fn prepare(
        &mut self,
        sources: PollSources,
        wanted: usize,
    ) -> StoreResult<Option<Prepared>> {
        let Leases { head, rows } = self.read_leases().await?;
        let epoch = head
            .as_ref()
            .map_or(Epoch(0), |(head, _)| head.epoch)
            .next();
        let since = *self.since.get_or_insert(epoch);
        let claimer = Claimer {
            owner: self.config.owner.clone(),
            now: self.time.clock.moment(),
            term: self.config.lease.max(limit::LEASE_MIN),
            since: Some(since),
        };
        let mut plan = ClaimPlan::default();
        let planner = ClaimPlanner {
            worker: self.config.worker,
            claimer: &claimer,
            epoch,
        };
        (self.busy, self.next_open) = (0, None);
        let mut more = false;
        if sources != PollSources::Timers {
            let share = if sources == PollSources::Both {
                inbox_share(wanted, self.starved)
            } else {
                wanted
            };
            let availability = self.availability(&rows, MessageSource::Inbox, &claimer);
            let candidates = self.find_in_inbox(availability, share).await?;
            planner.plan(candidates, share, &mut plan);
            more |= self.advance_inbox_cursor(&plan, share);
        }
        let left = wanted.saturating_sub(plan.messages.len());
        self.starved = if left > 0 {
            0
        } else {
            self.starved.saturating_add(1)
        };
        if sources != PollSources::Inbox && left > 0 {
            let availability = self.availability(&rows, MessageSource::Timers, &claimer);
            let (candidates, more_timers) = self.find_timers(availability, left).await?;
            more |= more_timers;
            planner.plan(candidates, left, &mut plan);
        }
        if plan.writes.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.write_down(plan, epoch, head, more)))
    }

    fn write_down(
        &self,
        mut plan: ClaimPlan,
        epoch: Epoch,
        head: Option<(LeaseHead, Vec<u8>)>,
        more: bool,
    ) -> Prepared {
        let at = LeaseKey::Head.at(self.config.worker);
        let guard = match head {
            Some((_, bytes)) => Guard::Equals(at.clone(), bytes),
            None => Guard::Absent(at.clone()),
        };
        let mut batch = Batch {
            guards: vec![guard],
            writes: vec![Write::Put(at, LeaseHead { epoch }.encode())],
        };
        batch.guards.append(&mut plan.guards);
        batch.writes.append(&mut plan.writes);
        Prepared {
            batch,
            claimed: ClaimedBatch::of(plan, epoch, more),
        }
    }

    async fn read_leases(&self) -> StoreResult<Leases> {
        let mut leases = Leases {
            head: None,
            rows: Vec::new(),
        };
        let mut range = Range::prefix(
            TableId::LEASES,
            &self.config.worker.to_bytes(),
            limit::LEASES_PAGE,
        );
        loop {
            let page = self.tables.range(range.clone()).await?;
            let full = page.len() == limit::LEASES_PAGE;
            if let Some(last) = page.last().filter(|_| full) {
                range.from = [last.key.as_slice(), &[0]].concat();
            }
            for row in page {
                let key = LeaseKey::of_row(&row.key)
                    .ok_or_else(|| StoreError::corrupt("a lease has a strange key"))?;
                if key == LeaseKey::Head {
                    leases.head = Some((
                        LeaseHead::decode(&row.value).map_err(StoreError::corrupt)?,
                        row.value,
                    ));
                } else {
                    let lease = Lease::decode(&row.value).map_err(StoreError::corrupt)?;
                    leases.rows.push(LeaseRow {
                        key,
                        lease,
                        bytes: row.value,
                    });
                }
            }
            if !full {
                return Ok(leases);
            }
        }
    }

    fn availability(
        &mut self,
        rows: &[LeaseRow],
        source: MessageSource,
        claimer: &Claimer,
    ) -> Availability {
        let claimed_epochs = &self.claimed_epochs;
        let remembers =
            |lease: &Lease| lease.owner == claimer.owner && claimed_epochs.contains(&lease.epoch);
        let is_gone = |owner: &_| {
            self.config
                .is_gone
                .as_ref()
                .is_some_and(|is_gone| is_gone(owner))
        };
        let availability = Availability::of(
            rows,
            source,
            &ClaimFacts {
                claimer,
                remembers: &remembers,
                is_gone: &is_gone,
            },
        );
        self.busy += availability.busy;
        self.next_open = self.next_open.into_iter().chain(availability.next).min();
        availability
    }

    async fn find_in_inbox(
        &mut self,
        availability: Availability,
        wanted: usize,
    ) -> StoreResult<Candidates> {
        let mut candidates = Candidates::default();
        let mut room = ReadBudget {
            wanted,
            bytes: CLAIMED_BYTES_MAX,
        };
        for gap in availability.gaps(self.inbox_cursor.from(MessagePosition::Inbox(0)), None) {
            let found = self.read_unleased(gap, &availability, &mut room).await?;
            candidates.unleased.push(found);
        }
        self.cut_short = room.bytes == 0;
        self.find_leased(availability, wanted, &mut candidates)
            .await?;
        Ok(candidates)
    }

    /// The first messages of a gap, in pages that fit into the memory.
    async fn read_unleased(
        &mut self,
        gap: Gap,
        availability: &Availability,
        room: &mut ReadBudget,
    ) -> StoreResult<Vec<ReadMessage>> {
        let mut all = Vec::new();
        let mut from = Some(gap.from);
        while let Some(start) = from.filter(|_| room.wanted > 0 && room.bytes > 0) {
            let size = self.weight.page(room.wanted + availability.leased.len());
            let page = self
                .tables
                .range(rows(self.config.worker, start, gap.to, size))
                .await?;
            let bytes = page.iter().map(|row| row.value.len()).sum();
            self.weight.saw(page.len(), bytes);
            room.bytes = room.bytes.saturating_sub(bytes);
            let last = page.last().filter(|_| page.len() == size);
            from = last
                .and_then(|row| MessagePosition::of_row(MessageSource::Inbox, &row.key))
                .and_then(MessagePosition::next);
            let found = page
                .into_iter()
                .filter_map(|row| found(MessageSource::Inbox, row.key, row.value));
            let before = all.len();
            all.extend(
                found
                    .filter(|found| !availability.leased.contains(&found.position))
                    .take(room.wanted),
            );
            room.wanted -= all.len() - before;
        }
        Ok(all)
    }

    /// Messages with a lease that may be taken: those that failed before, and those whose holder is
    /// gone.
    async fn find_leased(
        &self,
        availability: Availability,
        wanted: usize,
        candidates: &mut Candidates,
    ) -> StoreResult<()> {
        let Availability {
            singles,
            abandoned,
            leased,
            ..
        } = availability;
        let singles: Vec<LeaseRow> = singles.into_iter().take(wanted).collect();
        let keys: Vec<At> = singles.iter().filter_map(|row| self.row_of(row)).collect();
        let frames = if keys.is_empty() {
            Vec::new()
        } else {
            self.tables.get(&keys).await?
        };
        for (row, frame) in singles.into_iter().zip(frames) {
            let LeaseKey::Single(position) = row.key else {
                continue;
            };
            candidates
                .singles
                .push((row, frame.map(|frame| ReadMessage { position, frame })));
        }
        for row in abandoned.into_iter().take(wanted) {
            let LeaseKey::Stretch(first) = row.key else {
                continue;
            };
            let batch = takeover_batch(self.config.batch(), row.lease.lost + 1);
            let end = row.lease.through.and_then(MessagePosition::next);
            let mut found = self.find_stretch(first, end, batch + 1, &leased).await?;
            let rest = found
                .split_off(batch.min(found.len()))
                .first()
                .map(|found| found.position);
            candidates
                .abandoned
                .push(AbandonedStretch { row, found, rest });
        }
        Ok(())
    }

    fn row_of(&self, row: &LeaseRow) -> Option<At> {
        match row.key {
            LeaseKey::Single(position) => Some(position.row(self.config.worker)),
            LeaseKey::Head | LeaseKey::Stretch(_) => None,
        }
    }

    /// The first messages of a stretch that have no lease of their own.
    async fn find_stretch(
        &self,
        first: MessagePosition,
        end: Option<MessagePosition>,
        wanted: usize,
        leased: &std::collections::BTreeSet<MessagePosition>,
    ) -> StoreResult<Vec<ReadMessage>> {
        let mut all = Vec::new();
        let mut from = Some(first);
        while let Some(start) = from.filter(|_| all.len() < wanted) {
            let page = self
                .tables
                .range(rows(self.config.worker, start, end, limit::TIMERS_PAGE))
                .await?;
            let last = page.last().filter(|_| page.len() == limit::TIMERS_PAGE);
            from = last
                .and_then(|row| MessagePosition::of_row(start.source(), &row.key))
                .and_then(MessagePosition::next);
            let rows = page
                .into_iter()
                .filter_map(|row| found(start.source(), row.key, row.value));
            all.extend(
                rows.filter(|found| self.is_mine(found) && !leased.contains(&found.position)),
            );
        }
        all.truncate(wanted);
        Ok(all)
    }

    /// Timers stand among those of other workers. One that is not a message belongs to whoever
    /// meets it.
    fn is_mine(&self, found: &ReadMessage) -> bool {
        match found.position {
            MessagePosition::Inbox(_) => true,
            MessagePosition::Timer(_) => {
                addressee(&found.frame).is_none_or(|to| to == self.config.worker.number())
            }
        }
    }

    async fn find_timers(
        &mut self,
        availability: Availability,
        wanted: usize,
    ) -> StoreResult<(Candidates, bool)> {
        let now = self.time.clock.now().millis().max(0);
        let due = |millis: i64| {
            TimerKey::new(Timestamp::from_millis(millis), 0)
                .ok()
                .map(MessagePosition::Timer)
        };
        let (Some(beginning), end) = (due(0), due(now.saturating_add(1))) else {
            return Ok(Default::default());
        };
        let mut candidates = Candidates::default();
        let mut search = Search {
            wanted,
            pages: limit::TIMER_PAGES_MAX,
            reached: None,
        };
        for gap in availability.gaps(self.timer_cursor.from(beginning), end) {
            let found = self.search_timers(gap, &availability, &mut search).await?;
            candidates.unleased.push(found);
        }
        let more = search.wanted == 0 || search.pages == 0;
        match search
            .reached
            .filter(|_| search.pages == 0 && search.wanted > 0)
        {
            // Timers of others stand in the way: go on behind them next time.
            Some(position) => self.timer_cursor.advance(position),
            None => self.timer_cursor.reset(),
        }
        self.find_leased(availability, wanted, &mut candidates)
            .await?;
        Ok((candidates, more))
    }

    /// This worker's timers in a gap, in pages that grow while they hold mostly others'.
    async fn search_timers(
        &self,
        gap: Gap,
        availability: &Availability,
        search: &mut Search,
    ) -> StoreResult<Vec<ReadMessage>> {
        let mut mine = Vec::new();
        let mut from = Some(gap.from);
        let mut size = search.wanted;
        while let Some(start) = from.filter(|_| search.wanted > 0 && search.pages > 0) {
            size = size.clamp(1, limit::TIMERS_PAGE);
            let page = self
                .tables
                .range(rows(self.config.worker, start, gap.to, size))
                .await?;
            let last = page.last().filter(|_| page.len() == size);
            let last =
                last.and_then(|row| MessagePosition::of_row(MessageSource::Timers, &row.key));
            from = last.and_then(MessagePosition::next);
            search.reached = last.or(search.reached);
            search.pages -= 1;
            let read = page.len();
            let rows = page
                .into_iter()
                .filter_map(|row| found(MessageSource::Timers, row.key, row.value));
            let rows = rows.filter(|found| {
                self.is_mine(found) && !availability.leased.contains(&found.position)
            });
            let before = mine.len();
            mine.extend(rows.take(search.wanted));
            let found = mine.len() - before;
            search.wanted -= found;
            size = if found * 2 >= read {
                search.wanted
            } else {
                size * 4
            };
        }
        Ok(mine)
    }

    /// Remember where the inbox was read up to. Answers whether there is more.
    fn advance_inbox_cursor(&mut self, plan: &ClaimPlan, wanted: usize) -> bool {
        let full = plan.messages.len() >= wanted || self.cut_short;
        match plan.messages.iter().map(|message| message.position).max() {
            Some(last) if full => self.inbox_cursor.advance(last),
            _ => self.inbox_cursor.reset(),
        }
        full
    }
}

fn found(source: MessageSource, key: Vec<u8>, frame: Vec<u8>) -> Option<ReadMessage> {
    MessagePosition::of_row(source, &key).map(|position| ReadMessage { position, frame })
}
