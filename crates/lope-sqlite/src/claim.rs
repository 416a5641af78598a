//! `claim`: due runs without an owner, highest priority first, then earliest due, as one walk over
//! the claim index.
//!
//! The index is walked level by level: for each queue and realm the highest priority that has any
//! run is one seek, its due runs are one range. Runs of other realms, of owners, parked or due
//! later are never touched.

use std::collections::BTreeSet;

use lope_model::{Priority, QueueName, Realm, RunId, RunnerId, Timestamp, limit};
use lope_store::StoreError;
use lope_store::runs::{Claim, Claimed, ClaimedRun, SessionLost, SessionResult};
use rusqlite::{OptionalExtension, Row, params};

use crate::damaged_run::{self, DamagedRun};
use crate::failure::{self, Worked};
use crate::session;
use crate::tx::Tx;

pub(crate) const NEXT_LEVEL: &str = "SELECT max(priority) FROM queue INDEXED BY queue_claim
     WHERE owner IS NULL AND parked IS NULL AND queue = ?1 AND realm = ?2 AND priority < ?3";
pub(crate) const DUE: &str =
    "SELECT q.run_id, q.epoch, r.version, q.queue, q.priority, q.realm, q.law, q.weight, q.mail, q.due, q.head, q.taken
     FROM queue AS q INDEXED BY queue_claim LEFT JOIN runs AS r ON r.run_id = q.run_id
     WHERE q.owner IS NULL AND q.parked IS NULL AND q.queue = ?1 AND q.realm = ?2 AND q.priority = ?3 AND q.due <= ?4
       AND q.law <= ?5
     ORDER BY q.due, q.run_id LIMIT ?6";
pub(crate) const NEXT_DUE: &str = "SELECT due FROM queue INDEXED BY queue_claim
     WHERE owner IS NULL AND parked IS NULL AND queue = ?1 AND realm = ?2 AND priority = ?3 AND due > ?4 AND law <= ?5
     ORDER BY due LIMIT 1";
pub(crate) const OWNED: &str =
    "SELECT count(*) FROM queue INDEXED BY queue_owner WHERE owner IS NOT NULL AND queue = ?1";
const NAMED: &str =
    "SELECT q.run_id, q.epoch, r.version, q.queue, q.priority, q.realm, q.law, q.weight, q.mail, q.due, q.head, q.taken
     FROM queue AS q LEFT JOIN runs AS r ON r.run_id = q.run_id
     WHERE q.run_id = ?1 AND q.owner IS NULL AND q.parked IS NULL AND q.law <= ?2";
/// Due runs without their records, which a damaged page of those does not hide.
const DUE_ALONE: &str = "SELECT run_id FROM queue INDEXED BY queue_claim
     WHERE owner IS NULL AND parked IS NULL AND queue = ?1 AND realm = ?2 AND due <= ?3 AND law <= ?4
     ORDER BY priority DESC, due, run_id LIMIT ?5";
const TAKE: &str =
    "UPDATE queue SET owner = ?2, epoch = epoch + 1, started_at = coalesce(started_at, ?3)
     WHERE run_id = ?1";

/// One queue and realm that the claim may take from.
#[derive(Clone, Copy)]
struct QueueLane<'a> {
    queue: &'a QueueName,
    realm: &'a Realm,
}

/// What has been picked, and how much more may be.
struct ClaimBatch<'a> {
    claim: &'a Claim,
    limit: usize,
    weight: u64,
    runs: Vec<ClaimedRun>,
    damaged: Vec<DamagedRun>,
    next_due: Option<Timestamp>,
}

/// May the walk go on?
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClaimScan {
    On,
    Full,
}

pub(crate) fn claim(tx: &Tx<'_>, claim: &Claim) -> Worked<SessionResult<Claimed>> {
    if !session::is_held(tx, claim.runner)? {
        return Ok(Err(SessionLost));
    }
    let batch = if claim.only.is_empty() {
        pick(tx, claim)?
    } else {
        pick_named(tx, claim)?
    };
    take(tx, claim.runner, batch.runs.iter().map(|run| run.run))?;
    damaged_run::set_aside(tx, &batch.damaged)?;
    Ok(Ok(Claimed {
        now: tx.now,
        runs: batch.runs,
        next_due: batch.next_due,
    }))
}

fn pick<'a>(tx: &Tx<'_>, claim: &'a Claim) -> Worked<ClaimBatch<'a>> {
    let lanes = lanes(claim);
    let limit = claim.limit.min(limit::CLAIM_MAX).min(room(tx, claim)?);
    let mut batch = ClaimBatch::new(claim, limit);
    let mut below = i64::from(Priority::HIGHEST.level()) + 1;
    while let Some((level, there)) = next_level(tx, &lanes, below)? {
        if batch.fill(tx, level, &there)? == ClaimScan::Full {
            batch.next_due = None;
            break;
        }
        below = level;
    }
    Ok(batch)
}

/// How many more runs of the claim's queues may have an owner. Whoever claims has the file to
/// itself, so nobody takes that room.
fn room(tx: &Tx<'_>, claim: &Claim) -> Worked<usize> {
    let Some(most) = claim.most else {
        return Ok(usize::MAX);
    };
    let mut count = tx.statement(OWNED)?;
    let mut owned = 0_usize;
    for queue in claim.queues.iter().collect::<BTreeSet<_>>() {
        owned += count.query_row([queue.as_str()], |row| row.get::<_, i64>(0))? as usize;
    }
    Ok((most as usize).saturating_sub(owned))
}

/// Of the runs that the claim names, those that are free and due.
fn pick_named<'a>(tx: &Tx<'_>, claim: &'a Claim) -> Worked<ClaimBatch<'a>> {
    let limit = claim.limit.min(limit::CLAIM_MAX);
    let mut batch = ClaimBatch::new(claim, limit);
    let mut named = tx.statement(NAMED)?;
    let runs: BTreeSet<RunId> = claim.only.iter().copied().collect();
    for run in runs {
        let mut rows = named.query(params![run.as_bytes(), claim.law])?;
        let Some(row) = rows.next()? else {
            continue;
        };
        let Some(found) = batch.read(row)? else {
            continue;
        };
        if found.due > tx.now {
            let due = Some(found.due).filter(|due| *due < Timestamp::NEVER);
            batch.next_due = [batch.next_due, due].into_iter().flatten().min();
        } else if batch.put(found) == ClaimScan::Full {
            batch.next_due = None;
            break;
        }
    }
    Ok(batch)
}

/// Of the runs that a claim may look at, each looked at alone, those whose records are on pages that
/// cannot be read.
pub(crate) fn on_damaged_pages(tx: &Tx<'_>, claim: &Claim) -> Worked<Vec<DamagedRun>> {
    let mut damaged = Vec::new();
    let mut named = tx.statement(NAMED)?;
    for run in due_alone(tx, claim)? {
        let found = named.query(params![run, claim.law]);
        let read = found.and_then(|mut rows| rows.next().map(|_| ()));
        match read.map_err(failure::sqlite) {
            Err(why @ StoreError::Corrupt { .. }) => damaged.push(DamagedRun { run, why }),
            read => read?,
        }
    }
    Ok(damaged)
}

/// The runs that a claim may look at, by the queue alone.
fn due_alone(tx: &Tx<'_>, claim: &Claim) -> Worked<Vec<Vec<u8>>> {
    let mut runs: Vec<Vec<u8>> = claim
        .only
        .iter()
        .map(|run| run.as_bytes().to_vec())
        .collect();
    let most = (limit::CLAIM_MAX + usize::from(Priority::HIGHEST.level()) + 1) as i64;
    let mut due = tx.statement(DUE_ALONE)?;
    let lanes = lanes(claim);
    for lane in lanes.iter().filter(|_| claim.only.is_empty()) {
        let (queue, realm) = (lane.queue.as_str(), lane.realm.as_str());
        let given = params![queue, realm, tx.now.millis(), claim.law, most];
        for run in due.query_map(given, |row| row.get(0))? {
            runs.push(run?);
        }
    }
    Ok(runs)
}

fn lanes(claim: &Claim) -> Vec<QueueLane<'_>> {
    let mut lanes: Vec<QueueLane<'_>> = Vec::with_capacity(claim.queues.len() * claim.realms.len());
    for queue in &claim.queues {
        for realm in &claim.realms {
            if !lanes
                .iter()
                .any(|lane| lane.queue == queue && lane.realm == realm)
            {
                lanes.push(QueueLane { queue, realm });
            }
        }
    }
    lanes
}

/// The highest priority below `below` that has any run, and the lanes that have some there.
fn next_level<'a>(
    tx: &Tx<'_>,
    lanes: &[QueueLane<'a>],
    below: i64,
) -> Worked<Option<(i64, Vec<QueueLane<'a>>)>> {
    let mut highest = tx.statement(NEXT_LEVEL)?;
    let mut best: Option<(i64, Vec<QueueLane<'a>>)> = None;
    for lane in lanes {
        let level = highest.query_row(
            params![lane.queue.as_str(), lane.realm.as_str(), below],
            |row| row.get(0),
        )?;
        let Some(level): Option<i64> = level else {
            continue;
        };
        match &mut best {
            Some((found, there)) if *found == level => there.push(*lane),
            Some((found, _)) if *found > level => {}
            _ => best = Some((level, vec![*lane])),
        }
    }
    Ok(best)
}

impl<'a> ClaimBatch<'a> {
    fn new(claim: &'a Claim, limit: usize) -> Self {
        Self {
            claim,
            limit,
            weight: 0,
            runs: Vec::new(),
            damaged: Vec::new(),
            next_due: None,
        }
    }

    /// Take the due runs of one level; of several lanes, the earliest due first.
    fn fill(&mut self, tx: &Tx<'_>, level: i64, lanes: &[QueueLane<'_>]) -> Worked<ClaimScan> {
        let mut due = Vec::new();
        for lane in lanes {
            self.read_due(tx, level, *lane, &mut due)?;
        }
        if lanes.len() > 1 {
            due.sort_by_key(|run| (run.due, run.run));
        }
        for run in due {
            if self.put(run) == ClaimScan::Full {
                return Ok(ClaimScan::Full);
            }
        }
        lanes
            .iter()
            .try_for_each(|lane| self.note_next_due(tx, level, *lane))?;
        Ok(ClaimScan::On)
    }

    /// One more than there is room for shows that not all that is due was taken.
    fn read_due(
        &mut self,
        tx: &Tx<'_>,
        level: i64,
        lane: QueueLane<'_>,
        into: &mut Vec<ClaimedRun>,
    ) -> Worked<()> {
        let room = self.limit - self.runs.len() + 1;
        let mut due = tx.statement(DUE)?;
        let (queue, realm) = (lane.queue.as_str(), lane.realm.as_str());
        let given = params![
            queue,
            realm,
            level,
            tx.now.millis(),
            self.claim.law,
            room as i64
        ];
        let mut rows = due.query(given)?;
        while let Some(row) = rows.next()? {
            into.extend(self.read(row)?);
        }
        Ok(())
    }

    /// A run, unless its row is damaged.
    fn read(&mut self, row: &Row<'_>) -> Worked<Option<ClaimedRun>> {
        match damaged_run::read_run(row)? {
            Ok(run) => Ok(Some(ClaimedRun {
                epoch: run.epoch.next(),
                ..run
            })),
            Err(damaged) => {
                self.damaged.push(damaged);
                Ok(None)
            }
        }
    }

    fn put(&mut self, run: ClaimedRun) -> ClaimScan {
        let weight = self.weight.saturating_add(u64::from(run.weight));
        if self.runs.len() >= self.limit || (!self.runs.is_empty() && weight > self.claim.weight) {
            return ClaimScan::Full;
        }
        self.weight = weight;
        self.runs.push(run);
        ClaimScan::On
    }

    fn note_next_due(&mut self, tx: &Tx<'_>, level: i64, lane: QueueLane<'_>) -> Worked<()> {
        let mut next = tx.statement(NEXT_DUE)?;
        let (queue, realm) = (lane.queue.as_str(), lane.realm.as_str());
        let given = params![queue, realm, level, tx.now.millis(), self.claim.law];
        let due: Option<i64> = next.query_row(given, |row| row.get(0)).optional()?;
        let due = due
            .map(Timestamp::from_millis)
            .filter(|due| *due < Timestamp::NEVER);
        self.next_due = [self.next_due, due].into_iter().flatten().min();
        Ok(())
    }
}

fn take(tx: &Tx<'_>, owner: RunnerId, runs: impl Iterator<Item = RunId>) -> Worked<()> {
    let mut take = tx.statement(TAKE)?;
    for run in runs {
        take.execute(params![run.as_bytes(), owner.as_bytes(), tx.now.millis()])?;
    }
    Ok(())
}
