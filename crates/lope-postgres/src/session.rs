//! Sessions: register, heartbeat, takeover, release, and what a runner owns. The server's clock
//! judges them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lope_model::{Moment, RunId, RunnerId, Timestamp, limit};
use lope_store::StoreError;
use lope_store::runs::{
    Beat, ClaimedRun, Mail, Register, RunnerRecord, Serves, SessionLost, SessionResult, TakenOver,
    Takeover,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::claim::claimed_run;
use crate::connection::Pipeline;
use crate::failure::Worked;
use crate::inner::PostgresInner;
use crate::options::RUNNER_MEMORY;
use crate::record;
use crate::statement::Statement;

static REGISTER: Statement = Statement {
    name: "register",
    text: include_str!("register.sql"),
    types: "uuid text text int text int int text text",
};
static ANNOUNCE: Statement = Statement {
    name: "announce",
    text: include_str!("announce.sql"),
    types: "uuid text int",
};
static HEARTBEAT: Statement = Statement {
    name: "heartbeat",
    text: include_str!("heartbeat.sql"),
    types: "uuid int",
};
static END_EXPIRED: Statement = Statement {
    name: "end_expired",
    text: include_str!("end_expired.sql"),
    types: "int",
};
pub(crate) static TAKEOVER: Statement = Statement {
    name: "takeover",
    text: include_str!("takeover.sql"),
    types: "int",
};
static ORPHANS: Statement = Statement {
    name: "orphans",
    text: include_str!("orphans.sql"),
    types: "",
};
static END_SESSION: Statement = Statement {
    name: "end_session",
    text: include_str!("end_session.sql"),
    types: "uuid",
};
pub(crate) static PUT_BACK: Statement = Statement {
    name: "put_back",
    text: include_str!("put_back.sql"),
    types: "uuid int",
};
static OWNED: Statement = Statement {
    name: "owned",
    text: include_str!("owned.sql"),
    types: "uuid uuid int",
};
pub(crate) static WAITING: Statement = Statement {
    name: "waiting",
    text: include_str!("waiting.sql"),
    types: "uuid int",
};
static LIVE: Statement = Statement {
    name: "live",
    text: include_str!("live.sql"),
    types: "uuids int",
};
static RUNNERS: Statement = Statement {
    name: "sessions",
    text: include_str!("sessions.sql"),
    types: "int",
};

/// Longest lease: a thousand years, so that sums of times stay numbers.
const LEASE_MAX: i64 = 1_000 * 365 * 86_400_000;
/// A longer lease than this does not hold a step of the clock back for longer.
const LEASE_HELD_BACK_MAX: Duration = Duration::from_hours(1);
/// Most runs that one statement puts back, so that no transaction is long.
const PUT_BACK_MAX: i64 = 5_000;

impl PostgresInner {
    pub(crate) async fn register(&self, register: &Register) -> Worked<Beat> {
        let Register {
            runner,
            name,
            host,
            pid,
            process,
            program,
            serves,
            lease,
        } = register;
        let lease = i64::try_from(lease.millis())
            .unwrap_or(LEASE_MAX)
            .min(LEASE_MAX);
        let runner = runner.uuid();
        let pid = i64::from(*pid);
        let memory = RUNNER_MEMORY.millis() as i64;
        let serves = serves.to_string();
        let db = self.control.get().await?;
        let sent = Instant::now();
        let rows = db
            .write(
                &REGISTER,
                vec![
                    &runner, name, host, &pid, program, &lease, &memory, &serves, process,
                ],
            )
            .await?;
        let beat =
            beat(&rows).ok_or_else(|| StoreError::corrupt("a registration was not answered"))?;
        self.clock.observe(sent, beat.now.millis(), lease_of(&beat));
        Ok(beat)
    }

    /// Extending a session twice does no harm, so a beat that got lost on the way is sent again.
    pub(crate) async fn heartbeat(&self, runner: RunnerId) -> Worked<SessionResult<Beat>> {
        let runner = runner.uuid();
        let sent = Instant::now();
        let latest = self.clock.latest();
        let rows = self
            .control
            .write_surely(&HEARTBEAT, vec![&runner, &latest])
            .await?;
        let beat = beat(&rows);
        if let Some(beat) = &beat {
            self.clock.observe(sent, beat.now.millis(), lease_of(beat));
        }
        Ok(beat.ok_or(SessionLost))
    }

    pub(crate) async fn announce(
        &self,
        runner: RunnerId,
        serves: &Serves,
    ) -> Worked<SessionResult<()>> {
        let runner = runner.uuid();
        let serves = serves.to_string();
        let latest = self.clock.latest();
        let rows = self
            .control
            .write_surely(&ANNOUNCE, vec![&runner, &serves, &latest])
            .await?;
        Ok(if rows.is_empty() {
            Err(SessionLost)
        } else {
            Ok(())
        })
    }

    pub(crate) async fn takeover(&self, takeover: Takeover) -> Worked<TakenOver> {
        let most = takeover.limit.min(PUT_BACK_MAX as usize) as i64;
        let db = self.control.get().await?;
        let end = db.ready(&END_EXPIRED).await?;
        let put_back = db.ready(&TAKEOVER).await?;
        let left = db.ready(&ORPHANS).await?;
        let sent = Instant::now();
        let latest = self.clock.latest();
        let mut pipeline = Pipeline::begin(&db);
        pipeline.query(end, vec![&latest]);
        pipeline.query(put_back, vec![&most]);
        pipeline.query(left, vec![]);
        pipeline.commit();
        let answers = pipeline.run().await?;
        if let Some(row) = answers[1].first() {
            self.clock.observe(sent, row.get(0), Duration::ZERO);
        }
        Ok(TakenOver {
            ended: answers[1]
                .iter()
                .filter_map(|row| row.get::<_, Option<Uuid>>(1).map(RunnerId::from_uuid))
                .collect(),
            runs: count(&answers[2]),
            more: answers[3].first().is_some_and(|row| row.get(0)),
        })
    }

    /// End the session first, so that nothing is claimed in it any more, then put back what it
    /// holds, part by part.
    pub(crate) async fn release(&self, runner: RunnerId) -> Worked<u64> {
        let runner = runner.uuid();
        let db = self.control.get().await?;
        db.write(&END_SESSION, vec![&runner]).await?;
        let mut released = 0;
        loop {
            let part = count(&db.write(&PUT_BACK, vec![&runner, &PUT_BACK_MAX]).await?);
            released += part;
            if part == 0 {
                return Ok(released);
            }
        }
    }

    pub(crate) async fn owned(
        &self,
        runner: RunnerId,
        after: Option<RunId>,
        limit: usize,
    ) -> Worked<Vec<ClaimedRun>> {
        let owner = runner.uuid();
        let after = after.map(RunId::uuid);
        let most = page(limit);
        let rows = self
            .control
            .read(&OWNED, vec![&owner, &after, &most])
            .await?;
        let (mut owned, mut damaged) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in &rows {
            match claimed_run(row, 0, RunId::from_uuid(row.get(0))) {
                Ok(run) => owned.push(run),
                Err(run) => damaged.push(run),
            }
        }
        self.set_aside(runner, &damaged).await?;
        Ok(owned)
    }

    pub(crate) async fn waiting(
        &self,
        runner: RunnerId,
        limit: usize,
    ) -> Worked<Vec<(RunId, Vec<Mail>)>> {
        let runner = runner.uuid();
        let most = page(limit);
        let mut found: BTreeMap<RunId, Vec<Mail>> = BTreeMap::new();
        for row in self.control.read(&WAITING, vec![&runner, &most]).await? {
            found
                .entry(RunId::from_uuid(row.get(0)))
                .or_default()
                .push(record::mail(&row, 1));
        }
        Ok(found.into_iter().collect())
    }

    pub(crate) async fn live(&self, runners: &[RunnerId]) -> Worked<Vec<bool>> {
        let ids: Vec<Uuid> = runners.iter().map(|runner| runner.uuid()).collect();
        let latest = self.clock.latest();
        let rows = self.reads.read(&LIVE, vec![&ids, &latest]).await?;
        let live: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        Ok(ids.iter().map(|id| live.contains(id)).collect())
    }

    pub(crate) async fn runners(&self, limit: usize) -> Worked<Vec<RunnerRecord>> {
        let most = page(limit);
        let rows = self.reads.read(&RUNNERS, vec![&most]).await?;
        Ok(rows.iter().map(runner_record).collect())
    }
}

/// A number of rows to ask for.
pub(crate) fn page(limit: usize) -> i64 {
    limit.min(limit::PAGE_MAX) as i64
}

fn count(rows: &[Row]) -> u64 {
    rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64)
}

fn beat(rows: &[Row]) -> Option<Beat> {
    let row = rows.first()?;
    let (now, expires): (i64, i64) = (row.get(0), row.get(1));
    Some(Beat {
        now: Timestamp::from_millis(now),
        moment: Moment(now),
        expires: Moment(expires),
    })
}

fn lease_of(beat: &Beat) -> Duration {
    let lease = beat.expires.0.saturating_sub(beat.moment.0);
    Duration::from_millis(u64::try_from(lease).unwrap_or_default()).min(LEASE_HELD_BACK_MAX)
}

fn runner_record(row: &Row) -> RunnerRecord {
    RunnerRecord {
        runner: RunnerId::from_uuid(row.get::<_, Uuid>(0)),
        name: row.get(1),
        host: row.get(2),
        pid: row.get::<_, i64>(3) as u32,
        process: row.get(11),
        program: row.get(4),
        serves: Serves::parse(row.get(10)),
        started_at: Timestamp::from_millis(row.get(5)),
        heartbeat_at: Timestamp::from_millis(row.get(6)),
        live: row.get(7),
        ended_at: row.get::<_, Option<i64>>(8).map(Timestamp::from_millis),
        owns: row.get::<_, i64>(9) as u64,
    }
}
