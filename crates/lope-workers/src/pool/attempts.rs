//! Attempts in the pool: the task until it is given, the right to answer until it is answered, the
//! log once it has a line.

use std::sync::{Arc, Mutex};

use lope_engine::executor::{Done, StartRight, Task, Token};
use lope_model::{Digest, Failure, Value};

use super::PoolState;
use super::RosterEvent;
use super::heaps;
use super::message::ToWorker;
use super::roster::{PoolWorkerId, TaskId};
use crate::clock::wall;
use crate::logs::{Logs, MaskedLog};

/// One attempt.
pub(super) struct PoolAttempt {
    pub(super) token: Token,
    /// Until it is given to a worker.
    pub(super) task: Option<Box<Task>>,
    /// The task with its run's heap, while a worker works on what it remembers of that.
    whole: Option<Box<Task>>,
    right: AnswerRight,
    log: Option<Arc<Mutex<MaskedLog>>>,
    watched: bool,
}

/// The right to answer, shared with whoever tells that the attempt is alive.
type AnswerRight = Arc<Mutex<Option<Done>>>;

/// What is done when the pool's lock is free, because it calls into the engine.
pub(super) enum DeferredReply {
    Finish {
        right: AnswerRight,
        log: Option<Arc<Mutex<MaskedLog>>>,
        result: Result<Value, Failure>,
        worker: Option<Arc<str>>,
    },
    /// Nobody has begun it.
    GiveBack(AnswerRight),
    Alive(AnswerRight),
}

impl DeferredReply {
    pub(super) fn happen(self) {
        match self {
            Self::Finish {
                right,
                log,
                result,
                worker,
            } => {
                if let Some(log) = log {
                    log.lock()
                        .expect("no panic while the lock is held")
                        .finish(wall());
                }
                let done = right
                    .lock()
                    .expect("no panic while the lock is held")
                    .take();
                if let Some(done) = done {
                    done.finish(result, worker);
                }
            }
            Self::GiveBack(right) => {
                let mut right = right.lock().expect("no panic while the lock is held");
                let done = right.take();
                drop(right);
                if let Some(done) = done {
                    done.give_back();
                }
            }
            Self::Alive(right) => {
                right
                    .lock()
                    .expect("no panic while the lock is held")
                    .iter()
                    .for_each(Done::alive);
            }
        }
    }
}

impl PoolAttempt {
    pub(super) fn new(task: Task, done: Done) -> Self {
        Self {
            token: task.token.clone(),
            watched: task.limits.heartbeat.is_some(),
            task: Some(Box::new(task)),
            whole: None,
            right: Arc::new(Mutex::new(Some(done))),
            log: None,
        }
    }

    /// It showed life, if anybody wants to know.
    pub(super) fn alive(&self) -> Option<DeferredReply> {
        self.watched
            .then(|| DeferredReply::Alive(Arc::clone(&self.right)))
    }

    /// Its log, begun with its first line.
    pub(super) fn log(&mut self, logs: &Logs) -> Arc<Mutex<MaskedLog>> {
        let log = self.log.get_or_insert_with(|| {
            let right = self.right.lock().expect("no panic while the lock is held");
            let masks = right.as_ref().map(|done| done.masks().clone());
            let log = logs.begin_masked(&self.token, &masks.unwrap_or_default());
            right.iter().for_each(|done| done.logged(log.name()));
            Arc::new(Mutex::new(log))
        });
        Arc::clone(log)
    }
}

impl PoolState {
    /// A task that wants a worker.
    pub(super) fn submit(&mut self, task: Task, done: Done) -> RosterEvent {
        self.born += 1;
        let id = TaskId(self.born);
        let action = Arc::clone(&task.action);
        let execution = execution_key(&task.token);
        let prefers =
            heaps::version(&task.arguments).and_then(|version| self.heaps.holder(version));
        self.ids.insert(task.token.clone(), id);
        self.attempts.insert(id, PoolAttempt::new(task, done));
        RosterEvent::Submit {
            task: id,
            action,
            execution,
            prefers,
        }
    }

    pub(super) fn say(&mut self, worker: PoolWorkerId, message: ToWorker) {
        if let Some(link) = self.links.get_mut(&worker) {
            link.outbox.push(message);
            link.notification.notify_one();
        }
    }

    /// May a task not begin here any more?
    pub(super) fn is_too_late(&self, id: TaskId) -> bool {
        self.attempts.get(&id).is_some_and(|attempt| {
            let right = attempt
                .right
                .lock()
                .expect("no panic while the lock is held");
            right
                .as_ref()
                .is_none_or(|done| done.start_right() == StartRight::Over)
        })
    }

    pub(super) fn give(&mut self, worker: PoolWorkerId, id: TaskId) -> Option<DeferredReply> {
        let attempt = self.attempts.get_mut(&id)?;
        let mut task = attempt.task.take()?;
        let alive = attempt.alive();
        let known = heaps::version(&task.arguments).and_then(|version| self.heaps.holder(version));
        if known == Some(worker) {
            attempt.whole = Some(task.clone());
            task.arguments = heaps::without_pages(&task.arguments);
        }
        self.say(worker, ToWorker::Task { id, task });
        alive
    }

    /// A worker has forgotten the heap of a task that it was given without.
    pub(super) fn give_whole(&mut self, worker: PoolWorkerId, id: TaskId) {
        let whole = self
            .attempts
            .get_mut(&id)
            .and_then(|attempt| attempt.whole.take());
        if let Some(task) = whole {
            self.say(worker, ToWorker::Task { id, task });
        }
    }

    pub(super) fn take_back(&mut self, id: TaskId) -> Option<DeferredReply> {
        let attempt = self.attempts.remove(&id)?;
        self.ids.remove(&attempt.token);
        Some(DeferredReply::GiveBack(attempt.right))
    }

    pub(super) fn answer(
        &mut self,
        id: TaskId,
        result: Result<Value, Failure>,
        worker: Option<PoolWorkerId>,
    ) -> Option<DeferredReply> {
        let attempt = self.attempts.remove(&id)?;
        self.ids.remove(&attempt.token);
        if let (Ok(answer), Some(worker)) = (&result, worker) {
            self.heaps.answered(answer, worker);
        }
        let worker = worker
            .and_then(|worker| self.links.get(&worker))
            .map(|link| Arc::clone(&link.name));
        Some(DeferredReply::Finish {
            right: attempt.right,
            log: attempt.log,
            result,
            worker,
        })
    }
}

/// The same for all attempts of one execution.
pub(super) fn execution_key(token: &Token) -> u64 {
    Digest::of_parts(&[token.run.as_bytes(), token.execution.as_bytes()]).short()
}
