//! The dispatcher between shards and executors: tasks get their slots here, answers find their
//! shard.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use lope_limits::LimitVerdict;
use lope_model::{Failure, Moment, RunId, RunnerId, failure};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};

use super::clock::ProcessClock;
use super::executor_handle::ExecutorHandle;
use super::limit_input::LimitInput;
use super::look_ups::LookUps;
use super::seam;
use super::shards::Shards;
use super::supervisor::{SupervisedTask, words};
use crate::executor::{Done, Executor, OutcomeSink, StartRight, Task, TaskOutcome, Token};
use crate::secret::{self, Secrets};
use crate::settings::Settings;
use crate::shard::ShardInput;
use crate::slots::{SlotCommand, SlotScheduler};

/// With so few attempts at work, at most, an answer is taken in on the thread that brings it: with
/// more, those that come together are better taken in together.
const LITTLE: usize = 1;

/// Executors by kind.
pub type Executors = HashMap<Arc<str>, Arc<dyn Executor>>;

pub(crate) struct Dispatcher {
    name: String,
    /// Itself, for those who answer it.
    me: Weak<Self>,
    clock: ProcessClock,
    slots: Mutex<Slots>,
    executors: HashMap<Arc<str>, ExecutorHandle>,
    secrets: Option<Arc<dyn Secrets>>,
    shards: Arc<Shards>,
    /// Where secrets are waited for.
    runtime: Handle,
    look_ups: LookUps,
    /// To the task that asks the limits which all runners share.
    limits: mpsc::UnboundedSender<LimitInput>,
    /// Rings when the next deadline may have changed.
    pub(crate) deadline: Notify,
}

/// Sees to it that attempts do not take longer than they may.
pub(crate) struct Timekeeper(pub(crate) Arc<Dispatcher>);

impl SupervisedTask for Timekeeper {
    const NAME: &'static str = "timekeeper";

    async fn work(&mut self) {
        self.0.keep_time().await;
    }
}

struct Slots {
    machine: SlotScheduler,
    /// What is to be done, in order; one thread at a time does it.
    commands: VecDeque<SlotCommand>,
    busy: bool,
}

impl Dispatcher {
    pub(crate) fn new(
        clock: ProcessClock,
        settings: &Settings,
        executors: Executors,
        shards: Arc<Shards>,
        limits: mpsc::UnboundedSender<LimitInput>,
    ) -> Arc<Self> {
        let slots = Slots {
            machine: SlotScheduler::new(settings.concurrency),
            commands: VecDeque::new(),
            busy: false,
        };
        let slots = Mutex::new(slots);
        let executors = executors
            .into_iter()
            .map(|(kind, executor)| (Arc::clone(&kind), ExecutorHandle::new(&kind, executor)))
            .collect();
        Arc::new_cyclic(|me| Self {
            name: settings.name.clone(),
            me: Weak::clone(me),
            clock,
            slots,
            executors,
            secrets: settings.secrets.clone(),
            shards,
            runtime: Handle::current(),
            look_ups: LookUps::default(),
            limits,
            deadline: Notify::new(),
        })
    }

    pub(crate) fn submit(&self, tasks: impl IntoIterator<Item = Box<Task>>) {
        self.change(|machine, now, commands| {
            tasks
                .into_iter()
                .for_each(|task| machine.submit(now, task, commands));
        });
    }

    pub(crate) fn cancel(&self, token: &Token) {
        self.change(|machine, now, commands| machine.cancel(now, token, commands));
    }

    /// Stop everything of these runs, whoever knows of it.
    pub(crate) fn cancel_runs(&self, is_meant: impl Fn(RunId) -> bool) {
        self.change(|machine, now, commands| machine.cancel_runs(now, is_meant, commands));
    }

    /// This session is held until then; nothing starts later, and nothing of another.
    pub(crate) fn renew_lease(&self, session: RunnerId, until: Moment) {
        self.change(|machine, now, commands| {
            machine.begin_session(now, session, commands);
            machine.renew_lease(now, until, commands);
        });
    }

    /// It is durable that an attempt begins.
    pub(crate) fn announced(&self, token: &Token) {
        self.change(|machine, now, commands| machine.announced(now, token, commands));
    }

    /// Nothing more of a run begins until it goes on: what has not begun goes back to its shard.
    pub(crate) fn pause(&self, run: RunId, on: bool) {
        self.change(|machine, now, commands| machine.pause(now, run, on, commands));
    }

    /// Nothing more begins: what has not begun goes back to its shard.
    pub(crate) fn drain(&self) {
        self.change(SlotScheduler::drain);
        self.executors.values().for_each(ExecutorHandle::withdraw);
    }

    /// What the limits said to those that asked.
    pub(crate) fn answered(&self, verdicts: impl IntoIterator<Item = (Token, LimitVerdict)>) {
        self.change(|machine, now, commands| {
            for (token, verdict) in verdicts {
                machine.answered(now, &token, verdict, commands);
            }
        });
    }

    /// The limits may have changed: does anything wait for them?
    pub(crate) fn ask_again(&self) -> bool {
        self.change(SlotScheduler::ask_again)
    }

    pub(crate) fn is_held_up(&self) -> bool {
        self.lock().machine.is_held_up()
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
                        () = tokio::time::sleep_until(until) => self.change(SlotScheduler::tick),
                        () = self.deadline.notified() => {}
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots
            .lock()
            .expect("no panic while the slots are held")
    }

    /// Let the machine decide, then do what it decided. Whoever comes while that is under way
    /// leaves its share to the one at work, so that an executor that answers at once does not pile
    /// up calls.
    fn change<T>(
        &self,
        decide: impl FnOnce(&mut SlotScheduler, Moment, &mut Vec<SlotCommand>) -> T,
    ) -> T {
        let now = self.clock.moment();
        let (answer, alone) = {
            let mut slots = self.lock();
            let before = slots.machine.next_deadline();
            let mut commands = Vec::new();
            let answer = decide(&mut slots.machine, now, &mut commands);
            slots.commands.extend(commands);
            if slots.machine.next_deadline() != before {
                self.deadline.notify_one();
            }
            (
                answer,
                !slots.commands.is_empty() && !std::mem::replace(&mut slots.busy, true),
            )
        };
        if alone {
            self.work_off();
        }
        answer
    }

    fn work_off(&self) {
        loop {
            let commands = {
                let mut slots = self.lock();
                if slots.commands.is_empty() {
                    slots.busy = false;
                    return;
                }
                std::mem::take(&mut slots.commands)
            };
            let mut starts = Vec::new();
            for act in commands {
                match act {
                    SlotCommand::Start(task) => starts.push(task),
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

    fn perform(&self, act: SlotCommand) {
        match act {
            SlotCommand::Start(task) => self.start(std::iter::once(task)),
            SlotCommand::Announce(token) => {
                self.shards.send(token.run, ShardInput::Announce(token));
            }
            SlotCommand::Return(token) => {
                self.shards.send(token.run, ShardInput::Returned(token));
            }
            SlotCommand::Overdue { executor, token } => {
                tracing::warn!(
                    run = %token.run, execution = %token.execution, attempt = token.attempt, %executor,
                    "an attempt that was told to stop has not ended; it keeps its slot until it does"
                );
            }
            SlotCommand::Stop { executor, token } => {
                self.tell_to_stop(&executor, &token);
            }
            SlotCommand::TimedOut { token, silent, ran } => {
                let started_at = self.clock.wall().minus(ran);
                self.shards.send(
                    token.run,
                    ShardInput::TimedOut {
                        token,
                        silent,
                        started_at,
                    },
                );
            }
            // The task behind it is gone only when the engine is.
            SlotCommand::Ask(request) => drop(self.limits.send(LimitInput::Request(request))),
            SlotCommand::Release { end, settles } => {
                drop(self.limits.send(LimitInput::End { end, settles }));
            }
            SlotCommand::Refuse {
                token,
                until,
                reason,
            } => {
                self.shards.send(
                    token.run,
                    ShardInput::Refused {
                        token,
                        until,
                        reason,
                    },
                );
            }
            SlotCommand::Answer { token, result } => {
                let outcome = TaskOutcome::new(token, result.map_err(|failure| *failure));
                self.shards
                    .send(outcome.token.run, ShardInput::Outcome(outcome));
            }
        }
    }
}

impl Dispatcher {
    /// Give tasks to their executors, those of one kind that follow each other together.
    fn start(&self, tasks: impl ExactSizeIterator<Item = Box<Task>>) {
        // Gone only when nobody waits for an answer any more.
        let Some(me) = self.me.upgrade() else { return };
        let outcomes: Arc<dyn OutcomeSink> = me;
        let mut together: Vec<(Task, Done)> = Vec::with_capacity(tasks.len());
        for task in tasks {
            let before = together.last().map(|(before, _)| &before.executor);
            if before.is_some_and(|kind| *kind != task.executor) {
                self.give(std::mem::take(&mut together));
            }
            let done = Done::new(task.token.clone(), Arc::clone(&outcomes));
            match &task.limits.secrets {
                Some(_) => self.reveal_and_give(*task, done),
                None => together.push((*task, done)),
            }
        }
        self.give(together);
    }

    /// Secrets come from elsewhere and may take their time: nobody else waits for them.
    fn reveal_and_give(&self, task: Task, done: Done) {
        let Some(me) = self.me.upgrade() else { return };
        self.runtime.spawn(async move {
            let permit = me.look_ups.permit(task.limits.secrets.clone()).await;
            tokio::task::spawn_blocking(move || {
                me.look_up_and_give(task, done);
                drop(permit);
            });
        });
    }

    fn look_up_and_give(&self, task: Task, done: Done) {
        let token = task.token.clone();
        let Some(revealed) = self.revealed(task, done) else {
            return;
        };
        // What was told to stop meanwhile ends here.
        if !self.lock().machine.revealed(&token) {
            return;
        }
        let kind = Arc::clone(&revealed.0.executor);
        self.give(vec![revealed]);
        // And what was told to stop while it was handed over did not hear it.
        if !self.lock().machine.is_wanted(&token) {
            self.tell_to_stop(&kind, &token);
        }
    }

    /// The task with values in place of references to secrets; one that names a secret that is not
    /// there has failed.
    fn revealed(&self, mut task: Task, done: Done) -> Option<(Task, Done)> {
        let named = task.limits.secrets.clone().unwrap_or_default();
        let found = catch_unwind(AssertUnwindSafe(|| {
            secret::resolve(&task.arguments, &named, self.secrets.as_deref())
        }));
        match found.unwrap_or_else(|panic| Err(panicked(&*panic))) {
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

    fn tell_to_stop(&self, kind: &str, token: &Token) {
        if let Some(executor) = self.executors.get(kind) {
            executor.cancel(token);
        }
    }

    fn give(&self, tasks: Vec<(Task, Done)>) {
        let Some((first, _)) = tasks.first() else {
            return;
        };
        let kind = Arc::clone(&first.executor);
        let Some(executor) = self.executors.get(&kind) else {
            return tasks
                .into_iter()
                .for_each(|(task, done)| done.finish(Err(unserved(&task)), None));
        };
        executor.start_all(tasks);
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let message = format!("whoever knows its secrets panicked: {}", words(panic));
    Failure::new(secret::MISSING, message)
}

fn unserved(task: &Task) -> Failure {
    let message = format!("this runner has no executor for '{}' steps", task.executor);
    Failure::new(failure::kind::UNKNOWN_ACTION, message)
}

impl OutcomeSink for Dispatcher {
    fn settle(&self, mut outcome: TaskOutcome) {
        let answer = outcome.result.as_ref().ok();
        let (settled, others) = self.change(|machine, now, commands| {
            let settled = machine.settled(now, &outcome.token, answer, commands);
            (settled, machine.in_flight())
        });
        let Some(settlement) = settled else { return };
        outcome.started_at = Some(self.clock.wall().minus(settlement.ran));
        if settlement.waits {
            // The task behind it is gone only when the engine is.
            let _ = self.limits.send(LimitInput::Outcome(Box::new(outcome)));
        } else {
            let run = outcome.token.run;
            let is_answer = outcome.result.is_ok();
            let input = ShardInput::Outcome(outcome);
            // A right to answer that is dropped may be dropped anywhere, also under a lock.
            if is_answer && others <= LITTLE {
                self.shards.bring(run, input);
            } else {
                self.shards.send(run, input);
            }
        }
    }

    fn alive(&self, token: &Token) {
        self.change(|machine, now, _| machine.alive(now, token));
    }

    fn start_right(&self, token: &Token) -> StartRight {
        let until = self.lock().machine.begins_until(token);
        match until {
            None => StartRight::Over,
            Some(Moment(i64::MAX)) => StartRight::Always,
            Some(until) => StartRight::Until(self.clock.instant(until)),
        }
    }

    fn give_back(&self, token: &Token) {
        self.change(|machine, now, commands| machine.returned(now, token, commands));
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher")
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
