//! Firing: what is due in a store is looked at, decided by the law of schedules, and written together with the run that it starts.
//!
//! Any number of runners may look at once: a tick is written over the revision that was read, so one of them starts its run. A tick
//! that cannot start a run says why in the schedule's standing, and is over.

use lope_flow::fits::fits;
use lope_flow::law::EventKind;
use lope_model::{Revision, RunId, Span, Timestamp};
use lope_store::runs::{Admit, Admitted, FoundSchedule, ScheduleWrite, Scheduled, StoredSchedule, check};
use lope_store::{Store, StoreError, StoreResult};
use uuid::Uuid;

use super::book::writing;
use super::decide::{Decision, Start};
use super::{Entry, Schedule, TAG, TICK_TAG};
use crate::client::{self, StartOptions};
use crate::codec;
use crate::drive::plans::Plans;

/// A schedule that this program cannot read is left alone for so long: a younger one may have written it.
const UNREADABLE_PAUSE: Span = Span::from_secs(60);

/// Schedules that are dealt with side by side: stores put what comes together into one transaction.
const LANES: usize = 4;

/// What one look at a store came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Looked {
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

/// Deal with one tick of each schedule that is due, of at most `limit` schedules.
pub async fn look(store: &Store, limit: usize) -> StoreResult<Looked> {
    look_from(store, &Plans::default(), limit, 0).await
}

/// The same, from another place in the line on: runners that look at once begin at different places and rarely meet.
pub(crate) async fn look_from(store: &Store, plans: &Plans, limit: usize, place: usize) -> StoreResult<Looked> {
    let mut found = store.runs.due_schedules(limit).await?;
    let (now, due) = (found.now, found.due.len());
    found.due.rotate_left(place.checked_rem(due).unwrap_or(0));
    let lane = |number| fire_each(store, plans, found.due.iter().skip(number).step_by(LANES), now);
    let (one, two, three, four) = tokio::join!(lane(0), lane(1), lane(2), lane(3));
    let started = [one?, two?, three?, four?].concat();
    Ok(Looked { now, due, started, next_due: found.next_due, waits: found.waits })
}

/// Start a run of a schedule now, beside whatever its ticks do. The run, or why there is none.
pub async fn at_once(store: &Store, schedule: &Schedule, now: Timestamp) -> StoreResult<Result<RunId, String>> {
    let admit = match admission(store, &Plans::default(), schedule, (now, now)).await? {
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
async fn fire(store: &Store, plans: &Plans, found: &FoundSchedule, now: Timestamp) -> StoreResult<Option<RunId>> {
    let stored = &found.schedule;
    let entry = match Entry::decode(stored) {
        Ok(entry) => entry,
        Err(error) => {
            tracing::error!(%error, "a schedule is left alone for a while");
            store.runs.schedule(postponed(stored, now)).await?;
            return Ok(None);
        }
    };
    let Decision { entry, start } = entry.decide(now, found.running);
    let Some(start) = start else {
        store.runs.schedule(writing(&entry, Some(stored), stored.last_run)).await?;
        return Ok(None);
    };
    match admission(store, plans, &entry.schedule, (start.tick, now)).await? {
        Ok(admit) => begin(store, stored, (entry, start), admit, now).await,
        Err(why) => give_up(store, stored, (entry, start), now, why).await,
    }
}

/// The tick, its run and the cancel of the last one, together.
async fn begin(
    store: &Store,
    stored: &StoredSchedule,
    (entry, start): (Entry, Start),
    admit: Admit,
    now: Timestamp,
) -> StoreResult<Option<RunId>> {
    let (run, mut fired) = (admit.run, entry.clone());
    fired.started(start);
    let cancelled = stored.last_run.filter(|_| start.cancels);
    let mail = cancelled.map(|other| {
        codec::mail(other, format!("{TAG} {} {}", stored.name, start.tick), &EventKind::Cancel { force: false })
    });
    let write = ScheduleWrite { admit: Some(admit), mail, ..writing(&fired, Some(stored), Some(run)) };
    match store.runs.schedule(write).await {
        Ok(Scheduled::Done) => Ok(Some(run)),
        // Another runner was first, or somebody changed the schedule.
        Ok(Scheduled::Changed { .. }) => Ok(None),
        Ok(Scheduled::NotAdmitted(answer)) => give_up(store, stored, (entry, start), now, refusal(&answer)).await,
        Err(StoreError::Refused { message }) => give_up(store, stored, (entry, start), now, message).await,
        Err(error) => Err(error),
    }
}

async fn give_up(
    store: &Store,
    stored: &StoredSchedule,
    (mut entry, start): (Entry, Start),
    now: Timestamp,
    why: String,
) -> StoreResult<Option<RunId>> {
    tracing::warn!(schedule = stored.name, tick = %start.tick, why, "a tick started no run");
    entry.failed(start, now, why);
    store.runs.schedule(writing(&entry, Some(stored), stored.last_run)).await?;
    Ok(None)
}

fn refusal(answer: &Admitted) -> String {
    match answer {
        Admitted::Exists { run } => format!("run {run} is there already"),
        Admitted::UnknownVersion => "its workflow is not deployed any more".to_owned(),
        Admitted::Created { .. } => "it was admitted".to_owned(),
    }
}

/// The run of a tick, or why there can be none.
async fn admission(
    store: &Store,
    plans: &Plans,
    schedule: &Schedule,
    (tick, now): (Timestamp, Timestamp),
) -> StoreResult<Result<Admit, String>> {
    let Some(stored) = store.runs.latest(&schedule.workflow).await? else {
        return Ok(Err(format!("no workflow '{}' is deployed", schedule.workflow)));
    };
    let plan = match plans.get(store, stored.version).await {
        Ok(plan) => plan,
        Err(error) if error.is_passing() => return Err(error),
        Err(error) => return Ok(Err(error.to_string())),
    };
    if let Err(misfit) = fits(&plan.definition().input, &schedule.input) {
        return Ok(Err(format!("the input does not fit the workflow '{}': {misfit}", schedule.workflow)));
    }
    let admit = client::admission(&plan, options(schedule, tick), now);
    Ok(check::admits(std::slice::from_ref(&admit)).map(|()| admit).map_err(|error| error.to_string()))
}

fn options(schedule: &Schedule, tick: Timestamp) -> StartOptions {
    let mut tags = schedule.tags.clone();
    tags.insert(TAG.to_owned(), schedule.name.clone());
    tags.insert(TICK_TAG.to_owned(), tick.to_string());
    StartOptions {
        input: Some(schedule.input.clone()),
        queue: schedule.queue.clone(),
        priority: schedule.priority,
        tags,
        env: schedule.env.clone(),
        ..StartOptions::default()
    }
}

fn postponed(stored: &StoredSchedule, now: Timestamp) -> ScheduleWrite {
    let schedule = StoredSchedule {
        revision: Revision::from_uuid(Uuid::now_v7()),
        due: Some(now.plus(UNREADABLE_PAUSE)),
        waits: false,
        ..stored.clone()
    };
    ScheduleWrite { schedule, over: Some(stored.revision), admit: None, mail: None }
}
