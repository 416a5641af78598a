//! The law of agents: pure functions from what was read to what is to be written.
//!
//! `settle`: what the end of an attempt means for its task. `decide`: what a person may decide.
//! `lock`: who holds a task. `select`: which task is next. `budget`: whether it may be started.
//! `seen`: how a runner stands. `unstarted`: when a start that failed is tried again. `waiting`: in which order tasks are added. `wakeup`: what becomes of the projects of a snapshot. `watched`: whose silence is believed. Times and facts about processes come in;
//! nothing here reads a clock, a store or a process.

pub mod budget;
pub mod decide;
pub mod lock;
pub mod seen;
pub mod select;
pub mod settle;
pub mod unstarted;
pub mod waiting;
pub mod wakeup;
pub mod watched;

use std::collections::{BTreeMap, BTreeSet};

use lope_model::id::TaskId;
use lope_model::{RunnerId, Span};
use lope_store::board::BoardClock;

use crate::records::{
    AgentRunnerRecord, Budget, ProjectRecord, SectionRecord, TaskLockRecord, TaskRecord,
};

/// The rules that settings give.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskRules {
    pub lock_expiry: Span,
    /// Most runners of one project.
    pub places: u32,
    /// A runner without a heartbeat for so long is held to be dead.
    pub stale_timeout: Span,
    /// Attempts after which a task that hangs is given up.
    pub attempts_max: u32,
    /// Rejections after which a task is given up.
    pub rejections_max: u32,
    /// How long a task that hung waits: until the next wake-up.
    pub wakeup_interval: Span,
    /// How long a usage limit without a reset time is waited for.
    pub limit_pause: Span,
    pub task_budget: Budget,
    pub project_budget: Budget,
    pub day_budget: Budget,
}

impl TaskRules {
    /// How long a runner of another machine is watched before its silence is believed: one that lives
    /// gives a sign of life meanwhile.
    pub const fn watch_time(&self) -> Span {
        Span::from_millis(self.stale_timeout.millis() / 2)
    }
}

impl Default for TaskRules {
    fn default() -> Self {
        Self {
            lock_expiry: Span::from_secs(60 * 60),
            places: 1,
            stale_timeout: Span::from_secs(5 * 60),
            attempts_max: 3,
            rejections_max: 3,
            wakeup_interval: Span::from_secs(60),
            limit_pause: Span::from_secs(15 * 60),
            task_budget: Budget::default(),
            project_budget: Budget::default(),
            day_budget: Budget::default(),
        }
    }
}

/// What is known about the process of a runner on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessProof {
    /// It is there, the same one.
    Alive,
    /// It has ended; another process may have its number.
    Gone,
    /// It is on another machine, or in another container.
    Unknown,
}

/// The board as it was at one moment, and what was found out about processes then.
#[derive(Clone, Debug)]
pub struct BoardView {
    pub clock: BoardClock,
    /// This machine's clock that stands still while the machine sleeps, in milliseconds.
    pub awake: i64,
    pub projects: Vec<ProjectRecord>,
    pub sections: Vec<SectionRecord>,
    /// Every task that is not completed.
    pub tasks: Vec<TaskRecord>,
    /// Dependencies of theirs that are not completed and are tasks of other projects; one that is
    /// neither here nor among the tasks is met.
    pub open_elsewhere: BTreeSet<TaskId>,
    pub locks: Vec<TaskLockRecord>,
    /// Runners that have not ended.
    pub runners: Vec<AgentRunnerRecord>,
    pub proofs: BTreeMap<RunnerId, ProcessProof>,
    /// Runners of other machines that were not watched for long: they may live.
    pub unwatched: BTreeSet<RunnerId>,
}

impl BoardView {
    pub fn runner(&self, id: RunnerId) -> Option<&AgentRunnerRecord> {
        self.runners.iter().find(|runner| runner.id == id)
    }

    pub fn proof(&self, id: RunnerId) -> ProcessProof {
        self.proofs
            .get(&id)
            .copied()
            .unwrap_or(ProcessProof::Unknown)
    }

    pub fn lock_of(&self, task: &TaskRecord) -> Option<&TaskLockRecord> {
        self.locks.iter().find(|lock| lock.task_id == task.id)
    }

    pub fn project(&self, path: &str) -> Option<&ProjectRecord> {
        self.projects.iter().find(|project| project.path == path)
    }
}
