//! The limits of a store as one runner reaches them: it reads rows, lets `decide` say what becomes of them, and writes
//! what was decided if nobody wrote meanwhile; otherwise it decides again.

use foldhash::{HashMap, HashSet};
use lope_model::policy::RateLimit;
use lope_model::{QueueName, RunnerId, Span, Timestamp};
use lope_store::tables::{At, Batch, BatchReply, Guard, TableId, Write, find_or_make_table};
use lope_store::{Store, StoreError, StoreResult};
use tokio::sync::OnceCell;

use crate::blocking;
use crate::codec;
use crate::decide::{GroupPlan, LimitFacts, RateLines};
use crate::key::{LimitKey, TABLE};
use crate::rate_row::RateRow;
use crate::request::{LimitVerdict, LimitWork, rate_key};

/// How often a turn that lost to others is decided again at once.
const ROUNDS: usize = 16;
/// Most keys that are read in one call.
const READ_MAX: usize = 1_000;

/// The limits of a store.
#[derive(Debug)]
pub struct LimitsStore {
    store: Store,
    table: OnceCell<TableId>,
    lines: RateLines,
}

/// What a turn came to.
#[derive(Debug, Default)]
pub struct LimitsReply {
    /// Work that is done, with the verdict of a request.
    pub done: Vec<(LimitWork, Option<LimitVerdict>)>,
    /// Work that is not: others were quicker each time, or the store did not answer. Of a request
    /// among it nobody knows whether it was granted.
    pub undone: Vec<LimitWork>,
    pub error: Option<StoreError>,
}

/// A runner asks for the starts of runs of a queue with a rate.
#[derive(Clone, Copy, Debug)]
pub struct StartsRequest<'a> {
    pub queue: &'a QueueName,
    pub rate: &'a RateLimit,
    pub runner: RunnerId,
    pub now: Timestamp,
    /// It has no use for more.
    pub most: u32,
}

impl LimitsStore {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            table: OnceCell::new(),
            lines: RateLines::default(),
        }
    }

    /// Do all of this, as this runner.
    pub async fn apply(
        &mut self,
        now: Timestamp,
        runner: RunnerId,
        works: Vec<LimitWork>,
    ) -> LimitsReply {
        let mut reply = LimitsReply {
            undone: works,
            ..LimitsReply::default()
        };
        self.use_stored(now, &mut reply);
        for _ in 0..ROUNDS {
            if reply.undone.is_empty() {
                break;
            }
            if let Err(error) = self.round(now, runner, &mut reply).await {
                reply.error = Some(error);
                break;
            }
        }
        reply
    }

    /// Attempts that need a rate alone, of which this runner has starts in store, ask nobody.
    fn use_stored(&mut self, now: Timestamp, reply: &mut LimitsReply) {
        for work in std::mem::take(&mut reply.undone) {
            let granted = match &work {
                LimitWork::Request(request) => request
                    .rate_alone()
                    .and_then(|rate| self.lines.get_mut(&rate_key(rate)))
                    .is_some_and(|line| line.use_stored(now, &request.attempt)),
                LimitWork::End(_) => false,
            };
            if granted {
                let verdict = LimitVerdict::Granted { inherited: false };
                reply.done.push((work, Some(verdict)));
            } else {
                reply.undone.push(work);
            }
        }
    }

    async fn round(
        &mut self,
        now: Timestamp,
        runner: RunnerId,
        reply: &mut LimitsReply,
    ) -> StoreResult<()> {
        let table = self.table().await?;
        let found = self.read(table, &reply.undone).await?;
        let live = self.live(&found).await?;
        let facts = LimitFacts {
            now,
            runner,
            table,
            found: &found,
            live: &live,
            lines: &self.lines,
        };
        let plans = facts.plan(&reply.undone);
        let written = self.write(&plans).await?;
        let mut works: Vec<Option<LimitWork>> = std::mem::take(&mut reply.undone)
            .into_iter()
            .map(Some)
            .collect();
        for (plan, written) in plans.into_iter().zip(written) {
            if written {
                self.done(now, plan, &mut works, reply);
            }
        }
        reply.undone = works.into_iter().flatten().collect();
        Ok(())
    }

    fn done(
        &mut self,
        now: Timestamp,
        plan: GroupPlan,
        works: &mut [Option<LimitWork>],
        reply: &mut LimitsReply,
    ) {
        for (key, draft) in plan.lines {
            self.lines.entry(key).or_default().apply(draft, now);
        }
        let mut verdicts: HashMap<usize, LimitVerdict> = plan.verdicts.into_iter().collect();
        for member in plan.members {
            let work = works[member].take().expect("each work is in one group");
            reply.done.push((work, verdicts.remove(&member)));
        }
    }

    /// Which plans hold: those whose batch was written, and those that write nothing.
    async fn write(&self, plans: &[GroupPlan]) -> StoreResult<Vec<bool>> {
        let mut written = vec![true; plans.len()];
        for durable in [false, true] {
            let places: Vec<usize> = (0..plans.len())
                .filter(|index| plans[*index].durable == durable)
                .filter(|index| !plans[*index].batch.writes.is_empty())
                .collect();
            let batches: Vec<Batch> = places.iter().map(|at| plans[*at].batch.clone()).collect();
            if batches.is_empty() {
                continue;
            }
            // What is held dies with the machine at the latest; only outcomes outlive it.
            let replies = if durable {
                self.store.tables.commit(batches).await?
            } else {
                self.store.tables.commit_unflushed(batches).await?
            };
            for (index, reply) in places.into_iter().zip(replies) {
                written[index] = reply.is_ok();
            }
        }
        Ok(written)
    }

    async fn read(
        &self,
        table: TableId,
        works: &[LimitWork],
    ) -> StoreResult<HashMap<LimitKey, Option<Vec<u8>>>> {
        let keys: HashSet<LimitKey> = works.iter().flat_map(LimitWork::keys).collect();
        let keys: Vec<LimitKey> = keys.into_iter().collect();
        let mut found = HashMap::default();
        for page in keys.chunks(READ_MAX) {
            let places: Vec<At> = page.iter().map(|key| key.at(table)).collect();
            let rows = self.store.tables.get(&places).await?;
            found.extend(page.iter().cloned().zip(rows));
        }
        Ok(found)
    }

    /// Of the runners that rows name, those whose sessions live.
    async fn live(
        &self,
        found: &HashMap<LimitKey, Option<Vec<u8>>>,
    ) -> StoreResult<HashSet<RunnerId>> {
        let named: HashSet<RunnerId> = found
            .iter()
            .filter_map(|(key, row)| Some(blocking::runners(key, row.as_deref()?)))
            .flatten()
            .collect();
        let named: Vec<RunnerId> = named.into_iter().collect();
        if named.is_empty() {
            return Ok(HashSet::default());
        }
        let live = self.store.runs.live(&named).await?;
        Ok(named
            .into_iter()
            .zip(live)
            .filter_map(|(id, live)| live.then_some(id))
            .collect())
    }

    /// How many runs of a queue may begin now; they count from here. If none may: when to ask
    /// again.
    pub async fn take_starts(
        &self,
        request: StartsRequest<'_>,
    ) -> StoreResult<Result<u32, Timestamp>> {
        let StartsRequest {
            queue,
            rate,
            runner,
            now,
            most,
        } = request;
        let mut granted = Err(now.plus(Span::from_millis(1)));
        self.change_rate(queue, |row| {
            let free = row.free(rate, now).min(most);
            if free > 0 {
                row.take(rate, runner, now, free);
            }
            granted = if free > 0 {
                Ok(free)
            } else {
                Err(row.next_free(rate, now))
            };
        })
        .await?;
        Ok(granted)
    }

    /// So many of the starts that were just taken did not happen.
    pub async fn give_back_starts(
        &self,
        queue: &QueueName,
        runner: RunnerId,
        starts: u32,
    ) -> StoreResult<()> {
        self.change_rate(queue, |row| row.give_back(runner, starts))
            .await
    }

    async fn change_rate(
        &self,
        queue: &QueueName,
        mut change: impl FnMut(&mut RateRow),
    ) -> StoreResult<()> {
        let table = self.table().await?;
        let at = LimitKey::QueueRate(queue.as_str().into()).at(table);
        loop {
            let rows = self.store.tables.get(std::slice::from_ref(&at)).await?;
            let before = rows.into_iter().next().flatten();
            let read = before.as_deref().map(codec::decode::<RateRow>).transpose();
            // One that cannot be read begins anew: it says no more than what happened lately.
            let mut row = read
                .unwrap_or_default()
                .map_or_else(RateRow::default, |(row, _)| row);
            let unchanged = row.clone();
            change(&mut row);
            if row == unchanged {
                return Ok(());
            }
            let guard = match before {
                Some(before) => Guard::Equals(at.clone(), before),
                None => Guard::Absent(at.clone()),
            };
            let batch = Batch {
                guards: vec![guard],
                writes: vec![Write::Put(at.clone(), codec::encode(&row))],
            };
            let replies = self.store.tables.commit_unflushed(vec![batch]).await?;
            if replies.iter().all(BatchReply::is_ok) {
                return Ok(());
            }
        }
    }

    async fn table(&self) -> StoreResult<TableId> {
        let found = self
            .table
            .get_or_try_init(|| find_or_make_table(&*self.store.tables, TABLE))
            .await;
        found.copied()
    }
}
