//! What people, and agents for their own task, may decide. A decision of a person's is never undone
//! by automation; a person may undo it.

use lope_model::Timestamp;

use super::TaskRules;
use super::select::role;
use super::settle::{answered, completed, reject, wait_as};
use crate::records::{Author, ReviewBy, TaskEventKind, TaskRecord, TaskStatus};

/// How deep agents may split what was split.
pub const SPLIT_DEPTH_MAX: usize = 3;

/// What bounds the splits of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SplitFacts {
    /// How often it was split since it was last reset.
    pub times: usize,
    /// How many tasks it is a part of.
    pub depth: usize,
}

/// A decision about a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    Approve {
        notes: Option<String>,
    },
    Reject {
        notes: Option<String>,
    },
    Skip {
        notes: Option<String>,
    },
    /// To be worked on again, from the beginning: attempts and rejections count anew.
    Reset,
    /// Wait for a person's answer.
    Ask {
        question: String,
    },
    Answer {
        answer: String,
    },
    /// An agent says that its task is done.
    Done {
        result: Option<String>,
    },
    /// An agent says that its task cannot be done.
    Fail {
        reason: String,
    },
}

/// Why a decision is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    pub message: String,
}

impl Decision {
    pub const fn event(&self) -> TaskEventKind {
        match self {
            Self::Approve { .. } => TaskEventKind::Approved,
            Self::Reject { .. } => TaskEventKind::Rejected,
            Self::Skip { .. } => TaskEventKind::Skipped,
            Self::Reset => TaskEventKind::Reset,
            Self::Ask { .. } => TaskEventKind::Question,
            Self::Answer { .. } => TaskEventKind::Answer,
            Self::Done { .. } => TaskEventKind::Done,
            Self::Fail { .. } => TaskEventKind::Failed,
        }
    }

    /// What is said with it.
    pub fn words(&self) -> &str {
        match self {
            Self::Approve { notes } | Self::Reject { notes } | Self::Skip { notes } => {
                notes.as_deref().unwrap_or_default()
            }
            Self::Reset => "",
            Self::Ask { question: words }
            | Self::Answer { answer: words }
            | Self::Fail { reason: words } => words,
            Self::Done { result } => result.as_deref().unwrap_or_default(),
        }
    }
}

/// The task after a decision.
pub fn decide(
    task: &TaskRecord,
    decision: &Decision,
    author: Author,
    rules: &TaskRules,
    now: Timestamp,
) -> Result<TaskRecord, Refused> {
    use TaskStatus::{Blocked, Completed, Failed, InProgress, Pending, Review, Skipped};
    if author != Author::Person && task.decided_by == Some(Author::Person) {
        return Err(refused(task, "a person decided about it"));
    }
    let mut next = task.clone();
    next.updated_at = now;
    next.decided_by = (author == Author::Person).then_some(Author::Person);
    match (decision, task.status) {
        (Decision::Approve { .. }, Review | Blocked | Failed | InProgress) => {
            next.reason = None;
            completed(&mut next, now);
        }
        (Decision::Reject { notes }, Review | Blocked | Completed) => {
            reject(&mut next, notes.as_deref(), rules, now);
            // What a person sends back is worked on again.
            if next.status == Pending {
                next.decided_by = None;
            }
        }
        (Decision::Skip { notes }, Pending | InProgress | Review | Failed | Blocked) => {
            next.status = Skipped;
            next.completed_at = Some(now);
            next.reason.clone_from(notes);
        }
        (Decision::Reset, _) => reset(&mut next),
        (Decision::Ask { question }, Pending | InProgress | Review) => {
            ask(&mut next, question, author);
        }
        (Decision::Answer { .. }, _) if task.question.is_none() => {
            return Err(refused(task, "nothing was asked"));
        }
        (Decision::Answer { answer: words }, Pending | InProgress | Review | Blocked | Failed)
            if task.status != Failed || task.answer.is_none() =>
        {
            answer(&mut next, words);
        }
        (Decision::Done { result }, Pending | InProgress) => {
            done(&mut next, result.as_deref(), now);
        }
        (Decision::Fail { reason }, Pending | InProgress) => {
            next.status = Failed;
            next.completed_at = Some(now);
            next.reason = Some(reason.clone());
            next.decided_by = None;
        }
        (
            Decision::Approve { .. }
            | Decision::Reject { .. }
            | Decision::Skip { .. }
            | Decision::Ask { .. }
            | Decision::Answer { .. }
            | Decision::Done { .. }
            | Decision::Fail { .. },
            status,
        ) => return Err(refused(task, &format!("it is {status}"))),
    }
    Ok(next)
}

/// May somebody say that a task is done? Not while parts of it are open. A reviewer's word is about
/// work that is there.
pub fn may_be_done(task: &TaskRecord, dependencies: &[TaskRecord]) -> Result<(), Refused> {
    let parts = dependencies
        .iter()
        .filter(|it| it.parent_id == Some(task.id) && it.status != TaskStatus::Completed);
    let open: Vec<String> = parts.map(|part| part.id.to_string()).collect();
    if open.is_empty() || task.status == TaskStatus::Review {
        return Ok(());
    }
    Err(refused(
        task,
        &format!("it waits for its parts: {}", open.join(", ")),
    ))
}

/// May an agent split a task once more? One that splits at every start comes to an end.
pub fn may_split(task: &TaskRecord, facts: &SplitFacts, rules: &TaskRules) -> Result<(), Refused> {
    if facts.times >= rules.attempts_max as usize {
        let why = format!("it was split {} times already", facts.times);
        return Err(refused(task, &why));
    }
    if facts.depth >= SPLIT_DEPTH_MAX {
        let why = format!("it is a part of a part, {SPLIT_DEPTH_MAX} deep, and is not split");
        return Err(refused(task, &why));
    }
    Ok(())
}

/// An agent at work goes on meanwhile; otherwise the task waits for the answer.
fn ask(task: &mut TaskRecord, question: &str, author: Author) {
    task.question = Some(question.to_owned());
    task.answer = None;
    task.decided_by = None;
    let is_reviewer = task.status == TaskStatus::Review && author == Author::Agent;
    if task.status != TaskStatus::InProgress && !is_reviewer {
        wait_as(task, role(task));
    }
}

/// What waits for the answer goes on, and what failed before there was one.
fn answer(task: &mut TaskRecord, words: &str) {
    task.answer = Some(words.to_owned());
    task.decided_by = None;
    if matches!(task.status, TaskStatus::Blocked | TaskStatus::Failed) {
        answered(task);
    }
}

fn done(task: &mut TaskRecord, result: Option<&str>, now: Timestamp) {
    task.result = result.map(str::to_owned);
    task.reason = None;
    task.decided_by = None;
    match task.review {
        ReviewBy::None => completed(task, now),
        ReviewBy::Agent | ReviewBy::Person => task.status = TaskStatus::Review,
    }
}

fn reset(task: &mut TaskRecord) {
    task.status = TaskStatus::Pending;
    task.attempts = 0;
    task.rejections = 0;
    task.interrupted = false;
    task.not_before = None;
    task.reason = None;
    task.decided_by = None;
    task.question = None;
    task.answer = None;
    task.result = None;
    task.session = None;
    task.completed_at = None;
}

fn refused(task: &TaskRecord, why: &str) -> Refused {
    Refused {
        message: format!("task {}: {why}", task.id),
    }
}
