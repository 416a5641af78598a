//! `claim`: due runs go to one runner. In: what it can serve; out: the runs it has now, and when to
//! come again.

use std::collections::BTreeSet;
use std::time::Instant;

use lope_model::{Epoch, Priority, QueueName, Realm, RunId, RunnerId, Span, Timestamp, limit};
use lope_store::StoreError;
use lope_store::runs::{Claim, Claimed, ClaimedRun, SessionLost, SessionResult};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::claim_cursor::{ClaimCursors, LEVELS, ScanResult, ScanStart};
use crate::connection::{DbConnection, Pipeline};
use crate::failure::{PostgresFault, Worked};
use crate::inner::PostgresInner;
use crate::record::{count, priority, queue_name, realm, version};
use crate::statement::{Params, Statement};

pub(crate) static CLAIM: Statement = Statement {
    name: "claim",
    text: include_str!("claim.sql"),
    types: "uuid int int int texts texts shorts ints int",
};

pub(crate) static CLAIM_MANY: Statement = Statement {
    name: "claim_many",
    text: include_str!("claim_many.sql"),
    types: "uuid int int int texts texts shorts ints int",
};

static CLAIM_LOCK: Statement = Statement {
    name: "claim_lock",
    text: include_str!("claim_lock.sql"),
    types: "text",
};

pub(crate) static CLAIM_BOUNDED: Statement = Statement {
    name: "claim_bounded",
    text: include_str!("claim_bounded.sql"),
    types: "uuid int int int texts texts shorts ints int int",
};

pub(crate) static CLAIM_NAMED: Statement = Statement {
    name: "claim_named",
    text: include_str!("claim_named.sql"),
    types: "uuid int uuids int int",
};

/// Due runs without their records, which a damaged page of those does not hide.
static CLAIM_DUE: Statement = Statement {
    name: "claim_due",
    text: "select run_id from {schema}.queue
        where owner is null and parked is null and queue = any($1) and realm = any($2) and law <= $3 and due <= {now}
        order by priority desc, due, run_id limit $4",
    types: "texts texts int int",
};

static PARK_UNREADABLE: Statement = Statement {
    name: "claim_park_unreadable",
    text: "update {schema}.queue set parked = $2 where run_id = $1 and owner is null and parked is null",
    types: "uuid text",
};

static SET_ASIDE: Statement = Statement {
    name: "claim_set_aside",
    text: "update {schema}.queue set owner = null, parked = $3 where run_id = $1 and owner = $2",
    types: "uuid uuid text",
};

/// The lanes of a claim, in the order in which they are served.
#[derive(Default)]
struct ClaimLanes<'a> {
    queue: Vec<&'a str>,
    realm: Vec<&'a str>,
    priority: Vec<i16>,
    cursor: Vec<i64>,
}

/// What the server said.
struct ClaimAnswer {
    claimed: Claimed,
    damaged: Vec<DamagedRun>,
    /// How many due runs were found, taken or not.
    found: usize,
}

/// A run that was claimed, and whose row cannot be read. The others do not notice.
pub(crate) struct DamagedRun {
    run: RunId,
    why: StoreError,
}

impl PostgresInner {
    pub(crate) async fn claim(&self, claim: &Claim) -> Worked<SessionResult<Claimed>> {
        match self.claim_readable(claim).await {
            Err(fault) if fault.is_damage() => self.sift(claim, fault).await,
            claimed => claimed,
        }
    }

    /// A claim met a page that cannot be read. Each run that it may have looked at is looked at
    /// alone: those whose records are on such a page are set aside, and the next claim, at once,
    /// does not meet them.
    async fn sift(&self, claim: &Claim, damage: PostgresFault) -> Worked<SessionResult<Claimed>> {
        let due = self.due_alone(claim).await?;
        let unreadable = self.on_damaged_pages(&due).await?;
        if unreadable.is_empty() {
            return Err(damage);
        }
        for (run, why) in unreadable {
            let reason = lope_store::runs::damaged(&why.to_string());
            tracing::error!(%run, %reason, "a damaged run is set aside");
            let given: Params<'_> = vec![&run, &reason];
            self.control.write_surely(&PARK_UNREADABLE, given).await?;
        }
        let now = self.reading().await?.now;
        Ok(Ok(Claimed {
            now,
            runs: Vec::new(),
            next_due: Some(now),
        }))
    }

    /// The runs that a claim may look at, by the queue alone.
    async fn due_alone(&self, claim: &Claim) -> Worked<Vec<Uuid>> {
        if !claim.only.is_empty() {
            return Ok(claim.only.iter().map(|run| run.uuid()).collect());
        }
        let queues: Vec<&str> = claim.queues.iter().map(QueueName::as_str).collect();
        let realms: Vec<&str> = claim.realms.iter().map(Realm::as_str).collect();
        let law = i64::from(claim.law);
        let most = (limit::CLAIM_MAX + LEVELS.count()) as i64;
        let given: Params<'_> = vec![&queues, &realms, &law, &most];
        let rows = self.control.read(&CLAIM_DUE, given).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn claim_readable(&self, claim: &Claim) -> Worked<SessionResult<Claimed>> {
        if !claim.only.is_empty() {
            return self.claim_named(claim).await;
        }
        let start = self.cursors().start();
        let held = self.claim_from(claim, start).await?;
        let Ok(answer) = held else {
            return Ok(Err(SessionLost));
        };
        if start == ScanStart::Beginning || claim.most.is_some() || answer.found >= runs_max(claim)
        {
            return Ok(Ok(answer.claimed));
        }
        // Something older may have been overlooked: come again when it is time to look from the
        // beginning.
        let mut claimed = answer.claimed;
        let scan_at = claimed.now.plus(Span::from(self.cursors().wait()));
        claimed.next_due = Some(claimed.next_due.map_or(scan_at, |due| due.min(scan_at)));
        Ok(Ok(claimed))
    }

    async fn claim_named(&self, claim: &Claim) -> Worked<SessionResult<Claimed>> {
        let runner = claim.runner.uuid();
        let law = i64::from(claim.law);
        let most = runs_max(claim) as i64;
        let named: Vec<Uuid> = claim.only.iter().map(|run| run.uuid()).collect();
        let latest = self.clock.latest();
        let db = self.control.get().await?;
        let rows = db
            .write(&CLAIM_NAMED, vec![&runner, &law, &named, &most, &latest])
            .await?;
        drop(db);
        let Some(answer) = read(&rows)? else {
            return Ok(Err(SessionLost));
        };
        self.set_aside(claim.runner, &answer.damaged).await?;
        Ok(Ok(answer.claimed))
    }

    /// Damaged runs leave the queue, each with the reason, for a person to look at.
    pub(crate) async fn set_aside(&self, runner: RunnerId, damaged: &[DamagedRun]) -> Worked<()> {
        for DamagedRun { run, why } in damaged {
            let reason = lope_store::runs::damaged(&why.to_string());
            tracing::error!(%run, %reason, "a damaged run is set aside");
            let run = run.uuid();
            let runner = runner.uuid();
            self.control
                .write_surely(&SET_ASIDE, vec![&run, &runner, &reason])
                .await?;
        }
        Ok(())
    }

    async fn claim_from(
        &self,
        claim: &Claim,
        start: ScanStart,
    ) -> Worked<SessionResult<ClaimAnswer>> {
        let (queues, realms) = (distinct(&claim.queues), distinct(&claim.realms));
        let lanes = ClaimLanes::of(&queues, &realms, start, &self.cursors());
        let limit = runs_max(claim);
        let law = i64::from(claim.law);
        let most = limit as i64;
        let weight = i64::try_from(claim.weight).unwrap_or(i64::MAX);
        let runner = claim.runner.uuid();
        let bound = claim.most.map(i64::from);
        let mut params = vec![&runner as &(dyn ToSql + Sync), &law, &most, &weight];
        params.extend(lanes.params());
        params.extend(bound.iter().map(|bound| bound as &(dyn ToSql + Sync)));
        let latest = self.clock.latest();
        params.push(&latest);
        let db = self.control.get().await?;
        let began = Instant::now();
        let rows = in_one_round_trip(&db, &queues, &realms, params, bound.is_some()).await?;
        let cost = began.elapsed();
        drop(db);
        let Some(answer) = read(&rows)? else {
            return Ok(Err(SessionLost));
        };
        self.set_aside(claim.runner, &answer.damaged).await?;
        let mut cursors = self.cursors();
        if start == ScanStart::Beginning {
            cursors.measured(cost);
        }
        // Behind a bound nobody knows whether there was more.
        let read = if bound.is_some() { 0 } else { limit };
        cursors.raise(&queues, &realms, answer.read(read));
        Ok(Ok(answer))
    }
}

/// The claim and all that belongs to it, without waiting for an answer in between: whoever stands
/// still after sending leaves nothing locked. Where a queue is bounded, nobody else claims from it
/// between the count of what is owned and the end of the transaction.
async fn in_one_round_trip(
    db: &DbConnection,
    queues: &[QueueName],
    realms: &[Realm],
    params: Params<'_>,
    is_bounded: bool,
) -> Worked<Vec<Row>> {
    let statement = if is_bounded {
        &CLAIM_BOUNDED
    } else if queues.len() * realms.len() <= 1 {
        &CLAIM
    } else {
        &CLAIM_MANY
    };
    let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
    let ready = db.ready(statement).await?;
    let lock = db.ready(&CLAIM_LOCK).await?;
    let mut pipeline = Pipeline::begin(db);
    if is_bounded {
        names
            .iter()
            .for_each(|name| pipeline.query(lock.clone(), vec![name]));
    }
    pipeline.query(ready, params);
    pipeline.commit();
    let answers = pipeline.run().await?;
    Ok(answers.into_iter().rev().nth(1).unwrap_or_default())
}

fn runs_max(claim: &Claim) -> usize {
    claim.limit.min(limit::CLAIM_MAX)
}

fn distinct<T: Clone + Ord>(names: &[T]) -> Vec<T> {
    names
        .iter()
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

impl<'a> ClaimLanes<'a> {
    fn params(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.queue, &self.realm, &self.priority, &self.cursor]
    }

    fn of(
        queues: &'a [QueueName],
        realms: &'a [Realm],
        start: ScanStart,
        cursors: &ClaimCursors,
    ) -> Self {
        let mut lanes = Self::default();
        for level in LEVELS.rev() {
            for queue in queues {
                for realm in realms {
                    lanes.queue.push(queue.as_str());
                    lanes.realm.push(realm.as_str());
                    lanes.priority.push(level);
                    lanes.cursor.push(match start {
                        ScanStart::Beginning => i64::MIN,
                        ScanStart::Floor => cursors.of(queue, realm, level),
                    });
                }
            }
        }
        lanes
    }
}

impl ClaimAnswer {
    fn read(&self, most: usize) -> ScanResult {
        let last = self
            .claimed
            .runs
            .last()
            .map(|run| (i16::from(run.priority.level()), run.due));
        let is_whole = self.claimed.runs.len() + self.damaged.len() == self.found;
        ScanResult {
            now: self.claimed.now,
            last,
            all: is_whole && self.found < most,
        }
    }
}

/// Nothing: the session is not held.
fn read(rows: &[Row]) -> Worked<Option<ClaimAnswer>> {
    let first = rows
        .first()
        .ok_or_else(|| StoreError::corrupt("a claim was not answered"))?;
    if !first.get::<_, bool>(1) {
        return Ok(None);
    }
    let now = Timestamp::from_millis(first.get(0));
    let found = first.get::<_, i64>(2) as usize;
    let next: Option<i64> = first.get(3);
    let (mut runs, mut damaged) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let Some(run) = row.get::<_, Option<Uuid>>(4).map(RunId::from_uuid) else {
            continue;
        };
        match claimed_run(row, 4, run) {
            Ok(claimed) => runs.push(claimed),
            Err(run) => damaged.push(run),
        }
    }
    // What was found and not taken, because of its weight or because others were faster, is due
    // now.
    let next_due = if runs.len() + damaged.len() < found {
        Some(now)
    } else {
        next.map(Timestamp::from_millis)
    };
    Ok(Some(ClaimAnswer {
        claimed: Claimed {
            now,
            runs,
            next_due,
        },
        damaged,
        found,
    }))
}

/// A run that a runner owns, from twelve columns of which the first is its id.
pub(crate) fn claimed_run(row: &Row, at: usize, run: RunId) -> Result<ClaimedRun, DamagedRun> {
    read_claimed(row, at, run).map_err(|fault| DamagedRun {
        run,
        why: fault.error,
    })
}

fn read_claimed(row: &Row, at: usize, run: RunId) -> Worked<ClaimedRun> {
    // Every change of owner counts it up, from nothing.
    let epoch: u64 = count(row, at + 1, "epoch")?;
    if epoch == 0 {
        return Err(StoreError::corrupt("its epoch cannot be read").into());
    }
    let found: Option<&[u8]> = row.get(at + 2);
    count::<u64>(row, at + 10, "head")?;
    count::<u64>(row, at + 11, "taken")?;
    Ok(ClaimedRun {
        run,
        epoch: Epoch(epoch),
        version: version(found.ok_or_else(|| StoreError::corrupt("it has no record"))?)?,
        queue: queue_name(row.get(at + 3))?,
        priority: priority(row.get(at + 4))?,
        realm: realm(row.get(at + 5))?,
        law: count(row, at + 6, "law")?,
        weight: count(row, at + 7, "weight")?,
        mail: count(row, at + 8, "mail")?,
        due: Timestamp::from_millis(row.get(at + 9)),
    })
}

const _: () = assert!(
    Priority::HIGHEST.level() == 9,
    "the lanes of a claim are the levels of priority"
);
