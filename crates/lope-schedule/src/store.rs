//! Schedules in a store: add, change, take out, look up. Every change is written over
//! the revision that was read.

use lope_model::{Revision, RunId, Timestamp, limit};
use lope_store::runs::{FoundSchedule, ScheduleWrite, Scheduled, StoredSchedule};
use lope_store::{Store, StoreError, StoreResult};
use uuid::Uuid;

use crate::{Schedule, ScheduleEntry};

/// How often a change is made anew because the schedule changed meanwhile; a schedule changes when
/// it fires.
const TRIES_MAX: usize = 50;

/// A schedule as it stands in a store.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleRecord {
    pub entry: ScheduleEntry,
    pub last_run: Option<RunId>,
    /// Is its last run unfinished?
    pub running: bool,
}

/// What a change came to.
#[derive(Clone, PartialEq, Debug)]
pub enum ScheduleChange {
    Done(Box<ScheduleEntry>),
    /// There is no schedule of this name.
    Missing,
}

/// Enter a schedule that begins now. Nothing: the name is taken.
pub async fn add(
    store: &Store,
    schedule: Schedule,
    now: Timestamp,
) -> StoreResult<Option<ScheduleEntry>> {
    let entry = ScheduleEntry::new(schedule, now);
    let write = writing(&entry, None, None);
    match store.runs.schedule(write).await? {
        Scheduled::Done => Ok(Some(entry)),
        Scheduled::Changed { .. } | Scheduled::NotAdmitted(_) => Ok(None),
    }
}

/// Enter a schedule, over one of the same name if there is one.
pub async fn put(store: &Store, schedule: Schedule, now: Timestamp) -> StoreResult<ScheduleEntry> {
    for _ in 0..TRIES_MAX {
        match change(store, &schedule.name, |entry| {
            entry.replace(schedule.clone(), now);
        })
        .await?
        {
            ScheduleChange::Done(entry) => return Ok(*entry),
            ScheduleChange::Missing => {}
        }
        if let Some(entry) = add(store, schedule.clone(), now).await? {
            return Ok(entry);
        }
    }
    Err(contended(&schedule.name))
}

/// Change a schedule.
pub async fn change(
    store: &Store,
    name: &str,
    change: impl Fn(&mut ScheduleEntry),
) -> StoreResult<ScheduleChange> {
    for _ in 0..TRIES_MAX {
        let Some(found) = store.runs.find_schedule(name).await? else {
            return Ok(ScheduleChange::Missing);
        };
        let mut entry = ScheduleEntry::decode(&found.schedule)?;
        change(&mut entry);
        let write = writing(&entry, Some(&found.schedule), found.schedule.last_run);
        match store.runs.schedule(write).await? {
            Scheduled::Done => return Ok(ScheduleChange::Done(Box::new(entry))),
            Scheduled::Changed { .. } | Scheduled::NotAdmitted(_) => {}
        }
    }
    Err(contended(name))
}

pub async fn find(store: &Store, name: &str) -> StoreResult<Option<ScheduleRecord>> {
    store
        .runs
        .find_schedule(name)
        .await?
        .map(record)
        .transpose()
}

/// Every schedule, by name.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct ScheduleList {
    pub records: Vec<ScheduleRecord>,
    /// Those that cannot be read.
    pub damaged: Vec<DamagedSchedule>,
}

/// A schedule that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedSchedule {
    pub name: String,
    /// Why, and what mends it.
    pub why: String,
}

/// Every schedule; one that cannot be read hides no other.
pub async fn all(store: &Store) -> StoreResult<ScheduleList> {
    let mut all = ScheduleList::default();
    let mut after = None::<String>;
    loop {
        let page = store
            .runs
            .schedules(after.as_deref(), limit::PAGE_MAX)
            .await?;
        let Some(last) = page.last() else {
            return Ok(all);
        };
        after = Some(last.schedule.name.clone());
        for found in page {
            let name = found.schedule.name.clone();
            match record(found) {
                Ok(record) => all.records.push(record),
                Err(StoreError::Corrupt { message: why }) => {
                    all.damaged.push(DamagedSchedule { name, why });
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What writes an entry over what was read.
pub fn writing(
    entry: &ScheduleEntry,
    over: Option<&StoredSchedule>,
    last_run: Option<RunId>,
) -> ScheduleWrite {
    let schedule = StoredSchedule {
        name: entry.schedule.name.clone(),
        revision: Revision::from_uuid(Uuid::now_v7()),
        due: entry.due(),
        last_run,
        waits: entry.waits(),
        body: entry.encode(),
    };
    ScheduleWrite {
        schedule,
        over: over.map(|over| over.revision),
        admit: None,
        mail: None,
    }
}

fn record(found: FoundSchedule) -> StoreResult<ScheduleRecord> {
    let FoundSchedule { schedule, running } = found;
    Ok(ScheduleRecord {
        entry: ScheduleEntry::decode(&schedule)?,
        last_run: schedule.last_run,
        running,
    })
}

fn contended(name: &str) -> StoreError {
    StoreError::unavailable(format!("schedule '{name}' kept changing"))
}
