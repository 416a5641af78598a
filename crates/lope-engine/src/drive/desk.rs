//! The desk between shards and executors: tasks get their slots here, answers find their shard.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use lope_model::{Failure, RunId, failure};
use tokio::sync::Notify;

use super::clock::ProcessClock;
use super::seam;
use super::shards::Shards;
use super::supervisor::Part;
use crate::dispatch::{Act, Dispatch};
use crate::executor::{Done, Executor, Outcome, Outcomes, Task, Token};
use crate::secret::{self, Secrets};
use crate::settings::Settings;
use crate::shard::Input;

/// Executors by kind.
pub type Executors = HashMap<Arc<str>, Arc<dyn Executor>>;

pub(crate) struct Desk {
    name: String,
    /// Itself, for those who answer it.
    me: Weak<Self>,
    clock: ProcessClock,
    slots: Mutex<Slots>,
    executors: Executors,
    secrets: Option<Arc<dyn Secrets>>,
    shards: Arc<Shards>,
    /// Rings when the next deadline may have changed.
    pub(crate) deadline: Notify,
}

/// Sees to it that attempts do not take longer than they may.
pub(crate) struct Timekeeper(pub(crate) Arc<Desk>);

impl Part for Timekeeper {
    const NAME: &'static str = "timekeeper";

    async fn work(&mut self) {
        self.0.keep_time().await;
    }
}

struct Slots {
    machine: Dispatch,
    /// What is to be done, in order; one thread at a time does it.
    acts: VecDeque<Act>,
    busy: bool,
}

impl Desk {
    pub(crate) fn new(
        clock: ProcessClock,
        settings: &Settings,
        executors: Executors,
        shards: Arc<Shards>,
    ) -> Arc<Self> {
        let slots = Slots { machine: Dispatch::new(settings.concurrency), acts: VecDeque::new(), busy: false };
        let (slots, secrets) = (Mutex::new(slots), settings.secrets.clone());
        let (name, deadline) = (settings.name.clone(), Notify::new());
        Arc::new_cyclic(|me| Self { name, me: Weak::clone(me), clock, slots, executors, secrets, shards, deadline })
    }

    pub(crate) fn submit(&self, tasks: impl IntoIterator<Item = Box<Task>>) {
        self.change(|machine, now, acts| tasks.into_iter().for_each(|task| machine.submit(now, task, acts)));
    }

    pub(crate) fn cancel(&self, token: &Token) {
        self.change(|machine, now, acts| machine.cancel(now, token, acts));
    }

    /// Stop everything of these runs, whoever knows of it.
    pub(crate) fn cancel_runs(&self, is_meant: impl Fn(RunId) -> bool) {
        self.change(|machine, now, acts| machine.cancel_runs(now, is_meant, acts));
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.lock().machine.in_flight()
    }

    /// Watch the time limits until the engine ends.
    async fn keep_time(&self) {
        loop {
            seam::pass(&self.name, Timekeeper::NAME);
            let next = self.lock().machine.next_deadline();
            match next {
                None => self.deadline.notified().await,
                Some(due) => {
                    let until = tokio::time::Instant::from_std(self.clock.instant(due));
                    tokio::select! {
                        () = tokio::time::sleep_until(until) => self.change(Dispatch::tick),
                        () = self.deadline.notified() => {}
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().expect("no panic while the slots are held")
    }

    /// Let the machine decide, then do what it decided. Whoever comes while that is under way leaves its share to the one at
    /// work, so that an executor that answers at once does not pile up calls.
    fn change<T>(&self, decide: impl FnOnce(&mut Dispatch, lope_model::Moment, &mut Vec<Act>) -> T) -> T {
        let now = self.clock.moment();
        let (answer, alone) = {
            let mut slots = self.lock();
            let before = slots.machine.next_deadline();
            let mut acts = Vec::new();
            let answer = decide(&mut slots.machine, now, &mut acts);
            slots.acts.extend(acts);
            if slots.machine.next_deadline() != before {
                self.deadline.notify_one();
            }
            (answer, !slots.acts.is_empty() && !std::mem::replace(&mut slots.busy, true))
        };
        if alone {
            self.work_off();
        }
        answer
    }

    fn work_off(&self) {
        loop {
            let acts = {
                let mut slots = self.lock();
                if slots.acts.is_empty() {
                    slots.busy = false;
                    return;
                }
                std::mem::take(&mut slots.acts)
            };
            let mut starts = Vec::new();
            for act in acts {
                match act {
                    Act::Start(task) => starts.push(task),
                    // In order: it may be about one of these.
                    other => {
                        self.start(starts.drain(..));
                        self.perform(other);
                    }
                }
            }
            self.start(starts.into_iter());
        }
    }

    fn perform(&self, act: Act) {
        match act {
            Act::Start(task) => self.start(std::iter::once(task)),
            Act::Stop { executor, token } => {
                let Some(found) = self.executors.get(&executor) else { return };
                if catch_unwind(AssertUnwindSafe(|| found.cancel(&token))).is_err() {
                    tracing::error!(%executor, "an executor panicked when it was told to stop a task");
                }
            }
            Act::TimedOut { token, silent, ran } => {
                let started_at = self.clock.wall().minus(ran);
                self.shards.send(token.run, Input::TimedOut { token, silent, started_at });
            }
            Act::Refuse { token, wait, reason } => {
                let until = self.clock.wall().plus(wait);
                self.shards.send(token.run, Input::Refused { token, until, reason });
            }
            Act::Answer { token, value } => {
                self.shards.send(token.run, Input::Outcome(Outcome::new(token, Ok(value))));
            }
        }
    }
}

impl Desk {
    /// Give tasks to their executors, those of one kind that follow each other together.
    fn start(&self, tasks: impl ExactSizeIterator<Item = Box<Task>>) {
        // Gone only when nobody waits for an answer any more.
        let Some(me) = self.me.upgrade() else { return };
        let outcomes: Arc<dyn Outcomes> = me;
        let mut together: Vec<(Task, Done)> = Vec::with_capacity(tasks.len());
        for task in tasks {
            if together.last().is_some_and(|(before, _)| before.executor != task.executor) {
                self.give(std::mem::take(&mut together));
            }
            let done = Done::new(task.token.clone(), Arc::clone(&outcomes));
            together.extend(self.revealed(*task, done));
        }
        self.give(together);
    }

    /// The task with values in place of references to secrets; one that names a secret that is not there has failed.
    fn revealed(&self, mut task: Task, done: Done) -> Option<(Task, Done)> {
        let Some(named) = &task.limits.secrets else { return Some((task, done)) };
        match secret::resolve(&task.arguments, named, self.secrets.as_deref()) {
            Ok((arguments, masks)) => {
                task.arguments = arguments;
                Some((task, done.masking(masks)))
            }
            Err(failure) => {
                done.finish(Err(failure), None);
                None
            }
        }
    }

    /// An executor that panics loses what it was given (each `Done` is dropped on the way out) and nothing else.
    fn give(&self, tasks: Vec<(Task, Done)>) {
        let Some((first, _)) = tasks.first() else { return };
        let kind = Arc::clone(&first.executor);
        let Some(executor) = self.executors.get(&kind) else {
            return tasks.into_iter().for_each(|(task, done)| done.finish(Err(unserved(&task)), None));
        };
        if catch_unwind(AssertUnwindSafe(|| executor.start_all(tasks))).is_err() {
            tracing::error!(%kind, "an executor panicked when it was given tasks");
        }
    }
}

fn unserved(task: &Task) -> Failure {
    let message = format!("this runner has no executor for '{}' steps", task.executor);
    Failure::new(failure::kind::UNKNOWN_ACTION, message)
}

impl Outcomes for Desk {
    fn settle(&self, mut outcome: Outcome) {
        let answer = outcome.result.as_ref().ok();
        let settled = self.change(|machine, now, acts| machine.settled(now, &outcome.token, answer, acts));
        if let Some(ran) = settled {
            outcome.started_at = Some(self.clock.wall().minus(ran));
            self.shards.send(outcome.token.run, Input::Outcome(outcome));
        }
    }

    fn alive(&self, token: &Token) {
        self.change(|machine, now, _| machine.alive(now, token));
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
