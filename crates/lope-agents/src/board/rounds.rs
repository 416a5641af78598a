//! Rounds: a task that is held is worked on in a run of its workflow, which starts agents, one
//! attempt after the other. Each attempt is written down before its agent is started and when it has
//! ended; the end of the run says what becomes of the task, and gives its lock back.

use lope_model::id::TaskId;
use lope_model::{RunId, Timestamp};
use lope_store::board::{BoardSelect, TASK_ATTEMPTS, TASK_EVENTS, TASK_LOCKS, TASKS};

use super::claims::{LockLost, close, is_own, own_lock};
use super::{AgentBoard, BoardResult, HeldTask, TRIES_MAX, bounded, contended, pause, taken};
use crate::law::settle::{
    AttemptEnd, at_work, count, end_round, failures, is_unstarted, unstarted,
};
use crate::records::{
    AttemptRole, Author, BoardRecord, StopReason, TaskAttemptRecord, TaskEventKind,
    TaskEventRecord, TaskLockRecord, TaskRecord, TaskStatus,
};

/// After so many starts that failed the pause between them grows no more.
const UNSTARTED_MAX: usize = 20;

/// An agent that is to be started for a task.
#[derive(Clone, PartialEq, Debug)]
pub struct AttemptStart {
    pub role: AttemptRole,
    pub agent: String,
    /// The run of the round, and which of its executions this is.
    pub of: Option<(RunId, String)>,
    pub worktree: Option<String>,
}

impl AttemptStart {
    /// One that belongs to no run.
    pub fn alone(role: AttemptRole, agent: &str) -> Self {
        Self {
            role,
            agent: agent.to_owned(),
            of: None,
            worktree: None,
        }
    }
}

/// An attempt that was begun.
#[derive(Clone, PartialEq, Debug)]
pub struct StartedAttempt {
    pub held: HeldTask,
    pub attempt: TaskAttemptRecord,
}

/// Why no agent may be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotBegun {
    /// Somebody else holds the task.
    LockLost,
    /// Somebody decided about the task meanwhile.
    Decided,
}

impl AgentBoard {
    /// Write down which run a round is going to be, before there is one: whoever comes next finds
    /// it, or finds that there is none.
    pub async fn begin_round(
        &self,
        held: &HeldTask,
        run: RunId,
    ) -> BoardResult<Result<(), NotBegun>> {
        for tries in 1..=TRIES_MAX {
            let mut task = self.task(&held.task.id.to_string()).await?;
            if !is_open(&task) {
                return Ok(Err(NotBegun::Decided));
            }
            task.reason = Some(at_work(run));
            let changes = vec![own_lock(&held.lock), task.updated()];
            match self.board.commit(changes).await? {
                Ok(()) => return Ok(Ok(())),
                Err(conflict) if conflict.change == 0 => return Ok(Err(NotBegun::LockLost)),
                Err(_) => pause(tries).await,
            }
        }
        contended()
    }

    /// Write down that an agent is started for a task that we hold.
    pub async fn begin_attempt(
        &self,
        held: &HeldTask,
        start: &AttemptStart,
        log: impl Fn(i64) -> Option<String>,
    ) -> BoardResult<Result<StartedAttempt, NotBegun>> {
        for tries in 1..=TRIES_MAX {
            let id = held.task.id.to_string();
            let mut read = self
                .board
                .read(vec![
                    BoardSelect::all(TASKS).among("id", [&id]),
                    BoardSelect::all(TASK_ATTEMPTS)
                        .among("task_id", [&id])
                        .last(1),
                ])
                .await?;
            let tasks: Vec<TaskRecord> = taken(&mut read, 0)?;
            let last: Vec<TaskAttemptRecord> = taken(&mut read, 1)?;
            let Some(task) = tasks.first() else {
                return Ok(Err(NotBegun::LockLost));
            };
            if !is_open(task) {
                return Ok(Err(NotBegun::Decided));
            }
            let now = read.clock.now;
            let number = last.first().map_or(1, |last| last.number + 1);
            let mut attempt = opened(held, start, number, now);
            attempt.log = log(number);
            let mut changes = vec![own_lock(&held.lock)];
            changes.extend(self.moved(task, entered(task, start, now)));
            changes.push(attempt.clone().inserted());
            match self.board.commit(changes).await? {
                Ok(()) => {
                    return Ok(Ok(StartedAttempt {
                        held: held.clone(),
                        attempt,
                    }));
                }
                Err(conflict) if conflict.change == 0 => return Ok(Err(NotBegun::LockLost)),
                Err(_) => pause(tries).await,
            }
        }
        contended()
    }

    /// Write the session of an agent at work as soon as it tells it, so that the next attempt can go
    /// on in it whatever becomes of this one. A stale holder's is not written.
    pub async fn note_session(&self, started: &StartedAttempt, session: &str) -> BoardResult<()> {
        for tries in 1..=TRIES_MAX {
            let Some(mut attempt) = self.attempt_of(started).await? else {
                return Ok(());
            };
            attempt.session = Some(bounded(session));
            let changes = vec![own_lock(&started.held.lock), attempt.updated()];
            match self.board.commit(changes).await? {
                Ok(()) => return Ok(()),
                Err(conflict) if conflict.change == 0 => return Ok(()),
                Err(_) => pause(tries).await,
            }
        }
        contended()
    }

    /// Write what an attempt came to; its task stays ours. A stale holder's is refused and kept as
    /// evidence.
    pub async fn end_attempt(
        &self,
        started: &StartedAttempt,
        end: &AttemptEnd,
        measured: impl Fn(&mut TaskAttemptRecord),
    ) -> BoardResult<Result<TaskRecord, LockLost>> {
        let id = started.held.task.id;
        let end = &as_texts(end);
        for tries in 1..=TRIES_MAX {
            let task = self.task(&id.to_string()).await?;
            let now = self.now().await?;
            let lock = self.own_lock_of(&started.held).await?;
            let attempt = self.attempt_of(started).await?;
            let counted = count(&task, end, now);
            let (Some(lock), Some(counted), Some(mut attempt)) = (lock, counted, attempt) else {
                self.refuse(started, end).await?;
                return Ok(Err(LockLost));
            };
            measured(&mut attempt);
            close(&mut attempt, end.reason, counted.counted, now);
            attempt.summary.clone_from(&end.message);
            if end.session.is_some() {
                attempt.session.clone_from(&end.session);
            }
            let changes = vec![
                own_lock(&lock),
                counted.task.clone().updated(),
                attempt.updated(),
            ];
            if self.commit(changes).await? {
                return Ok(Ok(counted.task));
            }
            pause(tries).await;
        }
        contended()
    }

    /// Write what a round came to, and give the lock back. A stale holder writes nothing.
    pub async fn end_round(
        &self,
        held: &HeldTask,
        end: &AttemptEnd,
    ) -> BoardResult<Result<TaskRecord, LockLost>> {
        let id = held.task.id;
        let end = &as_texts(end);
        for tries in 1..=TRIES_MAX {
            let task = self.task(&id.to_string()).await?;
            let now = self.now().await?;
            let lock = self.own_lock_of(held).await?;
            let bad_ends = self.bad_ends(id, end).await?;
            let Some(lock) = lock.filter(|_| end.reason != StopReason::LostLock) else {
                return Ok(Err(LockLost));
            };
            let next = end_round(&task, end, bad_ends, &self.rules, now);
            let mut changes = self.moved(&task, next.clone());
            changes.push(lock.deleted());
            if end.reason == StopReason::Startup {
                let words = end.message.as_deref().unwrap_or_default();
                let kind = TaskEventKind::Unstarted;
                changes.push(self.event(id, kind, Author::Runner, words).await?);
            }
            if self.commit(changes).await? {
                return Ok(Ok(next));
            }
            pause(tries).await;
        }
        contended()
    }

    /// How often it went as badly so far, in succession, this time among them.
    async fn bad_ends(&self, task: TaskId, end: &AttemptEnd) -> BoardResult<u32> {
        let attempts = self.attempts_of(task).await?;
        let reset_at = self.reset_at(task).await?;
        if end.reason != StopReason::Startup {
            return Ok(failures(&attempts, end.role, reset_at));
        }
        let events = BoardSelect::all(TASK_EVENTS)
            .among("task_id", [task.to_string()])
            .among("kind", [TaskEventKind::Unstarted.as_str()]);
        let events: Vec<TaskEventRecord> = self.rows(events.last(UNSTARTED_MAX)).await?;
        Ok(unstarted(&attempts, &events, reset_at) + 1)
    }

    /// Tasks whose agents could not be started may be tried at once: a person says so.
    pub async fn start_at_once(&self, project: &str) -> BoardResult<()> {
        for tries in 1..=TRIES_MAX {
            let view = self.view(Some(project)).await?;
            let waiting = view.tasks.iter().filter(|task| is_unstarted(task));
            let now = waiting.map(|task| TaskRecord {
                not_before: None,
                ..task.clone()
            });
            let changes: Vec<_> = now.map(BoardRecord::updated).collect();
            if self.commit_in_parts(&changes).await? {
                return Ok(());
            }
            pause(tries).await;
        }
        contended()
    }

    async fn own_lock_of(&self, held: &HeldTask) -> BoardResult<Option<TaskLockRecord>> {
        let select = BoardSelect::all(TASK_LOCKS).among("task_id", [held.task.id.to_string()]);
        let locks: Vec<TaskLockRecord> = self.rows(select).await?;
        Ok(locks.into_iter().find(|lock| is_own(lock, &held.lock)))
    }

    /// An attempt as it is now, if nobody has ended it.
    async fn attempt_of(&self, started: &StartedAttempt) -> BoardResult<Option<TaskAttemptRecord>> {
        let all = self.attempts_of(started.held.task.id).await?;
        let mut own = all
            .into_iter()
            .filter(|attempt| attempt.number == started.attempt.number);
        Ok(own.next().filter(|attempt| attempt.ended_at.is_none()))
    }

    /// The attempts of a task.
    pub async fn attempts_of(&self, task: TaskId) -> BoardResult<Vec<TaskAttemptRecord>> {
        let select = BoardSelect::all(TASK_ATTEMPTS).among("task_id", [task.to_string()]);
        self.rows(select).await
    }

    /// When a task was last reset.
    pub(super) async fn reset_at(&self, task: TaskId) -> BoardResult<Option<Timestamp>> {
        let resets = BoardSelect::all(TASK_EVENTS)
            .among("task_id", [task.to_string()])
            .among("kind", [TaskEventKind::Reset.as_str()]);
        let last: Vec<TaskEventRecord> = self.rows(resets.last(1)).await?;
        Ok(last.first().map(|event| event.at))
    }

    async fn refuse(&self, started: &StartedAttempt, end: &AttemptEnd) -> BoardResult<()> {
        let words = format!(
            "attempt {} of runner {} under epoch {} came too late with '{}': {}",
            started.attempt.number,
            started.attempt.runner_id,
            started.attempt.epoch,
            end.reason,
            end.message.as_deref().unwrap_or_default()
        );
        self.keep_refused(started.held.task.id, Author::Runner, &words)
            .await
    }

    /// Keep what somebody wanted to write who may not, as evidence.
    pub(super) async fn keep_refused(
        &self,
        task: TaskId,
        author: Author,
        words: &str,
    ) -> BoardResult<()> {
        for tries in 1..=TRIES_MAX {
            let kind = TaskEventKind::Refused;
            let event = self.event(task, kind, author, words).await?;
            if self.commit(vec![event]).await? {
                return Ok(());
            }
            pause(tries).await;
        }
        contended()
    }
}

/// An end whose texts fit into columns.
fn as_texts(end: &AttemptEnd) -> AttemptEnd {
    AttemptEnd {
        message: end.message.as_deref().map(bounded),
        session: end.session.as_deref().map(bounded),
        ..end.clone()
    }
}

/// Is it worked on, and did nobody decide about it?
fn is_open(task: &TaskRecord) -> bool {
    let is_worked_on = matches!(task.status, TaskStatus::InProgress | TaskStatus::Review);
    is_worked_on && task.decided_by != Some(Author::Person)
}

/// The task while an agent is at work on it.
fn entered(task: &TaskRecord, start: &AttemptStart, now: Timestamp) -> TaskRecord {
    let mut next = task.clone();
    next.updated_at = now;
    next.status = match start.role {
        AttemptRole::Work => TaskStatus::InProgress,
        AttemptRole::Review => TaskStatus::Review,
    };
    if let Some((run, _)) = &start.of {
        next.reason = Some(at_work(*run));
    }
    next
}

fn opened(held: &HeldTask, start: &AttemptStart, number: i64, now: Timestamp) -> TaskAttemptRecord {
    let (run_id, execution) = start.of.clone().unzip();
    TaskAttemptRecord {
        task_id: held.task.id,
        number,
        revision: 1,
        project_path: held.task.project_path.clone(),
        role: start.role,
        agent: start.agent.clone(),
        runner_id: held.lock.runner_id,
        epoch: held.lock.epoch,
        run_id,
        execution,
        started_at: now,
        ended_at: None,
        stop_reason: None,
        counted: false,
        exit_code: None,
        wall_ms: 0,
        cost_micros: 0,
        tokens: 0,
        session: None,
        summary: None,
        log: None,
        worktree: start.worktree.clone(),
    }
}
