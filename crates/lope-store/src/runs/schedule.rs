//! Schedules: what starts runs again and again. The store keeps when each is due and what it
//! started last; what it means to be due is the engine's business, and a schedule's body is opaque
//! here.

use lope_model::{Revision, RunId, Timestamp};

use super::admit::{Admit, Admitted};
use super::deliver::Deliver;

/// A schedule as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSchedule {
    pub name: String,
    /// Of this writing; another one has another.
    pub revision: Revision,
    /// When it is looked at next; absent: no time makes it due.
    pub due: Option<Timestamp>,
    /// The run that it started last.
    pub last_run: Option<RunId>,
    /// Is it also due when its last run has ended?
    pub waits: bool,
    pub body: Vec<u8>,
}

/// A schedule as found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundSchedule {
    pub schedule: StoredSchedule,
    /// Is its last run unfinished?
    pub running: bool,
}

/// Write a schedule, with the run that it starts and the mail that it sends: all of it, or nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleWrite {
    /// What will be there.
    pub schedule: StoredSchedule,
    /// The revision that must be there; absent: none of this name.
    pub over: Option<Revision>,
    pub admit: Option<Admit>,
    /// Mail that cannot be delivered, because its run has ended or is gone, stands in nobody's way.
    pub mail: Option<Deliver>,
}

/// The answer to a writing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scheduled {
    /// Durable. Repeating a writing that happened is answered so too, and writes nothing.
    Done,
    /// Another revision is there, or none; nothing was written.
    Changed { found: Option<Revision> },
    /// The run could not be admitted; nothing was written.
    NotAdmitted(Admitted),
}

/// What is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DueSchedules {
    /// The store's clock.
    pub now: Timestamp,
    /// Due at this time, or waiting for a run that has ended; the earliest due first, then by name.
    pub due: Vec<FoundSchedule>,
    /// When the next one becomes due by its time.
    pub next_due: Option<Timestamp>,
    /// Does any wait for its last run?
    pub waits: bool,
}
