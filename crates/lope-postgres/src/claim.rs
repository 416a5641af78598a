//! `claim`: due runs go to one runner. In: what it can serve; out: the runs it has now, and when to come again.

use std::collections::BTreeSet;
use std::time::Instant;

use lope_model::{Epoch, Priority, QueueName, Realm, RunId, Span, Timestamp, limit};
use lope_store::StoreError;
use lope_store::runs::{Claim, Claimed, ClaimedRun, Held, SessionLost};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::failure::Worked;
use crate::floor::{Floors, LEVELS, Read, Start};
use crate::inner::Inner;
use crate::link::{Flight, Link};
use crate::record::{priority, queue_name, realm, version};
use crate::statement::Statement;

pub(crate) static CLAIM: Statement =
    Statement { name: "claim", text: include_str!("claim.sql"), types: "uuid int int int texts texts shorts ints" };

pub(crate) static CLAIM_MANY: Statement = Statement {
    name: "claim_many",
    text: include_str!("claim_many.sql"),
    types: "uuid int int int texts texts shorts ints",
};

static CLAIM_TURN: Statement = Statement { name: "claim_turn", text: include_str!("claim_turn.sql"), types: "text" };

pub(crate) static COUNT_OWNED: Statement =
    Statement { name: "count_owned", text: include_str!("count_owned.sql"), types: "texts" };

pub(crate) static CLAIM_NAMED: Statement =
    Statement { name: "claim_named", text: include_str!("claim_named.sql"), types: "uuid int uuids int" };

/// The lanes of a claim, in the order in which they are served.
#[derive(Default)]
struct Lanes<'a> {
    queue: Vec<&'a str>,
    realm: Vec<&'a str>,
    priority: Vec<i16>,
    floor: Vec<i64>,
}

/// What the server said.
struct Answer {
    claimed: Claimed,
    /// How many due runs were found, taken or not.
    found: usize,
}

impl Inner {
    pub(crate) async fn claim(&self, claim: &Claim) -> Worked<Held<Claimed>> {
        if !claim.only.is_empty() {
            return self.claim_named(claim).await;
        }
        let start = self.floors().start();
        let held = self.claim_from(claim, start).await?;
        let Ok(answer) = held else { return Ok(Err(SessionLost)) };
        if start == Start::Beginning || claim.most.is_some() || answer.found >= runs_max(claim) {
            return Ok(Ok(answer.claimed));
        }
        // Something older may have been overlooked: come again when it is time to look from the beginning.
        let mut claimed = answer.claimed;
        let look = claimed.now.plus(Span::from(self.floors().wait()));
        claimed.next_due = Some(claimed.next_due.map_or(look, |due| due.min(look)));
        Ok(Ok(claimed))
    }

    async fn claim_named(&self, claim: &Claim) -> Worked<Held<Claimed>> {
        let (runner, law, most) = (claim.runner.uuid(), i64::from(claim.law), runs_max(claim) as i64);
        let named: Vec<Uuid> = claim.only.iter().map(|run| run.uuid()).collect();
        let link = self.control.get().await?;
        let rows = link.write(&CLAIM_NAMED, vec![&runner, &law, &named, &most]).await?;
        Ok(read(&rows)?.map(|answer| answer.claimed).ok_or(SessionLost))
    }

    async fn claim_from(&self, claim: &Claim, start: Start) -> Worked<Held<Answer>> {
        let (queues, realms) = (distinct(&claim.queues), distinct(&claim.realms));
        let lanes = Lanes::of(&queues, &realms, start, &self.floors());
        let statement = if queues.len() * realms.len() <= 1 { &CLAIM } else { &CLAIM_MANY };
        let link = self.control.get().await?;
        let ready = link.ready(statement).await?;
        let room = match claim.most {
            None => None,
            Some(most) => Some(room(&link, &queues, most).await?),
        };
        let limit = runs_max(claim).min(room.unwrap_or(usize::MAX));
        let (law, most) = (i64::from(claim.law), limit as i64);
        let weight = i64::try_from(claim.weight).unwrap_or(i64::MAX);
        let runner = claim.runner.uuid();
        let began = Instant::now();
        let mut flight = if room.is_some() { Flight::within(&link) } else { Flight::begin(&link) };
        let lanes_of = vec![&runner as &(dyn ToSql + Sync), &law, &most, &weight];
        let params = lanes_of.into_iter().chain(lanes.params()).collect();
        flight.query(ready, params);
        flight.commit();
        let rows = flight.land().await?.into_iter().rev().nth(1).unwrap_or_default();
        let cost = began.elapsed();
        let Some(answer) = read(&rows)? else { return Ok(Err(SessionLost)) };
        let mut floors = self.floors();
        if start == Start::Beginning {
            floors.measured(cost);
        }
        floors.raise(&queues, &realms, answer.read(limit));
        Ok(Ok(answer))
    }
}

/// How many more runs of these queues may have an owner. Begins a transaction in which nobody else can take that room.
async fn room(link: &Link, queues: &[QueueName], most: u32) -> Worked<usize> {
    let (turn, count) = (link.ready(&CLAIM_TURN).await?, link.ready(&COUNT_OWNED).await?);
    let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
    let mut flight = Flight::begin(link);
    names.iter().for_each(|name| flight.query(turn.clone(), vec![name]));
    flight.query(count, vec![&names]);
    let answers = flight.land().await?;
    let owned = answers.last().and_then(|rows| rows.first()).map_or(0, |row| row.get::<_, i64>(0));
    Ok((most as usize).saturating_sub(owned as usize))
}

fn runs_max(claim: &Claim) -> usize {
    claim.limit.min(limit::CLAIM_MAX)
}

fn distinct<T: Clone + Ord>(names: &[T]) -> Vec<T> {
    names.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

impl<'a> Lanes<'a> {
    fn params(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.queue, &self.realm, &self.priority, &self.floor]
    }

    fn of(queues: &'a [QueueName], realms: &'a [Realm], start: Start, floors: &Floors) -> Self {
        let mut lanes = Self::default();
        for level in LEVELS.rev() {
            for queue in queues {
                for realm in realms {
                    lanes.queue.push(queue.as_str());
                    lanes.realm.push(realm.as_str());
                    lanes.priority.push(level);
                    lanes.floor.push(match start {
                        Start::Beginning => i64::MIN,
                        Start::Floor => floors.of(queue, realm, level),
                    });
                }
            }
        }
        lanes
    }
}

impl Answer {
    fn read(&self, most: usize) -> Read {
        let last = self.claimed.runs.last().map(|run| (i16::from(run.priority.level()), run.due));
        let is_whole = self.claimed.runs.len() == self.found;
        Read { now: self.claimed.now, last, all: is_whole && self.found < most }
    }
}

/// Nothing: the session is not held.
fn read(rows: &[Row]) -> Worked<Option<Answer>> {
    let first = rows.first().ok_or_else(|| StoreError::corrupt("a claim was not answered"))?;
    if !first.get::<_, bool>(1) {
        return Ok(None);
    }
    let now = Timestamp::from_millis(first.get(0));
    let found = first.get::<_, i64>(2) as usize;
    let next: Option<i64> = first.get(3);
    let runs: Worked<Vec<ClaimedRun>> =
        rows.iter().filter(|row| row.get::<_, Option<Uuid>>(4).is_some()).map(|row| claimed_run(row, 4)).collect();
    let runs = runs?;
    // What was found and not taken, because of its weight or because others were faster, is due now.
    let next_due = if runs.len() < found { Some(now) } else { next.map(Timestamp::from_millis) };
    Ok(Some(Answer { claimed: Claimed { now, runs, next_due }, found }))
}

/// A run that a runner owns, from ten columns.
pub(crate) fn claimed_run(row: &Row, at: usize) -> Worked<ClaimedRun> {
    Ok(ClaimedRun {
        run: RunId::from_uuid(row.get(at)),
        epoch: Epoch(row.get::<_, i64>(at + 1) as u64),
        version: version(row.get(at + 2))?,
        queue: queue_name(row.get(at + 3))?,
        priority: priority(row.get(at + 4))?,
        realm: realm(row.get(at + 5))?,
        law: row.get::<_, i64>(at + 6) as u32,
        weight: row.get::<_, i64>(at + 7) as u32,
        mail: row.get::<_, i64>(at + 8) as u64,
        due: Timestamp::from_millis(row.get(at + 9)),
    })
}

const _: () = assert!(Priority::HIGHEST.level() == 9, "the lanes of a claim are the levels of priority");
