//! `claim`: due runs without an owner, highest priority first, then earliest due, as one walk over the claim index.
//!
//! The index is walked level by level: for each queue and realm the highest priority that has any run is one seek, its due
//! runs are one range. Runs of other realms, of owners, parked or due later are never touched.

use std::collections::BTreeSet;

use lope_model::{Priority, QueueName, Realm, RunId, RunnerId, Timestamp, limit};
use lope_store::runs::{Claim, Claimed, ClaimedRun, Held, SessionLost};
use rusqlite::{OptionalExtension, params};

use crate::columns;
use crate::desk::Desk;
use crate::failure::Worked;
use crate::session;

pub(crate) const NEXT_LEVEL: &str = "SELECT max(priority) FROM queue INDEXED BY queue_claim
     WHERE owner IS NULL AND parked IS NULL AND queue = ?1 AND realm = ?2 AND priority < ?3";
pub(crate) const DUE: &str =
    "SELECT q.run_id, q.epoch + 1, r.version, q.queue, q.priority, q.realm, q.law, q.weight, q.mail, q.due
     FROM queue AS q INDEXED BY queue_claim JOIN runs AS r ON r.run_id = q.run_id
     WHERE q.owner IS NULL AND q.parked IS NULL AND q.queue = ?1 AND q.realm = ?2 AND q.priority = ?3 AND q.due <= ?4
       AND q.law <= ?5
     ORDER BY q.due, q.run_id LIMIT ?6";
pub(crate) const NEXT_DUE: &str = "SELECT due FROM queue INDEXED BY queue_claim
     WHERE owner IS NULL AND parked IS NULL AND queue = ?1 AND realm = ?2 AND priority = ?3 AND due > ?4 AND law <= ?5
     ORDER BY due LIMIT 1";
pub(crate) const OWNED: &str =
    "SELECT count(*) FROM queue INDEXED BY queue_owner WHERE owner IS NOT NULL AND queue = ?1";
const NAMED: &str =
    "SELECT q.run_id, q.epoch + 1, r.version, q.queue, q.priority, q.realm, q.law, q.weight, q.mail, q.due
     FROM queue AS q JOIN runs AS r ON r.run_id = q.run_id
     WHERE q.run_id = ?1 AND q.owner IS NULL AND q.parked IS NULL AND q.law <= ?2";
const TAKE: &str = "UPDATE queue SET owner = ?2, epoch = epoch + 1 WHERE run_id = ?1";

/// One queue and realm that the claim may take from.
#[derive(Clone, Copy)]
struct Lane<'a> {
    queue: &'a QueueName,
    realm: &'a Realm,
}

/// What has been picked, and how much more may be.
struct Basket<'a> {
    claim: &'a Claim,
    limit: usize,
    weight: u64,
    runs: Vec<ClaimedRun>,
    next_due: Option<Timestamp>,
}

/// May the walk go on?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    On,
    Full,
}

pub(crate) fn claim(desk: &Desk<'_>, claim: &Claim) -> Worked<Held<Claimed>> {
    if !session::is_held(desk, claim.runner)? {
        return Ok(Err(SessionLost));
    }
    let basket = if claim.only.is_empty() { pick(desk, claim)? } else { pick_named(desk, claim)? };
    take(desk, claim.runner, basket.runs.iter().map(|run| run.run))?;
    Ok(Ok(Claimed { now: desk.now, runs: basket.runs, next_due: basket.next_due }))
}

fn pick<'a>(desk: &Desk<'_>, claim: &'a Claim) -> Worked<Basket<'a>> {
    let lanes = lanes(claim);
    let limit = claim.limit.min(limit::CLAIM_MAX).min(room(desk, claim)?);
    let mut basket = Basket { claim, limit, weight: 0, runs: Vec::new(), next_due: None };
    let mut below = i64::from(Priority::HIGHEST.level()) + 1;
    while let Some((level, there)) = next_level(desk, &lanes, below)? {
        if basket.fill(desk, level, &there)? == Walk::Full {
            basket.next_due = None;
            break;
        }
        below = level;
    }
    Ok(basket)
}

/// How many more runs of the claim's queues may have an owner. Whoever claims has the file to itself, so nobody takes that room.
fn room(desk: &Desk<'_>, claim: &Claim) -> Worked<usize> {
    let Some(most) = claim.most else { return Ok(usize::MAX) };
    let mut count = desk.statement(OWNED)?;
    let mut owned = 0_usize;
    for queue in claim.queues.iter().collect::<BTreeSet<_>>() {
        owned += count.query_row([queue.as_str()], |row| row.get::<_, i64>(0))? as usize;
    }
    Ok((most as usize).saturating_sub(owned))
}

/// Of the runs that the claim names, those that are free and due.
fn pick_named<'a>(desk: &Desk<'_>, claim: &'a Claim) -> Worked<Basket<'a>> {
    let limit = claim.limit.min(limit::CLAIM_MAX);
    let mut basket = Basket { claim, limit, weight: 0, runs: Vec::new(), next_due: None };
    let mut named = desk.statement(NAMED)?;
    let runs: BTreeSet<RunId> = claim.only.iter().copied().collect();
    for run in runs {
        let found = named.query_and_then(params![run.as_bytes(), claim.law], columns::claimed_run)?.next();
        let Some(found) = found.transpose()? else { continue };
        if found.due > desk.now {
            let due = Some(found.due).filter(|due| *due < Timestamp::NEVER);
            basket.next_due = [basket.next_due, due].into_iter().flatten().min();
        } else if basket.put(found) == Walk::Full {
            basket.next_due = None;
            break;
        }
    }
    Ok(basket)
}

fn lanes(claim: &Claim) -> Vec<Lane<'_>> {
    let mut lanes: Vec<Lane<'_>> = Vec::with_capacity(claim.queues.len() * claim.realms.len());
    for queue in &claim.queues {
        for realm in &claim.realms {
            if !lanes.iter().any(|lane| lane.queue == queue && lane.realm == realm) {
                lanes.push(Lane { queue, realm });
            }
        }
    }
    lanes
}

/// The highest priority below `below` that has any run, and the lanes that have some there.
fn next_level<'a>(desk: &Desk<'_>, lanes: &[Lane<'a>], below: i64) -> Worked<Option<(i64, Vec<Lane<'a>>)>> {
    let mut highest = desk.statement(NEXT_LEVEL)?;
    let mut best: Option<(i64, Vec<Lane<'a>>)> = None;
    for lane in lanes {
        let level = highest.query_row(params![lane.queue.as_str(), lane.realm.as_str(), below], |row| row.get(0))?;
        let Some(level): Option<i64> = level else { continue };
        match &mut best {
            Some((found, there)) if *found == level => there.push(*lane),
            Some((found, _)) if *found > level => {}
            _ => best = Some((level, vec![*lane])),
        }
    }
    Ok(best)
}

impl Basket<'_> {
    /// Take the due runs of one level; of several lanes, the earliest due first.
    fn fill(&mut self, desk: &Desk<'_>, level: i64, lanes: &[Lane<'_>]) -> Worked<Walk> {
        let mut due = Vec::new();
        for lane in lanes {
            self.read_due(desk, level, *lane, &mut due)?;
        }
        if lanes.len() > 1 {
            due.sort_by_key(|run| (run.due, run.run));
        }
        for run in due {
            if self.put(run) == Walk::Full {
                return Ok(Walk::Full);
            }
        }
        lanes.iter().try_for_each(|lane| self.note_next_due(desk, level, *lane))?;
        Ok(Walk::On)
    }

    /// One more than there is room for shows that not all that is due was taken.
    fn read_due(&self, desk: &Desk<'_>, level: i64, lane: Lane<'_>, into: &mut Vec<ClaimedRun>) -> Worked<()> {
        let room = self.limit - self.runs.len() + 1;
        let mut due = desk.statement(DUE)?;
        let (queue, realm) = (lane.queue.as_str(), lane.realm.as_str());
        let given = params![queue, realm, level, desk.now.millis(), self.claim.law, room as i64];
        let mut rows = due.query(given)?;
        while let Some(row) = rows.next()? {
            into.push(columns::claimed_run(row)?);
        }
        Ok(())
    }

    fn put(&mut self, run: ClaimedRun) -> Walk {
        let weight = self.weight.saturating_add(u64::from(run.weight));
        if self.runs.len() >= self.limit || (!self.runs.is_empty() && weight > self.claim.weight) {
            return Walk::Full;
        }
        self.weight = weight;
        self.runs.push(run);
        Walk::On
    }

    fn note_next_due(&mut self, desk: &Desk<'_>, level: i64, lane: Lane<'_>) -> Worked<()> {
        let mut next = desk.statement(NEXT_DUE)?;
        let (queue, realm) = (lane.queue.as_str(), lane.realm.as_str());
        let given = params![queue, realm, level, desk.now.millis(), self.claim.law];
        let due: Option<i64> = next.query_row(given, |row| row.get(0)).optional()?;
        let due = due.map(Timestamp::from_millis).filter(|due| *due < Timestamp::NEVER);
        self.next_due = [self.next_due, due].into_iter().flatten().min();
        Ok(())
    }
}

fn take(desk: &Desk<'_>, owner: RunnerId, runs: impl Iterator<Item = RunId>) -> Worked<()> {
    let mut take = desk.statement(TAKE)?;
    for run in runs {
        take.execute(params![run.as_bytes(), owner.as_bytes()])?;
    }
    Ok(())
}
