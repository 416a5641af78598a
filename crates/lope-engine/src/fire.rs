//! Firing: what is due in a store is looked at, decided by the law of schedules, and written
//! together with the run that it starts.
//!
//! Any number of runners may look at once: a tick is written over the revision that was read, so
//! one of them starts its run. A tick that cannot start a run says why in the schedule's standing,
//! and is over.

use lope_flow::law::EventKind;
use lope_model::{Revision, RunId, Span, Timestamp};
use lope_schedule::decide::{TickDecision, TickStart};
use lope_schedule::store::writing;
use lope_schedule::{Schedule, ScheduleEntry, TAG, TICK_TAG};
use lope_store::runs::{
    Admit, Admitted, Deliver, FoundSchedule, ScheduleWrite, Scheduled, StoredSchedule,
};
use lope_store::{Store, StoreError, StoreResult};
use uuid::Uuid;

use crate::client::{self, RunStartOptions};
use crate::codec;
use crate::plans::Plans;
use crate::settings::QueueLimits;

/// A schedule that this program cannot read is left alone for so long: a younger one may have
/// written it.
const UNREADABLE_PAUSE: Span = Span::from_secs(60);

/// Schedules that are dealt with side by side: stores put what comes together into one transaction.
const LANES: usize = 4;

/// What one look at a store came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FiredDue {
    /// The store's clock.
    pub now: Timestamp,
    /// How many schedules were due.
    pub due: usize,
    /// Runs that were started.
    pub started: Vec<RunId>,
    /// When the next schedule is due by its time.
    pub next_due: Option<Timestamp>,
    /// Does any wait for its last run?
    pub waits: bool,
}

/// Deal with one tick of each schedule that is due, of at most `limit` schedules, from a place in
/// the line on: runners that look at once begin at different places and rarely meet.
pub async fn fire_due(
    store: &Store,
    plans: &Plans,
    limit: usize,
    offset: usize,
) -> StoreResult<FiredDue> {
    let mut found = store.runs.due_schedules(limit).await?;
    let now = found.now;
    let due = found.due.len();
    found.due.rotate_left(offset.checked_rem(due).unwrap_or(0));
    let lane = |number| {
        fire_each(
            store,
            plans,
            found.due.iter().skip(number).step_by(LANES),
            now,
        )
    };
    let (one, two, three, four) = tokio::join!(lane(0), lane(1), lane(2), lane(3));
    let started = [one?, two?, three?, four?].concat();
    Ok(FiredDue {
        now,
        due,
        started,
        next_due: found.next_due,
        waits: found.waits,
    })
}

/// Start a run of a schedule now, beside whatever its ticks do. The run, or why there is none.
pub async fn at_once(
    store: &Store,
    plans: &Plans,
    schedule: &Schedule,
    now: Timestamp,
) -> StoreResult<Result<RunId, String>> {
    let admit = match admission(store, plans, schedule, now, now).await? {
        Ok(admit) => admit,
        Err(why) => return Ok(Err(why)),
    };
    let run = admit.run;
    store.runs.admit(vec![admit]).await?;
    Ok(Ok(run))
}

/// One tick of each of these schedules, one after the other.
async fn fire_each(
    store: &Store,
    plans: &Plans,
    due: impl Iterator<Item = &FoundSchedule>,
    now: Timestamp,
) -> StoreResult<Vec<RunId>> {
    let mut started = Vec::new();
    for schedule in due {
        started.extend(fire(store, plans, schedule, now).await?);
    }
    Ok(started)
}

/// One tick of one schedule; the run that it started.
async fn fire(
    store: &Store,
    plans: &Plans,
    found: &FoundSchedule,
    now: Timestamp,
) -> StoreResult<Option<RunId>> {
    let stored = &found.schedule;
    let entry = match ScheduleEntry::decode(stored) {
        Ok(entry) => entry,
        Err(error) => {
            tracing::error!(schedule = stored.name, %error, "a schedule is left alone for a while");
            store.runs.schedule(postponed(stored, now)).await?;
            return Ok(None);
        }
    };
    let TickDecision { entry, start } = entry.decide(now, found.running);
    let Some(start) = start else {
        store
            .runs
            .schedule(writing(&entry, Some(stored), stored.last_run))
            .await?;
        return Ok(None);
    };
    let admit = admission(store, plans, &entry.schedule, start.tick, now).await?;
    let tick = DueTick {
        stored,
        entry,
        start,
    };
    match admit {
        Ok(admit) => tick.begin(store, admit, now).await,
        Err(why) => tick.give_up(store, now, why).await,
    }
}

/// A tick that shall start a run.
struct DueTick<'a> {
    /// The schedule as it was read.
    stored: &'a StoredSchedule,
    /// As it is to be written, but for what becomes of the start.
    entry: ScheduleEntry,
    start: TickStart,
}

impl DueTick<'_> {
    /// The tick, its run and the cancel of the last one, together.
    async fn begin(
        self,
        store: &Store,
        admit: Admit,
        now: Timestamp,
    ) -> StoreResult<Option<RunId>> {
        let run = admit.run;
        let mut fired = self.entry.clone();
        fired.started(self.start);
        let write = ScheduleWrite {
            admit: Some(admit),
            mail: self.cancel(),
            ..writing(&fired, Some(self.stored), Some(run))
        };
        match store.runs.schedule(write).await {
            Ok(Scheduled::Done) => Ok(Some(run)),
            // Another runner was first, or somebody changed the schedule.
            Ok(Scheduled::Changed { .. }) => Ok(None),
            Ok(Scheduled::NotAdmitted(answer)) => self.give_up(store, now, refusal(&answer)).await,
            Err(StoreError::Refused { message }) => self.give_up(store, now, message).await,
            Err(error) => Err(error),
        }
    }

    /// What cancels the last run, if it is to be.
    fn cancel(&self) -> Option<Deliver> {
        let other = self.stored.last_run.filter(|_| self.start.cancels)?;
        let id = format!("{TAG} {} {}", self.stored.name, self.start.tick);
        Some(codec::mail(other, id, &EventKind::Cancel { force: false }))
    }

    async fn give_up(
        mut self,
        store: &Store,
        now: Timestamp,
        why: String,
    ) -> StoreResult<Option<RunId>> {
        tracing::warn!(schedule = self.stored.name, tick = %self.start.tick, why, "a tick started no run");
        self.entry.failed(self.start, now, why);
        let write = writing(&self.entry, Some(self.stored), self.stored.last_run);
        store.runs.schedule(write).await?;
        Ok(None)
    }
}

fn refusal(answer: &Admitted) -> String {
    match answer {
        Admitted::Exists { run, .. } => format!("run {run} is there already"),
        Admitted::UnknownVersion => "its workflow is not deployed any more".to_owned(),
        Admitted::Created { .. } => "it was admitted".to_owned(),
    }
}

/// The run of a tick, or why there can be none.
async fn admission(
    store: &Store,
    plans: &Plans,
    schedule: &Schedule,
    tick: Timestamp,
    now: Timestamp,
) -> StoreResult<Result<Admit, String>> {
    let plan = match plans.latest(store, &schedule.workflow).await {
        Ok(Some(plan)) => plan,
        Ok(None) => {
            return Ok(Err(format!(
                "no workflow '{}' is deployed",
                schedule.workflow
            )));
        }
        Err(error) if error.is_passing() => return Err(error),
        Err(error) => return Ok(Err(error.to_string())),
    };
    // A schedule has its priority, so that no queue's is asked for.
    let run = client::fresh_run(&plan, options(schedule, tick), &QueueLimits::new(), now);
    Ok(run.map(|run| run.admit).map_err(|error| error.to_string()))
}

fn options(schedule: &Schedule, tick: Timestamp) -> RunStartOptions {
    let mut tags = schedule.tags.clone();
    tags.insert(TAG.to_owned(), schedule.name.clone());
    tags.insert(TICK_TAG.to_owned(), tick.to_string());
    RunStartOptions {
        input: Some(schedule.input.clone()),
        queue: schedule.queue.clone(),
        priority: Some(schedule.priority),
        tags,
        env: schedule.env.clone(),
        ..RunStartOptions::default()
    }
}

fn postponed(stored: &StoredSchedule, now: Timestamp) -> ScheduleWrite {
    let schedule = StoredSchedule {
        revision: Revision::from_uuid(Uuid::now_v7()),
        due: Some(now.plus(UNREADABLE_PAUSE)),
        waits: false,
        ..stored.clone()
    };
    ScheduleWrite {
        schedule,
        over: Some(stored.revision),
        admit: None,
        mail: None,
    }
}
