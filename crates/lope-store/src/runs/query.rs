//! Listing: which runs, from where, how many.

use std::collections::BTreeMap;

use lope_model::{QueueName, Realm, RunId, Timestamp};

use super::record::{RunRecord, RunStatus};

/// Where a listing goes on: behind this run, in the order youngest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cursor {
    pub created_at: Timestamp,
    pub run: RunId,
}

impl RunRecord {
    /// The place behind this run in a listing.
    pub fn cursor(&self) -> Cursor {
        Cursor {
            created_at: self.created_at,
            run: self.run,
        }
    }
}

/// Which runs. Absent fields say nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunFilter {
    /// Any of these; empty: all.
    pub statuses: Vec<RunStatus>,
    pub workflow: Option<String>,
    pub realm: Option<Realm>,
    pub queue: Option<QueueName>,
    /// All of these.
    pub tags: BTreeMap<String, String>,
    pub parent: Option<RunId>,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created before this time.
    pub until: Option<Timestamp>,
    pub after: Option<Cursor>,
    /// 0 means none; more than `limit::PAGE_MAX` means that many.
    pub limit: usize,
}

impl RunFilter {
    /// Is a run with this record and status what it says beside parent and time?
    pub fn describes(&self, record: &RunRecord, status: RunStatus) -> bool {
        let has_tag = |(tag, value)| record.tags.get(tag) == Some(value);
        (self.statuses.is_empty() || self.statuses.contains(&status))
            && is_or_any(self.workflow.as_ref(), &record.workflow)
            && is_or_any(self.realm.as_ref(), &record.realm)
            && is_or_any(self.queue.as_ref(), &record.queue)
            && self.tags.iter().all(has_tag)
    }
}

fn is_or_any<T: PartialEq>(wanted: Option<&T>, is: &T) -> bool {
    wanted.is_none_or(|wanted| wanted == is)
}

/// How many runs wait in a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueCount {
    pub queue: QueueName,
    /// Due now and unowned.
    pub due: u64,
    /// Unowned, due later.
    pub later: u64,
    pub owned: u64,
    pub parked: u64,
    /// Since when the oldest of those that are due has waited.
    pub oldest: Option<Timestamp>,
}

/// How many runs there are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunCounts {
    pub by_status: BTreeMap<&'static str, u64>,
    pub queues: Vec<QueueCount>,
}
