//! Who holds a task: the lock's holder, as long as the lock lasts and the holder is not proven
//! dead.

use lope_model::{RunnerId, Span};

use super::{BoardView, ProcessProof, TaskRules};
use crate::records::{AgentRunnerRecord, TaskLockRecord, TaskRecord};

/// Clocks that differ by less than this were not set.
const SET_BACK: Span = Span::from_secs(2);

/// What a lock means to whoever wants the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockStanding {
    /// It is our own: go on.
    Own,
    /// Another's: wait, or take another task.
    Held,
    /// It was not renewed in time: take it over.
    Expired,
    /// Its holder is gone: take it over at once.
    Dead,
}

impl LockStanding {
    /// May somebody else take the task?
    pub const fn is_free(self) -> bool {
        matches!(self, Self::Expired | Self::Dead)
    }
}

/// How a lock stands for `me`.
pub fn standing(
    view: &BoardView,
    lock: &TaskLockRecord,
    me: Option<RunnerId>,
    rules: &TaskRules,
) -> LockStanding {
    if me == Some(lock.runner_id) {
        return LockStanding::Own;
    }
    let holder = view.runner(lock.runner_id);
    let proof = view.proof(lock.runner_id);
    if proof == ProcessProof::Gone {
        return LockStanding::Dead;
    }
    if lock.boot_id != view.clock.boot_id {
        return LockStanding::Expired;
    }
    if view.clock.lease_moment < lock.expires {
        return LockStanding::Held;
    }
    // A machine that slept has let the lock run out; a holder that is there and was awake a moment
    // ago will renew it.
    let was_awake = holder.is_some_and(|holder| silent_for(view, holder) < rules.stale_timeout);
    if proof == ProcessProof::Alive && was_awake {
        return LockStanding::Held;
    }
    // Nobody has seen the clock come this far.
    if view.unwatched.contains(&lock.runner_id) {
        return LockStanding::Held;
    }
    LockStanding::Expired
}

/// How long a runner has given no sign of life: on this machine by the clock that stands still
/// while the machine sleeps, elsewhere by the store's.
pub fn silent_for(view: &BoardView, runner: &AgentRunnerRecord) -> Span {
    let (now, then) = match view.proof(runner.id) {
        ProcessProof::Alive | ProcessProof::Gone => (view.awake, runner.awake),
        ProcessProof::Unknown => (view.clock.lease_moment.0, runner.beat.0),
    };
    Span::from_millis(now.saturating_sub(then).max(0).cast_unsigned())
}

/// Is a runner without a sign of life for too long, or gone?
pub fn is_stale(view: &BoardView, runner: &AgentRunnerRecord, rules: &TaskRules) -> bool {
    view.proof(runner.id) == ProcessProof::Gone
        || is_silent(view, runner, rules) && !view.unwatched.contains(&runner.id)
}

/// May a runner be dead, or the clock have been set?
pub fn is_doubtful(view: &BoardView, runner: &AgentRunnerRecord, rules: &TaskRules) -> bool {
    is_silent(view, runner, rules) && !is_stale(view, runner, rules)
}

fn is_silent(view: &BoardView, runner: &AgentRunnerRecord, rules: &TaskRules) -> bool {
    silent_for(view, runner) > rules.stale_timeout
}

/// A lock of `me` on a task, under the epoch after its last one.
pub fn acquired(view: &BoardView, task: &TaskRecord, me: RunnerId, expiry: Span) -> TaskLockRecord {
    TaskLockRecord {
        task_id: task.id,
        revision: 0,
        project_path: task.project_path.clone(),
        section_id: task.section_id.clone(),
        runner_id: me,
        epoch: task.epoch + 1,
        acquired_at: view.clock.now,
        expires_at: view.clock.now.plus(expiry),
        expires: view.clock.moment.plus(expiry),
        boot_id: view.clock.boot_id.clone(),
    }
}

/// What changes together when the store's clock was set back: a holder's sign of life and its
/// locks.
#[derive(Clone, PartialEq, Debug)]
pub struct BroughtBack {
    pub runner: Option<AgentRunnerRecord>,
    pub locks: Vec<TaskLockRecord>,
}

/// What was written before the store's clock was set back, brought back to where the clock is now:
/// locks run for their length from now, and the last sign of life was now. Whoever lives writes its
/// own over it. A lock's length is known from its holder's sign of life, which is given whenever the
/// lock is renewed, or from its own beginning if nobody renews it: each entry is one commit, so that nobody sees one of them moved without the
/// other, and nothing is moved twice.
pub fn brought_back(view: &BoardView) -> Vec<BroughtBack> {
    let holders = view.runners.iter();
    let holders = holders.filter(|runner| is_ahead(view, runner));
    let holders = holders.map(|runner| BroughtBack {
        runner: Some(AgentRunnerRecord {
            beat: view.clock.moment,
            ..runner.clone()
        }),
        locks: own_boot(view)
            .filter(|lock| lock.runner_id == runner.id)
            .map(|lock| running_for(view, lock, lock.expires.since(runner.beat)))
            .collect(),
    });
    let unknown = own_boot(view).filter(|lock| view.runner(lock.runner_id).is_none());
    let unknown = unknown
        .filter(|lock| lock.expires > view.clock.moment.plus(length_of(lock)).plus(SET_BACK));
    let unknown = unknown.map(|lock| BroughtBack {
        runner: None,
        locks: vec![TaskLockRecord {
            acquired_at: view.clock.now,
            ..running_for(view, lock, length_of(lock))
        }],
    });
    holders.chain(unknown).collect()
}

/// Does a runner's sign of life lie ahead of the clock? One of a project that is not in view is left
/// to those who see its locks too; one that is proven gone keeps nothing.
fn is_ahead(view: &BoardView, runner: &AgentRunnerRecord) -> bool {
    let project = runner.project_path.as_deref();
    let is_in_view = project.is_none_or(|path| view.project(path).is_some());
    let may_live = match view.proof(runner.id) {
        ProcessProof::Alive | ProcessProof::Unknown => true,
        ProcessProof::Gone => false,
    };
    is_in_view && may_live && runner.beat > view.clock.moment.plus(SET_BACK)
}

fn own_boot(view: &BoardView) -> impl Iterator<Item = &TaskLockRecord> {
    let locks = view.locks.iter();
    locks.filter(|lock| lock.boot_id == view.clock.boot_id)
}

/// How long a lock was taken for. One that was taken by hand is never renewed.
fn length_of(lock: &TaskLockRecord) -> Span {
    lock.expires_at.since(lock.acquired_at)
}

fn running_for(view: &BoardView, lock: &TaskLockRecord, length: Span) -> TaskLockRecord {
    TaskLockRecord {
        expires: view.clock.moment.plus(length),
        expires_at: view.clock.now.plus(length),
        ..lock.clone()
    }
}
