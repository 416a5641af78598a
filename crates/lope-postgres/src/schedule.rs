//! `schedule`: a schedule's row is written together with the run that it starts and the mail that
//! it sends.
//!
//! The name is locked first, whether its row is there or not, then the row, so that nobody takes it
//! away meanwhile; of many who write over one revision the first one wins and the others find
//! another revision. Nobody locks either while holding anything else.

use std::time::Duration;

use lope_model::{Revision, RunId, Timestamp};
use lope_store::runs::{DueSchedules, FoundSchedule, ScheduleWrite, Scheduled, StoredSchedule};
use lope_store::verdict;
use lope_store::{StoreError, StoreResult};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::admit::{self, ADMIT, AdmitColumns};
use crate::connection::{DbConnection, Pipeline};
use crate::deliver::{DELIVER, LOCK, LOCK_ENDED, MailColumns};
use crate::failure::{FaultResponse, Worked};
use crate::inner::PostgresInner;
use crate::session::page;
use crate::statement::Statement;

static LOCK_NAME: Statement = Statement {
    name: "schedule_place",
    text: "select pg_advisory_xact_lock(hashtextextended('lope schedule {schema} ' || $1, 0))",
    types: "text",
};
static REVISION: Statement = Statement {
    name: "schedule_revision",
    text: "select revision from {schema}.schedules where name = $1 for update",
    types: "text",
};
static PUT: Statement = Statement {
    name: "schedule_put",
    text: include_str!("schedule_put.sql"),
    types: "text uuid int uuid short byte",
};
static REMOVE: Statement = Statement {
    name: "unschedule",
    text: "delete from {schema}.schedules where name = $1 and ($2 is null or revision = $2) returning 1",
    types: "text uuid",
};
static FIND: Statement = Statement {
    name: "find_schedule",
    text: "select s.name, s.revision, s.due, s.last_run, s.waits, s.body, q.run_id is not null
           from {schema}.schedules s left join {schema}.queue q on q.run_id = s.last_run where s.name = $1",
    types: "text",
};
static LIST: Statement = Statement {
    name: "schedules",
    text: "select s.name, s.revision, s.due, s.last_run, s.waits, s.body, q.run_id is not null
           from {schema}.schedules s left join {schema}.queue q on q.run_id = s.last_run
           where s.name > $1 order by s.name limit $2",
    types: "text int",
};
static DUE: Statement = Statement {
    name: "due_schedules",
    text: include_str!("schedule_due.sql"),
    types: "int",
};

/// How often a writing that was rolled back because others stood in its way is tried again.
const TRIES_MAX: u32 = 5;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(2);

impl PostgresInner {
    pub(crate) async fn schedule(&self, write: &ScheduleWrite) -> Worked<Scheduled> {
        // Not on the connections of heartbeats: a writing waits for others who write the same
        // schedule.
        let db = self.reads.get().await?;
        for tries in 1..=TRIES_MAX {
            match attempt(&db, write).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(fault) if fault.response == FaultResponse::Again => {}
                Err(fault) => return Err(fault),
            }
            tokio::time::sleep(TRY_AGAIN_AFTER * tries).await;
        }
        Err(StoreError::unavailable("others kept writing the same schedule or run").into())
    }

    pub(crate) async fn unschedule(&self, name: &str, over: Option<Revision>) -> Worked<bool> {
        let over = over.map(Revision::uuid);
        let rows = self
            .reads
            .get()
            .await?
            .write(&REMOVE, vec![&name, &over])
            .await?;
        Ok(!rows.is_empty())
    }

    pub(crate) async fn find_schedule(&self, name: &str) -> Worked<Option<FoundSchedule>> {
        Ok(self
            .reads
            .read(&FIND, vec![&name])
            .await?
            .first()
            .map(found))
    }

    pub(crate) async fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Worked<Vec<FoundSchedule>> {
        let after = after.unwrap_or_default();
        let most = page(limit);
        Ok(self
            .reads
            .read(&LIST, vec![&after, &most])
            .await?
            .iter()
            .map(found)
            .collect())
    }

    pub(crate) async fn due_schedules(&self, limit: usize) -> StoreResult<DueSchedules> {
        let most = page(limit);
        let rows = self.reads.read(&DUE, vec![&most]).await?;
        let first = rows
            .first()
            .ok_or_else(|| StoreError::corrupt("the clock did not answer"))?;
        let due = rows
            .iter()
            .filter(|row| row.get::<_, Option<&str>>(0).is_some())
            .map(found)
            .collect();
        let next_due = first.get::<_, Option<i64>>(8).map(Timestamp::from_millis);
        Ok(DueSchedules {
            now: Timestamp::from_millis(first.get(7)),
            due,
            next_due,
            waits: first.get(9),
        })
    }
}

/// One transaction. Nothing: what stood in the way is gone, and it may be tried again.
async fn attempt(db: &DbConnection, write: &ScheduleWrite) -> Worked<Option<Scheduled>> {
    let found = lock_and_read(db, write).await?;
    if let Err(answer) = verdict::schedule(write, found) {
        roll_back(db).await?;
        return Ok(Some(answer));
    }
    if let Some(admit) = &write.admit {
        let columns = AdmitColumns::of(&[admit]);
        let ready = db.ready(&ADMIT).await?;
        let mut pipeline = Pipeline::within(db);
        pipeline.query(ready, columns.params());
        let created = admit::created(&pipeline.run().await?[0]);
        if created.is_empty() {
            roll_back(db).await?;
            let answers = admit::answers(db, [admit], vec![created]).await?;
            return Ok(answers
                .into_iter()
                .next()
                .flatten()
                .map(Scheduled::NotAdmitted));
        }
    }
    put(db, write).await?;
    Ok(Some(Scheduled::Done))
}

/// Begin, lock the place, and see which revision is there.
async fn lock_and_read(db: &DbConnection, write: &ScheduleWrite) -> Worked<Option<Revision>> {
    let lock = db.ready(&LOCK_NAME).await?;
    let revision = db.ready(&REVISION).await?;
    let name = &write.schedule.name;
    let mut pipeline = Pipeline::begin(db);
    pipeline.query(lock, vec![name]);
    pipeline.query(revision, vec![name]);
    let answers = pipeline.run().await?;
    Ok(answers[2]
        .first()
        .map(|row| Revision::from_uuid(row.get(0))))
}

async fn roll_back(db: &DbConnection) -> Worked<()> {
    let mut pipeline = Pipeline::within(db);
    pipeline.rollback();
    pipeline.run().await.map(drop)
}

/// The mail and the row, and the end of the transaction.
async fn put(db: &DbConnection, write: &ScheduleWrite) -> Worked<()> {
    let StoredSchedule {
        name,
        revision,
        due,
        last_run,
        waits,
        body,
    } = &write.schedule;
    let revision = revision.uuid();
    let due = due.map(Timestamp::millis);
    let last_run = last_run.map(RunId::uuid);
    let waits = i16::from(*waits);
    let mail: Vec<_> = write.mail.iter().collect();
    let runs: Vec<Uuid> = mail.iter().map(|mail| mail.run.uuid()).collect();
    let columns = MailColumns::of(&mail);
    let (lock, lock_ended) = (db.ready(&LOCK).await?, db.ready(&LOCK_ENDED).await?);
    let deliver = db.ready(&DELIVER).await?;
    let put = db.ready(&PUT).await?;
    let mut pipeline = Pipeline::within(db);
    pipeline.query_unless(mail.is_empty(), lock, vec![&runs]);
    pipeline.query_unless(mail.is_empty(), lock_ended, vec![&runs]);
    pipeline.query_unless(mail.is_empty(), deliver, columns.params());
    pipeline.query(put, vec![name, &revision, &due, &last_run, &waits, body]);
    pipeline.commit();
    pipeline.run().await.map(drop)
}

fn found(row: &Row) -> FoundSchedule {
    let schedule = StoredSchedule {
        name: row.get(0),
        revision: Revision::from_uuid(row.get(1)),
        due: row.get::<_, Option<i64>>(2).map(Timestamp::from_millis),
        last_run: row.get::<_, Option<Uuid>>(3).map(RunId::from_uuid),
        waits: row.get::<_, i16>(4) != 0,
        body: row.get(5),
    };
    FoundSchedule {
        schedule,
        running: row.get(6),
    }
}
