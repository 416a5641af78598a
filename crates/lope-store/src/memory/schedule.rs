//! `schedule`: schedules in the memory, written with the runs that they start.

use std::ops::Bound;

use lope_model::{Revision, Timestamp, limit};

use super::state::RunState;
use crate::clock::Reading;
use crate::runs::{
    Admit, Admitted, DueSchedules, FoundSchedule, ScheduleWrite, Scheduled, StoredSchedule,
};
use crate::verdict;

impl RunState {
    pub(super) fn schedule(&mut self, write: ScheduleWrite, reading: Reading) -> Scheduled {
        let stored = self.schedules.get(&write.schedule.name);
        if let Err(answer) = verdict::schedule(&write, stored.map(|stored| stored.revision)) {
            return answer;
        }
        let ScheduleWrite {
            schedule,
            admit,
            mail,
            ..
        } = write;
        if let Some(refused) = admit.and_then(|admit| self.refused(admit, reading)) {
            return Scheduled::NotAdmitted(refused);
        }
        if let Some(mail) = mail {
            self.deliver_one(mail, reading.now);
        }
        self.schedules.insert(schedule.name.clone(), schedule);
        Scheduled::Done
    }

    /// Admit the run; the answer, if it was not.
    fn refused(&mut self, admit: Admit, reading: Reading) -> Option<Admitted> {
        match self.admit_one(admit, reading) {
            Admitted::Created { .. } => None,
            refused @ (Admitted::Exists { .. } | Admitted::UnknownVersion) => Some(refused),
        }
    }

    pub(super) fn unschedule(&mut self, name: &str, over: Option<Revision>) -> bool {
        let found = self.schedules.get(name).map(|stored| stored.revision);
        let meant = found.is_some_and(|found| over.is_none_or(|over| over == found));
        if meant {
            self.schedules.remove(name);
        }
        meant
    }

    pub(super) fn find_schedule(&self, name: &str) -> Option<FoundSchedule> {
        self.schedules.get(name).map(|stored| self.found(stored))
    }

    pub(super) fn schedules(&self, after: Option<&str>, limit: usize) -> Vec<FoundSchedule> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let stored = self
            .schedules
            .range::<str, _>((from, Bound::Unbounded))
            .map(|(_, stored)| stored);
        stored
            .take(limit.min(limit::PAGE_MAX))
            .map(|stored| self.found(stored))
            .collect()
    }

    pub(super) fn due_schedules(&self, limit: usize, now: Timestamp) -> DueSchedules {
        let is_due = |stored: &&StoredSchedule| {
            stored.due.is_some_and(|due| due <= now) || (stored.waits && !self.is_running(stored))
        };
        let mut due: Vec<FoundSchedule> = self
            .schedules
            .values()
            .filter(is_due)
            .map(|stored| self.found(stored))
            .collect();
        due.sort_by(|one, other| order(one).cmp(&order(other)));
        due.truncate(limit.min(limit::PAGE_MAX));
        let next_due = self
            .schedules
            .values()
            .filter_map(|stored| stored.due)
            .filter(|due| *due > now)
            .min();
        DueSchedules {
            now,
            due,
            next_due,
            waits: self.schedules.values().any(|stored| stored.waits),
        }
    }

    fn found(&self, stored: &StoredSchedule) -> FoundSchedule {
        FoundSchedule {
            schedule: stored.clone(),
            running: self.is_running(stored),
        }
    }

    fn is_running(&self, stored: &StoredSchedule) -> bool {
        stored
            .last_run
            .and_then(|run| self.runs.get(&run))
            .is_some_and(|entry| entry.is_live())
    }
}

fn order(found: &FoundSchedule) -> (Timestamp, &str) {
    (
        found.schedule.due.unwrap_or(Timestamp::NEVER),
        &found.schedule.name,
    )
}
