//! Claims: a task is taken with a lock under a new epoch, the lock is renewed while its holder works,
//! and everything written for the task names that lock. A holder that lost it writes nothing; what it
//! wanted to write is kept as evidence.

use std::collections::BTreeMap;

use lope_model::id::TaskId;
use lope_model::{RunnerId, Span, Timestamp};
use lope_store::board::{BoardChange, BoardSelect, RUNNERS, TASK_LOCKS, TASKS};
use lope_store::transfer::TransferValue;

use super::{AgentBoard, BoardResult, TRIES_MAX, contended, pause, taken};
use crate::law::budget::{Exhausted, exhausted, looks_back};
use crate::law::lock::{acquired, standing};
use crate::law::select::{NotEligible, TaskQuery, eligible, first_time, objection, role};
use crate::law::settle::{AttemptEnd, failures, run_at_work, settle};
use crate::law::{BoardView, TaskRules};
use crate::records::{
    AgentRunnerRecord, AttemptRole, BoardRecord, Budget, RunnerStatus, StopReason,
    TaskAttemptRecord, TaskLockRecord, TaskRecord, TaskStatus,
};

/// A task that is ours for a while.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldTask {
    pub task: TaskRecord,
    pub lock: TaskLockRecord,
    pub role: AttemptRole,
}

/// What became of a claim.
#[derive(Clone, PartialEq, Debug)]
pub enum ClaimOutcome {
    Claimed(Box<HeldTask>),
    /// The task that was asked for cannot be taken now.
    NotNow(NotEligible),
    /// No task can be taken now.
    Nothing,
    /// None before this time.
    Early(Timestamp),
    /// Tasks wait for the next day: the budget of this one is used up.
    NextDay(Timestamp),
    /// The next task's budget is used up; it is blocked now.
    Exhausted {
        task: TaskId,
        reason: String,
    },
}

/// Somebody else holds the task, or it was taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockLost;

impl AgentBoard {
    /// Take the next task that matches, or the one that is named.
    pub async fn claim(
        &self,
        query: &TaskQuery<'_>,
        me: RunnerId,
        expiry: Span,
    ) -> BoardResult<ClaimOutcome> {
        let query = TaskQuery {
            me: Some(me),
            ..query.clone()
        };
        let mut view = self.view(query.project).await?;
        for tries in 1..=TRIES_MAX {
            if self.bring_back(&view).await? {
                view = self.view(query.project).await?;
                continue;
            }
            view = match self.turn(&view, &query, me, expiry).await? {
                ClaimTurn::Over(outcome) => return Ok(outcome),
                ClaimTurn::Settled => self.view(query.project).await?,
                ClaimTurn::Lost(task) => {
                    pause(tries).await;
                    match tries {
                        1 => self.seen_again(view, &task).await?,
                        _ => self.view(query.project).await?,
                    }
                }
            };
        }
        contended()
    }

    /// Try once to take the first task that may be begun.
    async fn turn(
        &self,
        view: &BoardView,
        query: &TaskQuery<'_>,
        me: RunnerId,
        expiry: Span,
    ) -> BoardResult<ClaimTurn> {
        let Claim {
            held,
            changes,
            lock_at,
        } = match self.next_claim(view, query, me, expiry).await? {
            NextClaim::Nothing => return Ok(ClaimTurn::Over(self.not_now(view, query).await?)),
            NextClaim::NextDay(day) => return Ok(ClaimTurn::Over(ClaimOutcome::NextDay(day))),
            NextClaim::UsedUp { task, reason } => {
                if !self.block(&task, &reason, view).await? {
                    return Ok(ClaimTurn::Lost(task));
                }
                let task = task.id;
                return Ok(ClaimTurn::Over(ClaimOutcome::Exhausted { task, reason }));
            }
            NextClaim::Ready(claim) => claim,
        };
        Ok(match (self.board.commit(changes).await?, lock_at) {
            (Ok(()), Some(_)) => ClaimTurn::Over(ClaimOutcome::Claimed(held)),
            (Ok(()), None) => ClaimTurn::Settled,
            (Err(conflict), Some(lock_at))
                if conflict.change == lock_at && is_all(view, query, &held.task, &self.rules) =>
            {
                ClaimTurn::Over(ClaimOutcome::Nothing)
            }
            (Err(_), _) => ClaimTurn::Lost(Box::new(held.task)),
        })
    }

    /// The view with a task that was lost to somebody as it is now, and the locks of its project.
    async fn seen_again(&self, mut view: BoardView, lost: &TaskRecord) -> BoardResult<BoardView> {
        let path = lost.project_path.as_str();
        let task = BoardSelect::all(TASKS).among("id", [lost.id.to_string()]);
        let locks = BoardSelect::all(TASK_LOCKS).among("project_path", [path]);
        let mut read = self.board.read(vec![task, locks]).await?;
        let now: Vec<TaskRecord> = taken(&mut read, 0)?;
        let locks: Vec<TaskLockRecord> = taken(&mut read, 1)?;
        view.tasks.retain(|task| task.id != lost.id);
        let open = now.into_iter();
        view.tasks
            .extend(open.filter(|task| task.status != TaskStatus::Completed));
        view.locks.retain(|lock| lock.project_path != path);
        view.locks.extend(locks);
        view.clock = read.clock;
        Ok(view)
    }

    /// The claim of the first task that may be begun. One that waits for the next day is passed over:
    /// what is left of a round may still be ended.
    async fn next_claim(
        &self,
        view: &BoardView,
        query: &TaskQuery<'_>,
        me: RunnerId,
        expiry: Span,
    ) -> BoardResult<NextClaim> {
        let mut known: BTreeMap<&str, Vec<TaskAttemptRecord>> = BTreeMap::new();
        let mut next_day = None;
        for task in eligible(view, query, &self.rules) {
            let path = task.project_path.as_str();
            if looks_back(task, &self.rules) && !known.contains_key(path) {
                known.insert(path, self.attempts(path).await?);
            }
            let attempts = known.get(path).map_or(&[][..], Vec::as_slice);
            let left = self.left_attempts(task, attempts).await?;
            let lock = acquired(view, task, me, expiry);
            let claim = Claim::of(self, view, task, &left, lock);
            // What is left of a round may be its end alone; before each agent it is asked again.
            let is_begun = claim.lock_at.is_some() && run_at_work(task).is_none();
            let used_up = exhausted(task, attempts, &self.rules, view.clock.now);
            match used_up.filter(|_| is_begun) {
                None => return Ok(NextClaim::Ready(claim)),
                Some(Exhausted {
                    reason,
                    until: None,
                }) => {
                    let task = Box::new(task.clone());
                    return Ok(NextClaim::UsedUp { task, reason });
                }
                Some(Exhausted { until, .. }) => next_day = until,
            }
        }
        Ok(next_day.map_or(NextClaim::Nothing, NextClaim::NextDay))
    }

    /// Could tasks of a project be begun, were the budget of the day not used up?
    pub async fn waits_for_next_day(&self, view: &BoardView, project: &str) -> BoardResult<bool> {
        if self.rules.day_budget == Budget::default() {
            return Ok(false);
        }
        let query = TaskQuery {
            project: Some(project),
            ..TaskQuery::default()
        };
        let nobody = RunnerId::from_uuid(uuid::Uuid::nil());
        let next = self.next_claim(view, &query, nobody, self.rules.lock_expiry);
        Ok(matches!(next.await?, NextClaim::NextDay(_)))
    }

    /// What runners left open of a task, and how often it went badly so far.
    async fn left_attempts(
        &self,
        task: &TaskRecord,
        attempts: &[TaskAttemptRecord],
    ) -> BoardResult<LeftAttempts> {
        let own = attempts.iter().filter(|attempt| attempt.task_id == task.id);
        let own: Vec<TaskAttemptRecord> = own.cloned().collect();
        let open = own.iter().filter(|attempt| attempt.ended_at.is_none());
        let open: Vec<TaskAttemptRecord> = open.cloned().collect();
        let role = open.last().map_or(role(task), |attempt| attempt.role);
        let failures = if open.is_empty() {
            0
        } else {
            failures(&own, role, self.reset_at(task.id).await?) + 1
        };
        Ok(LeftAttempts {
            open,
            role,
            failures,
        })
    }

    async fn not_now(&self, view: &BoardView, query: &TaskQuery<'_>) -> BoardResult<ClaimOutcome> {
        let Some(id) = query.task else {
            let first = first_time(view, query, &self.rules);
            return Ok(first.map_or(ClaimOutcome::Nothing, ClaimOutcome::Early));
        };
        let found = match view.tasks.iter().find(|task| task.id == id) {
            Some(task) => task.clone(),
            None => self.task(&id.to_string()).await?,
        };
        let why = objection(view, &found, query.me, &self.rules);
        let why = why.unwrap_or(NotEligible::Status(found.status));
        Ok(ClaimOutcome::NotNow(why))
    }

    async fn block(&self, task: &TaskRecord, reason: &str, view: &BoardView) -> BoardResult<bool> {
        let mut next = task.clone();
        next.status = TaskStatus::Blocked;
        next.reason = Some(format!("{}: {reason}", StopReason::Budget));
        next.updated_at = view.clock.now;
        let mut changes = self.moved(task, next);
        changes.extend(view.lock_of(task).map(BoardRecord::deleted));
        self.commit(changes).await
    }

    /// Extend a lock, with a sign of life of its holder in the same commit. Refused if it is no
    /// longer ours.
    pub async fn renew(
        &self,
        held: &mut HeldTask,
        expiry: Span,
    ) -> BoardResult<Result<(), LockLost>> {
        for tries in 1..=TRIES_MAX {
            let lock = BoardSelect::all(TASK_LOCKS).among("task_id", [held.task.id.to_string()]);
            let holder = BoardSelect::all(RUNNERS).among("id", [held.lock.runner_id.to_string()]);
            let mut read = self.board.read(vec![lock, holder]).await?;
            let holder: Vec<AgentRunnerRecord> = taken(&mut read, 1)?;
            let found = read.rows[0].first().map(TaskLockRecord::from_row);
            let found = found.transpose()?.filter(|lock| is_own(lock, &held.lock));
            let Some(mut lock) = found else {
                return Ok(Err(LockLost));
            };
            lock.expires_at = read.clock.now.plus(expiry);
            lock.expires = read.clock.moment.plus(expiry);
            lock.boot_id = read.clock.boot_id;
            let live = holder.into_iter().filter(|it| it.completed_at.is_none());
            let beats = live.map(|holder| AgentRunnerRecord {
                status: RunnerStatus::Running,
                current_task_id: Some(held.task.id),
                heartbeat_at: read.clock.now,
                beat: read.clock.moment,
                awake: self.facts.awake(),
                ..holder
            });
            let changes = beats.map(BoardRecord::renewed);
            let changes = changes.chain([lock.clone().renewed()]).collect();
            if self.commit(changes).await? {
                lock.revision += 1;
                held.lock = lock;
                return Ok(Ok(()));
            }
            pause(tries).await;
        }
        contended()
    }

    /// Give a task back that no agent was started for.
    pub async fn give_back(&self, held: &HeldTask) -> BoardResult<()> {
        let id = held.task.id.to_string();
        for tries in 1..=TRIES_MAX {
            let select = BoardSelect::all(TASK_LOCKS).among("task_id", [&id]);
            let locks: Vec<TaskLockRecord> = self.rows(select).await?;
            let Some(lock) = locks.into_iter().find(|lock| is_own(lock, &held.lock)) else {
                return Ok(());
            };
            let mut changes = vec![lock.deleted()];
            let task = self.task(&id).await?;
            if task.status == TaskStatus::InProgress {
                let mut next = task.clone();
                next.status = TaskStatus::Pending;
                next.interrupted = held.task.interrupted;
                changes.extend(self.moved(&task, next));
            }
            if self.commit(changes).await? {
                return Ok(());
            }
            pause(tries).await;
        }
        contended()
    }
}

/// What comes of one turn of a claim.
enum ClaimTurn {
    Over(ClaimOutcome),
    /// What a dead runner left was settled; the next turn decides anew.
    Settled,
    /// Somebody was faster.
    Lost(Box<TaskRecord>),
}

/// What comes of looking for a task.
enum NextClaim {
    Ready(Claim),
    /// The budget of the next task is used up.
    UsedUp {
        task: Box<TaskRecord>,
        reason: String,
    },
    /// The budget of the day is used up until then.
    NextDay(Timestamp),
    Nothing,
}

/// Attempts of a task that nobody has ended.
struct LeftAttempts {
    open: Vec<TaskAttemptRecord>,
    role: AttemptRole,
    /// If their runner died, how often it went badly, one after the other.
    failures: u32,
}

/// A claim that is about to be made.
struct Claim {
    held: Box<HeldTask>,
    changes: Vec<BoardChange>,
    /// Which change takes the lock; none if what a dead runner left is settled first.
    lock_at: Option<usize>,
}

impl Claim {
    fn of(
        board: &AgentBoard,
        view: &BoardView,
        task: &TaskRecord,
        left: &LeftAttempts,
        lock: TaskLockRecord,
    ) -> Self {
        let rules = &board.rules;
        let me = lock.runner_id;
        let old = view.lock_of(task);
        let LeftAttempts {
            open,
            role,
            failures,
        } = left;
        let role = *role;
        let mut changes: Vec<BoardChange> = old.map(BoardRecord::deleted).into_iter().collect();
        // Of a holder that takes its own task again they are ends that could not be written.
        let left = !open.is_empty();
        if left {
            let end = AttemptEnd {
                role,
                reason: StopReason::RunnerDeath,
                reset: None,
                verdict: None,
                message: None,
                session: open
                    .last()
                    .filter(|_| role == AttemptRole::Work)
                    .and_then(|attempt| attempt.session.clone()),
                is_split: false,
            };
            for attempt in open {
                let mut attempt = attempt.clone();
                close(&mut attempt, StopReason::RunnerDeath, true, view.clock.now);
                changes.push(attempt.updated());
            }
            let settled = settle(task, &end, *failures, rules, view.clock.now);
            changes.extend(
                settled
                    .map(|it| board.moved(task, it.task))
                    .into_iter()
                    .flatten(),
            );
        }
        let mut next = task.clone();
        next.epoch = lock.epoch;
        next.updated_at = view.clock.now;
        if role == AttemptRole::Work {
            next.status = TaskStatus::InProgress;
        }
        let mut lock_at = None;
        if !left {
            // Locks of the same section that nobody holds any more stand in the way.
            let neighbours = view.locks.iter().filter(|lock| {
                lock.task_id != task.id
                    && task.section_id.is_some()
                    && lock.project_path == task.project_path
                    && lock.section_id == task.section_id
            });
            let free = neighbours.filter(|lock| standing(view, lock, Some(me), rules).is_free());
            changes.extend(free.map(BoardRecord::deleted));
            // The lock first: whoever finds it there has written nothing. A row that was updated
            // meanwhile is locked by each of them, one after the other.
            lock_at = Some(changes.len());
            changes.push(lock.clone().inserted());
            changes.extend(board.moved(task, next.clone()));
        }
        next.revision += 1;
        Self {
            held: Box::new(HeldTask {
                task: next,
                lock: TaskLockRecord {
                    revision: 1,
                    ..lock
                },
                role,
            }),
            changes,
            lock_at,
        }
    }
}

/// Is there nothing else to claim when somebody else works on this task? Its section is closed then.
fn is_all(view: &BoardView, query: &TaskQuery<'_>, lost: &TaskRecord, rules: &TaskRules) -> bool {
    let mut others = eligible(view, query, rules).into_iter();
    query.task.is_none()
        && others.all(|task| {
            let is_beside = task.section_id.is_some()
                && task.section_id == lost.section_id
                && task.project_path == lost.project_path;
            task.id == lost.id || is_beside
        })
}

pub(super) fn close(
    attempt: &mut TaskAttemptRecord,
    reason: StopReason,
    counted: bool,
    now: Timestamp,
) {
    attempt.ended_at = Some(now);
    attempt.stop_reason = Some(reason);
    attempt.counted = counted;
    if attempt.wall_ms == 0 {
        attempt.wall_ms = now.since(attempt.started_at).millis().cast_signed();
    }
}

pub(super) fn is_own(found: &TaskLockRecord, own: &TaskLockRecord) -> bool {
    found.runner_id == own.runner_id && found.epoch == own.epoch
}

/// The lock is there, and it is ours.
pub(super) fn own_lock(lock: &TaskLockRecord) -> BoardChange {
    BoardChange::Require {
        table: TASK_LOCKS,
        key: vec![TransferValue::Text(lock.task_id.to_string())],
        values: vec![
            ("runner_id", TransferValue::Text(lock.runner_id.to_string())),
            ("epoch", TransferValue::Int(lock.epoch)),
        ],
    }
}
