//! Attempts in the pool: the task until it is given, the right to answer until it is answered, the log once it has a line.

use std::sync::{Arc, Mutex};

use lope_engine::executor::{Done, Task, Token};
use lope_model::{Digest, Failure, Value};

use super::Event;
use super::State;
use super::message::ToWorker;
use super::roster::{TaskId, WorkerId};
use crate::logs::{Log, Logs};

/// One attempt.
pub(super) struct Attempt {
    pub(super) token: Token,
    /// Until it is given to a worker.
    pub(super) task: Option<Box<Task>>,
    right: Right,
    log: Option<Arc<Mutex<Log>>>,
    watched: bool,
}

/// The right to answer, shared with whoever tells that the attempt is alive.
type Right = Arc<Mutex<Option<Done>>>;

/// What is done when the pool's lock is free, because it calls into the engine.
pub(super) enum Later {
    Finish { right: Right, result: Result<Value, Failure>, worker: Option<Arc<str>> },
    Alive(Right),
}

impl Later {
    pub(super) fn happen(self) {
        match self {
            Self::Finish { right, result, worker } => {
                let done = right.lock().expect("no panic while the lock is held").take();
                if let Some(done) = done {
                    done.finish(result, worker);
                }
            }
            Self::Alive(right) => {
                right.lock().expect("no panic while the lock is held").iter().for_each(Done::alive);
            }
        }
    }
}

impl Attempt {
    pub(super) fn new(task: Task, done: Done) -> Self {
        Self {
            token: task.token.clone(),
            watched: task.limits.heartbeat.is_some(),
            task: Some(Box::new(task)),
            right: Arc::new(Mutex::new(Some(done))),
            log: None,
        }
    }

    /// It showed life, if anybody wants to know.
    pub(super) fn alive(&self) -> Option<Later> {
        self.watched.then(|| Later::Alive(Arc::clone(&self.right)))
    }

    /// Its log, begun with its first line.
    pub(super) fn log(&mut self, logs: &Logs) -> Arc<Mutex<Log>> {
        let log = self.log.get_or_insert_with(|| {
            let log = logs.begin(&self.token);
            let right = self.right.lock().expect("no panic while the lock is held");
            right.iter().for_each(|done| done.logged(log.name()));
            Arc::new(Mutex::new(log))
        });
        Arc::clone(log)
    }
}

impl State {
    /// A task that wants a worker.
    pub(super) fn submit(&mut self, task: Task, done: Done) -> Event {
        self.born += 1;
        let id = TaskId(self.born);
        let (action, execution) = (Arc::clone(&task.action), execution_key(&task.token));
        self.ids.insert(task.token.clone(), id);
        self.attempts.insert(id, Attempt::new(task, done));
        Event::Submit { task: id, action, execution }
    }

    pub(super) fn say(&mut self, worker: WorkerId, message: ToWorker) {
        if let Some(link) = self.links.get_mut(&worker) {
            link.outbox.push(message);
            link.bell.notify_one();
        }
    }

    pub(super) fn give(&mut self, worker: WorkerId, id: TaskId) -> Option<Later> {
        let attempt = self.attempts.get_mut(&id)?;
        let (task, alive) = (attempt.task.take()?, attempt.alive());
        self.say(worker, ToWorker::Task { id, task });
        alive
    }

    pub(super) fn answer(
        &mut self,
        id: TaskId,
        result: Result<Value, Failure>,
        worker: Option<WorkerId>,
    ) -> Option<Later> {
        let attempt = self.attempts.remove(&id)?;
        self.ids.remove(&attempt.token);
        let worker = worker.and_then(|worker| self.links.get(&worker)).map(|link| Arc::clone(&link.name));
        Some(Later::Finish { right: attempt.right, result, worker })
    }
}

/// The same for all attempts of one execution.
pub(super) fn execution_key(token: &Token) -> u64 {
    Digest::of_parts(&[token.run.as_bytes(), token.execution.as_bytes()]).short()
}
