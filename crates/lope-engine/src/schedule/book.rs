//! The book of schedules in a store: add, change, take out, look up. Every change is written over the revision that was read.

use lope_model::{Revision, RunId, Timestamp, limit};
use lope_store::runs::{FoundSchedule, ScheduleWrite, Scheduled, StoredSchedule};
use lope_store::{Store, StoreError, StoreResult};
use uuid::Uuid;

use super::{Entry, Schedule};

/// How often a change is made anew because the schedule changed meanwhile; a schedule changes when it fires.
const TRIES_MAX: usize = 50;

/// A schedule as it is in the book.
#[derive(Clone, PartialEq, Debug)]
pub struct Booked {
    pub entry: Entry,
    pub last_run: Option<RunId>,
    /// Is its last run unfinished?
    pub running: bool,
}

/// What a change came to.
#[derive(Clone, PartialEq, Debug)]
pub enum Changed {
    Done(Box<Entry>),
    /// There is no schedule of this name.
    Missing,
}

/// Enter a schedule that begins now. Nothing: the name is taken.
pub async fn add(store: &Store, schedule: Schedule, now: Timestamp) -> StoreResult<Option<Entry>> {
    let entry = Entry::new(schedule, now);
    let write = writing(&entry, None, None);
    match store.runs.schedule(write).await? {
        Scheduled::Done => Ok(Some(entry)),
        Scheduled::Changed { .. } | Scheduled::NotAdmitted(_) => Ok(None),
    }
}

/// Enter a schedule, over one of the same name if there is one.
pub async fn put(store: &Store, schedule: Schedule, now: Timestamp) -> StoreResult<Entry> {
    for _ in 0..TRIES_MAX {
        match change(store, &schedule.name, |entry| entry.replace(schedule.clone(), now)).await? {
            Changed::Done(entry) => return Ok(*entry),
            Changed::Missing => {}
        }
        if let Some(entry) = add(store, schedule.clone(), now).await? {
            return Ok(entry);
        }
    }
    Err(contended(&schedule.name))
}

/// Change a schedule.
pub async fn change(store: &Store, name: &str, change: impl Fn(&mut Entry)) -> StoreResult<Changed> {
    for _ in 0..TRIES_MAX {
        let Some(found) = store.runs.find_schedule(name).await? else { return Ok(Changed::Missing) };
        let mut entry = read(&found.schedule)?;
        change(&mut entry);
        let write = writing(&entry, Some(&found.schedule), found.schedule.last_run);
        match store.runs.schedule(write).await? {
            Scheduled::Done => return Ok(Changed::Done(Box::new(entry))),
            Scheduled::Changed { .. } | Scheduled::NotAdmitted(_) => {}
        }
    }
    Err(contended(name))
}

pub async fn find(store: &Store, name: &str) -> StoreResult<Option<Booked>> {
    store.runs.find_schedule(name).await?.map(booked).transpose()
}

/// Every schedule, by name.
pub async fn all(store: &Store) -> StoreResult<Vec<Booked>> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = store.runs.schedules(after.as_deref(), limit::PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = Some(last.schedule.name.clone());
        for found in page {
            all.push(booked(found)?);
        }
    }
}

/// What writes an entry over what was read.
pub(super) fn writing(entry: &Entry, over: Option<&StoredSchedule>, last_run: Option<RunId>) -> ScheduleWrite {
    let schedule = StoredSchedule {
        name: entry.schedule.name.clone(),
        revision: Revision::from_uuid(Uuid::now_v7()),
        due: entry.due(),
        last_run,
        waits: entry.waits(),
        body: entry.encode(),
    };
    ScheduleWrite { schedule, over: over.map(|over| over.revision), admit: None, mail: None }
}

fn booked(found: FoundSchedule) -> StoreResult<Booked> {
    let FoundSchedule { schedule, running } = found;
    Ok(Booked { entry: read(&schedule)?, last_run: schedule.last_run, running })
}

fn read(stored: &StoredSchedule) -> StoreResult<Entry> {
    Entry::decode(stored).map_err(StoreError::corrupt)
}

fn contended(name: &str) -> StoreError {
    StoreError::unavailable(format!("schedule '{name}' kept changing"))
}
