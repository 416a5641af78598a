//! What the end of an attempt means for its task: where it stands then, whether the attempt counts,
//! when it may be started again.
//!
//! | stop | after work | after a review | counted |
//! |---|---|---|---|
//! | `success` | `completed`, or `review` | `completed`, or back to `pending` when rejected | yes |
//! | `exit`, `timeout` | `failed` | `review` again, `blocked` after the last attempt | yes |
//! | `hang`, `runner_death` | `pending` at the next wake-up, `failed` after the last attempt | `review` again, `blocked` after the last attempt | yes |
//! | `usage_limit` | `pending` at its reset | `review` at its reset | no |
//! | `startup` | `pending` at the next wake-up, later each time | `review` at the next wake-up, later each time | no |
//! | `cancel`, `drain` | `pending` | `review` | no |
//! | `budget_exhausted` | `blocked` | `blocked` | no |
//! | `lost_lock` | nothing is written | nothing is written | no |
//!
//! The last attempt is the `maxAttempts`th of its role that ended badly, one after the other: what
//! went well in between, and what a person reset, begins the count anew. Rejections have a maximum of
//! their own. A day whose budget is used up blocks nothing: the task is `pending` and waits for the next.
//!
//! A task that its agent split is `pending` again after `success`, until its parts are completed.
//! A task whose agent asked something and got no answer waits for it, `blocked`, instead of going on;
//! with the answer it is worked on again, or reviewed again if its reviewer asked. One that failed with
//! its question open stays `failed` until then.

use lope_model::{RunId, Span, Timestamp};

use super::TaskRules;
use super::unstarted::pause_after;
use crate::records::{
    AttemptRole, Author, ReviewBy, StopReason, TaskAttemptRecord, TaskEventKind, TaskEventRecord,
    TaskRecord, TaskStatus,
};

/// A tool that met its limit is left alone for so long at least.
const LIMIT_PAUSE_MIN: Span = Span::from_secs(1);

/// How an attempt ended.
#[derive(Clone, PartialEq, Debug)]
pub struct AttemptEnd {
    pub role: AttemptRole,
    pub reason: StopReason,
    /// When a usage limit ends, if its tool said so; when the day ends whose budget is used up.
    pub reset: Option<Timestamp>,
    /// What a reviewer found.
    pub verdict: Option<ReviewVerdict>,
    /// The agent's last words, or what went wrong.
    pub message: Option<String>,
    /// The agent's own session.
    pub session: Option<String>,
    /// The agent split the task and did not say that it is done: it waits for its parts.
    pub is_split: bool,
}

/// What a review comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReviewVerdict {
    Approved,
    Rejected,
}

/// A task after an attempt.
#[derive(Clone, PartialEq, Debug)]
pub struct Settlement {
    pub task: TaskRecord,
    pub counted: bool,
}

/// When a tool that met its limit may be asked again: when the limit ends, or after this pause if it did
/// not say when. A time that has passed says nothing: asked again at once, the tool refuses again.
pub fn after_limit(reset: Option<Timestamp>, pause: Span, now: Timestamp) -> Timestamp {
    let reset = reset.filter(|reset| *reset > now);
    let at = reset.unwrap_or_else(|| now.plus(pause));
    at.max(now.plus(LIMIT_PAUSE_MIN))
}

/// What a task's `reason` says while a run is at work on it.
pub fn at_work(run: RunId) -> String {
    format!("run {run}")
}

/// The run that a task's `reason` names.
pub fn run_at_work(task: &TaskRecord) -> Option<RunId> {
    let reason = task.reason.as_deref()?;
    reason.strip_prefix("run ")?.parse().ok()
}

/// Does an attempt that ended so count?
pub const fn is_counted(reason: StopReason) -> bool {
    match reason {
        StopReason::Success
        | StopReason::Exit
        | StopReason::Timeout
        | StopReason::Hang
        | StopReason::RunnerDeath => true,
        StopReason::Startup
        | StopReason::UsageLimit
        | StopReason::Budget
        | StopReason::Cancel
        | StopReason::Drain
        | StopReason::LostLock => false,
    }
}

/// How many attempts of a role ended badly, one after the other, up to the last one; those before
/// `since`, when the task was reset, are forgotten.
pub fn failures(
    attempts: &[TaskAttemptRecord],
    role: AttemptRole,
    since: Option<Timestamp>,
) -> u32 {
    let own = attempts.iter().rev().filter(|attempt| attempt.role == role);
    let own = own.take_while(|attempt| since.is_none_or(|since| attempt.started_at >= since));
    let ends = own.filter_map(|attempt| attempt.stop_reason);
    let bad = ends.take_while(|reason| *reason != StopReason::Success);
    bad.filter(|reason| is_counted(*reason)).map(|_| 1).sum()
}

/// Starts of an agent that failed, in succession: since the last attempt that was more than that, and
/// since the task was reset.
pub fn unstarted(
    attempts: &[TaskAttemptRecord],
    events: &[TaskEventRecord],
    reset_at: Option<Timestamp>,
) -> u32 {
    let is_more = |it: &&TaskAttemptRecord| {
        it.stop_reason
            .is_some_and(|reason| reason != StopReason::Startup)
    };
    let last = attempts.iter().filter(is_more).map(|it| it.started_at);
    let since = last.chain(reset_at).max();
    let own = events.iter().filter(|event| {
        event.kind == TaskEventKind::Unstarted && since.is_none_or(|since| event.at >= since)
    });
    own.map(|_| 1).sum()
}

/// Does a task wait because its agent could not be started?
pub fn is_unstarted(task: &TaskRecord) -> bool {
    let reason = task.reason.as_deref().unwrap_or_default();
    task.not_before.is_some()
        && reason.starts_with(StopReason::Startup.as_str())
        && matches!(task.status, TaskStatus::Pending | TaskStatus::Review)
}

/// The task after an attempt that was the end of its round; nothing if the attempt may write
/// nothing. `bad_ends` are the [`failures`] of its role, this attempt among them; of a start that failed,
/// the [`unstarted`] ones, this one among them.
pub fn settle(
    task: &TaskRecord,
    end: &AttemptEnd,
    bad_ends: u32,
    rules: &TaskRules,
    now: Timestamp,
) -> Option<Settlement> {
    let counted = count(task, end, now)?;
    Some(Settlement {
        task: end_round(&counted.task, end, bad_ends, rules, now),
        ..counted
    })
}

/// The task after an attempt whose round may go on: it is counted, and stands where it stood.
pub fn count(task: &TaskRecord, end: &AttemptEnd, now: Timestamp) -> Option<Settlement> {
    if end.reason == StopReason::LostLock {
        return None;
    }
    let counted = is_counted(end.reason);
    let mut next = task.clone();
    next.attempts += i64::from(counted);
    next.updated_at = now;
    if let Some(session) = &end.session {
        next.session = Some(session.clone());
    }
    let is_work_done = end.role == AttemptRole::Work && end.reason == StopReason::Success;
    let is_decided = task.decided_by == Some(Author::Person);
    if is_work_done && !end.is_split && !is_decided {
        next.result.clone_from(&end.message);
    }
    Some(Settlement {
        task: next,
        counted,
    })
}

/// The task after its round, whose attempts were counted.
pub fn end_round(
    task: &TaskRecord,
    end: &AttemptEnd,
    bad_ends: u32,
    rules: &TaskRules,
    now: Timestamp,
) -> TaskRecord {
    let mut next = task.clone();
    next.updated_at = now;
    // What a person decided meanwhile stays.
    let decided = task.decided_by == Some(Author::Person);
    if !decided {
        place(&mut next, end, bad_ends, rules, now);
        wait_for_answer(&mut next, end);
    }
    next
}

/// Does a round go on after this attempt? Not after one that failed, asked something, fell apart or
/// gave no verdict.
pub fn goes_on(task: &TaskRecord, end: &AttemptEnd) -> bool {
    let is_asked = task.question.is_some() && task.answer.is_none();
    let has_said = match end.role {
        AttemptRole::Work => !end.is_split,
        AttemptRole::Review => end.verdict.is_some(),
    };
    end.reason == StopReason::Success && has_said && !is_asked
}

/// What the `reason` of a task says that waits for an answer; of a review that waits, so that it is
/// reviewed again and not worked on again.
const WORK_WAITS: &str = "it waits for an answer";
const REVIEW_WAITS: &str = "its review waits for an answer";

/// Nobody goes on with a task before its question is answered.
fn wait_for_answer(task: &mut TaskRecord, end: &AttemptEnd) {
    let is_asked = task.question.is_some() && task.answer.is_none();
    let goes_on = match task.status {
        TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Review => true,
        TaskStatus::Completed => task.decided_by.is_none(),
        // A reviewer that asked instead of giving a verdict, or that came to no end.
        TaskStatus::Blocked => end.role == AttemptRole::Review && end.reason != StopReason::Budget,
        TaskStatus::Failed | TaskStatus::Skipped => false,
    };
    if is_asked && goes_on {
        // What was rejected is worked on again.
        let role = match task.status {
            TaskStatus::Pending => AttemptRole::Work,
            TaskStatus::InProgress
            | TaskStatus::Review
            | TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Skipped
            | TaskStatus::Blocked => end.role,
        };
        wait_as(task, role);
    }
}

/// Blocked until somebody answers, to go on in this role then.
pub(super) fn wait_as(task: &mut TaskRecord, role: AttemptRole) {
    task.status = TaskStatus::Blocked;
    task.completed_at = None;
    let waits = match role {
        AttemptRole::Work => WORK_WAITS,
        AttemptRole::Review => REVIEW_WAITS,
    };
    task.reason = Some(waits.to_owned());
}

/// Blocked or failed no longer: its question was answered.
pub(super) fn answered(task: &mut TaskRecord) {
    let role = match task.reason.as_deref() {
        Some(REVIEW_WAITS) => AttemptRole::Review,
        Some(_) | None => AttemptRole::Work,
    };
    again(task, role);
    task.reason = None;
    task.completed_at = None;
}

fn place(
    task: &mut TaskRecord,
    end: &AttemptEnd,
    bad_ends: u32,
    rules: &TaskRules,
    now: Timestamp,
) {
    let is_last = bad_ends >= rules.attempts_max;
    task.reason = Some(end.reason.as_str().to_owned());
    task.not_before = None;
    task.interrupted = false;
    match (end.reason, end.role) {
        (StopReason::Success, AttemptRole::Work) if end.is_split => {
            again(task, AttemptRole::Work);
            task.reason = Some("it waits for its parts".to_owned());
        }
        (StopReason::Success, AttemptRole::Work) => worked(task, end, now),
        (StopReason::Success, AttemptRole::Review) => reviewed(task, end, rules, now),
        (StopReason::Exit | StopReason::Timeout, AttemptRole::Work) => {
            failed(task, end.message.as_deref(), now);
        }
        (StopReason::Hang | StopReason::RunnerDeath, AttemptRole::Work) if is_last => {
            failed(task, end.message.as_deref(), now);
        }
        (StopReason::Hang, AttemptRole::Work) => {
            again(task, AttemptRole::Work);
            task.not_before = Some(now.plus(rules.wakeup_interval));
        }
        (
            StopReason::Exit | StopReason::Timeout | StopReason::Hang | StopReason::RunnerDeath,
            AttemptRole::Review,
        ) if is_last => {
            task.status = TaskStatus::Blocked;
            task.reason = Some(format!("the review came to no end: {}", end.reason));
        }
        (StopReason::UsageLimit, role) => {
            again(task, role);
            task.not_before = Some(after_limit(end.reset, rules.limit_pause, now));
        }
        (StopReason::Startup, role) => {
            again(task, role);
            let pause = pause_after(bad_ends, rules.wakeup_interval);
            task.not_before = Some(now.plus(pause));
            explain(task, end.message.as_deref());
        }
        (StopReason::Budget, role) if end.reset.is_some() => {
            again(task, role);
            explain(task, end.message.as_deref());
        }
        (StopReason::Budget, _) => {
            task.status = TaskStatus::Blocked;
            explain(task, end.message.as_deref());
        }
        (StopReason::LostLock, _) => {}
        (
            StopReason::Exit
            | StopReason::Timeout
            | StopReason::Hang
            | StopReason::RunnerDeath
            | StopReason::Cancel
            | StopReason::Drain,
            role,
        ) => again(task, role),
    }
}

/// Back to where the attempt began.
fn again(task: &mut TaskRecord, role: AttemptRole) {
    task.status = match role {
        AttemptRole::Work => TaskStatus::Pending,
        AttemptRole::Review => TaskStatus::Review,
    };
    task.interrupted = role == AttemptRole::Work;
}

fn worked(task: &mut TaskRecord, end: &AttemptEnd, now: Timestamp) {
    task.result.clone_from(&end.message);
    task.reason = None;
    match task.review {
        ReviewBy::None => completed(task, now),
        ReviewBy::Agent | ReviewBy::Person => task.status = TaskStatus::Review,
    }
}

fn reviewed(task: &mut TaskRecord, end: &AttemptEnd, rules: &TaskRules, now: Timestamp) {
    match end.verdict {
        Some(ReviewVerdict::Approved) => {
            task.reason = None;
            completed(task, now);
        }
        Some(ReviewVerdict::Rejected) => reject(task, end.message.as_deref(), rules, now),
        // A reviewer that does not say what it found has not reviewed; a person looks at it.
        None => {
            task.status = TaskStatus::Blocked;
            task.reason = Some("the reviewer gave no verdict".to_owned());
        }
    }
}

/// Back with the reviewer's notes, or given up after the last rejection.
pub fn reject(task: &mut TaskRecord, notes: Option<&str>, rules: &TaskRules, now: Timestamp) {
    task.rejections += 1;
    task.reason = Some("rejected".to_owned());
    if task.rejections > i64::from(rules.rejections_max) {
        task.reason = Some(format!("rejected {} times", task.rejections));
        failed(task, notes, now);
        return;
    }
    again(task, AttemptRole::Work);
    task.completed_at = None;
    explain(task, notes);
}

pub(super) fn completed(task: &mut TaskRecord, now: Timestamp) {
    task.status = TaskStatus::Completed;
    task.completed_at = Some(now);
}

fn failed(task: &mut TaskRecord, message: Option<&str>, now: Timestamp) {
    task.status = TaskStatus::Failed;
    task.completed_at = Some(now);
    explain(task, message);
}

/// Say more about why a task stands where it does.
fn explain(task: &mut TaskRecord, message: Option<&str>) {
    if let (Some(message), Some(reason)) = (message, &mut task.reason) {
        *reason = format!("{reason}: {message}");
    }
}
