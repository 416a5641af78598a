//! Which task is next: one order for all who ask.
//!
//! Eligible is a task that waits, whose dependencies are completed, whose section is not skipped and
//! has no other lock, and whose time has come. Reviews come first, then what was interrupted, then
//! the rest by priority and age.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lope_model::id::TaskId;
use lope_model::{RunnerId, Timestamp};

use super::lock::{LockStanding, standing};
use super::{BoardView, TaskRules};
use crate::records::{AttemptRole, ReviewBy, TaskRecord, TaskStatus};

/// Who asks, and for what.
#[derive(Clone, Debug, Default)]
pub struct TaskQuery<'a> {
    pub project: Option<&'a str>,
    pub section: Option<&'a str>,
    pub task: Option<TaskId>,
    pub me: Option<RunnerId>,
}

/// Why a task cannot be started now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotEligible {
    /// It is completed, failed, skipped or blocked, or a person reviews it.
    Status(TaskStatus),
    ProjectDisabled,
    SectionSkipped,
    /// These must be completed first.
    Waits(Vec<TaskId>),
    /// Not before this time.
    Early(Timestamp),
    /// Somebody else works on it.
    Locked(RunnerId),
    /// Somebody else works in its section.
    SectionLocked(RunnerId),
}

impl fmt::Display for NotEligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the task is {status}"),
            Self::ProjectDisabled => f.write_str("its project is disabled"),
            Self::SectionSkipped => f.write_str("its section is skipped"),
            Self::Waits(ids) => {
                let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
                write!(f, "it waits for {}", ids.join(", "))
            }
            Self::Early(time) => write!(f, "it may not be started before {time}"),
            Self::Locked(runner) => write!(f, "runner {runner} works on it"),
            Self::SectionLocked(runner) => write!(f, "runner {runner} works in its section"),
        }
    }
}

/// What a runner would do with a task: work, or review.
pub const fn role(task: &TaskRecord) -> AttemptRole {
    match task.status {
        TaskStatus::Review => AttemptRole::Review,
        TaskStatus::Pending
        | TaskStatus::InProgress
        | TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Skipped
        | TaskStatus::Blocked => AttemptRole::Work,
    }
}

/// Will a runner start this task, now or later, if nobody decides about it?
pub fn is_open(task: &TaskRecord) -> bool {
    match task.status {
        TaskStatus::Pending | TaskStatus::InProgress => true,
        TaskStatus::Review => task.review == ReviewBy::Agent,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Skipped | TaskStatus::Blocked => {
            false
        }
    }
}

/// Tasks that may be started now, the next one first.
pub fn eligible<'a>(
    view: &'a BoardView,
    query: &TaskQuery<'_>,
    rules: &TaskRules,
) -> Vec<&'a TaskRecord> {
    let facts = ViewFacts::of(view);
    let mut next: Vec<&TaskRecord> = wanted(view, query)
        .filter(|task| facts.objection(task, query.me, rules).is_none())
        .collect();
    next.sort_by_key(|task| rank(task));
    next
}

/// When the first of the tasks may be started that wait for nothing but their time.
pub fn first_time(view: &BoardView, query: &TaskQuery<'_>, rules: &TaskRules) -> Option<Timestamp> {
    let facts = ViewFacts::of(view);
    let times =
        wanted(view, query).filter_map(|task| match facts.objection(task, query.me, rules) {
            Some(NotEligible::Early(time)) => Some(time),
            _ => None,
        });
    times.min()
}

fn wanted<'a>(view: &'a BoardView, query: &TaskQuery<'_>) -> impl Iterator<Item = &'a TaskRecord> {
    view.tasks.iter().filter(|task| {
        query.project.is_none_or(|path| task.project_path == path)
            && query
                .section
                .is_none_or(|section| task.section_id.as_deref() == Some(section))
            && query.task.is_none_or(|id| task.id == id)
    })
}

/// Why a task may not be started now; nothing if it may.
pub fn objection(
    view: &BoardView,
    task: &TaskRecord,
    me: Option<RunnerId>,
    rules: &TaskRules,
) -> Option<NotEligible> {
    ViewFacts::of(view).objection(task, me, rules)
}

/// Reviews, then what was interrupted, then by priority and age.
fn rank(task: &TaskRecord) -> (u8, Reverse<i64>, Timestamp, TaskId) {
    let class = match task.status {
        TaskStatus::Review => 0,
        TaskStatus::InProgress => 1,
        TaskStatus::Pending
        | TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Skipped
        | TaskStatus::Blocked => {
            if task.interrupted {
                1
            } else {
                2
            }
        }
    };
    (class, Reverse(task.priority), task.created_at, task.id)
}

/// What is looked up for every task.
struct ViewFacts<'a> {
    view: &'a BoardView,
    open: BTreeSet<TaskId>,
    enabled: BTreeMap<&'a str, bool>,
    skipped: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> ViewFacts<'a> {
    fn of(view: &'a BoardView) -> Self {
        let projects = view.projects.iter();
        let sections = view.sections.iter().filter(|section| section.skipped);
        Self {
            view,
            open: (view.tasks.iter().map(|task| task.id))
                .chain(view.open_elsewhere.iter().copied())
                .collect(),
            enabled: projects
                .map(|project| (project.path.as_str(), project.enabled))
                .collect(),
            skipped: sections
                .map(|section| (section.project_path.as_str(), section.section_id.as_str()))
                .collect(),
        }
    }

    fn objection(
        &self,
        task: &TaskRecord,
        me: Option<RunnerId>,
        rules: &TaskRules,
    ) -> Option<NotEligible> {
        let lock = self.view.lock_of(task);
        let held = lock.map(|lock| (lock, standing(self.view, lock, me, rules)));
        match task.status {
            TaskStatus::Pending | TaskStatus::InProgress => {}
            TaskStatus::Review if task.review == ReviewBy::Agent => {}
            TaskStatus::Review
            | TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Skipped
            | TaskStatus::Blocked => return Some(NotEligible::Status(task.status)),
        }
        if self.enabled.get(task.project_path.as_str()) == Some(&false) {
            return Some(NotEligible::ProjectDisabled);
        }
        let section = task.section_id.as_deref();
        if section.is_some_and(|section| self.skipped.contains(&(&task.project_path, section))) {
            return Some(NotEligible::SectionSkipped);
        }
        let waits: Vec<TaskId> = task.dependencies.iter().copied().collect();
        let waits: Vec<TaskId> = waits
            .into_iter()
            .filter(|id| self.open.contains(id))
            .collect();
        if !waits.is_empty() {
            return Some(NotEligible::Waits(waits));
        }
        if let Some(early) = task.not_before.filter(|time| *time > self.view.clock.now) {
            return Some(NotEligible::Early(early));
        }
        if let Some((lock, LockStanding::Held)) = held {
            return Some(NotEligible::Locked(lock.runner_id));
        }
        self.neighbour(task, me, rules)
            .map(NotEligible::SectionLocked)
    }

    /// Who works on another task of the same section.
    fn neighbour(
        &self,
        task: &TaskRecord,
        me: Option<RunnerId>,
        rules: &TaskRules,
    ) -> Option<RunnerId> {
        let section = task.section_id.as_deref()?;
        let mut neighbours = self.view.locks.iter().filter(|lock| {
            lock.task_id != task.id
                && lock.project_path == task.project_path
                && lock.section_id.as_deref() == Some(section)
        });
        let held = neighbours.find(|lock| !standing(self.view, lock, me, rules).is_free());
        held.map(|lock| lock.runner_id)
    }
}
