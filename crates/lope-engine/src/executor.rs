//! What executors are to the engine: a task goes in, and sooner or later its outcome comes back.
//!
//! An executor does the work of one kind (`action`, `run`, `js`, `http`, …). It owns neither
//! retries nor time limits; those are decided by the law and kept by the engine. A task whose
//! `Done` is dropped without an answer counts as lost.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use lope_model::policy::{CircuitBreaker, RateLimit};
use lope_model::{Epoch, Failure, Priority, RunId, RunnerId, Span, Timestamp, Value, failure};

use crate::secret::Masks;

/// One attempt of an execution under one owner. An outcome with any other token is ignored.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token {
    pub run: RunId,
    pub execution: Arc<str>,
    pub attempt: u32,
    pub epoch: Epoch,
}

/// Work to be done.
#[derive(Clone, Debug)]
pub struct Task {
    pub token: Token,
    pub workflow: Arc<str>,
    /// The step's path in its definition.
    pub step: Arc<str>,
    /// Which kind of worker.
    pub executor: Arc<str>,
    /// Which of its actions.
    pub action: Arc<str>,
    pub arguments: Value,
    pub limits: Limits,
    pub idempotency_key: Option<String>,
    /// The span that it is, for whoever goes on with the trace; absent: nobody traces.
    pub trace: Option<Arc<str>>,
}

/// What bounds an attempt.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Limits {
    pub priority: Priority,
    /// Longest time, from the moment it gets its slot.
    pub timeout: Option<Span>,
    /// Longest silence.
    pub heartbeat: Option<Span>,
    /// At most so many with an equal key at once.
    pub keyed: Option<(Arc<str>, u32)>,
    /// Not while what it leads to keeps failing.
    pub circuit_breaker: Option<Arc<CircuitBreaker>>,
    /// Not more often than this.
    pub rate_limit: Option<Arc<RateLimit>>,
    /// Those with an equal key have one effect.
    pub once: Option<Arc<str>>,
    /// The secrets that the step names, if it names any.
    pub secrets: Option<Arc<[Arc<str>]>>,
    /// Its owner writes down that it begins before it does.
    pub announced: bool,
    /// The session in which its run is owned; it begins in no other.
    pub session: Option<RunnerId>,
}

impl Limits {
    /// Does nothing but a free slot decide when it begins?
    pub(crate) fn is_plain(&self) -> bool {
        self.keyed.is_none()
            && self.circuit_breaker.is_none()
            && self.rate_limit.is_none()
            && self.once.is_none()
            && !self.announced
    }
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct TaskOutcome {
    pub token: Token,
    /// A failure is boxed: most attempts have none, and outcomes travel in lines.
    pub result: Result<Value, Box<Failure>>,
    /// Who did it, for people.
    pub worker: Option<Arc<str>>,
    /// Where its log is, for people.
    pub log: Option<Arc<str>>,
    /// When it got its slot.
    pub started_at: Option<Timestamp>,
}

impl TaskOutcome {
    pub fn new(token: Token, result: Result<Value, Failure>) -> Self {
        Self {
            token,
            result: result.map_err(Box::new),
            worker: None,
            log: None,
            started_at: None,
        }
    }

    /// It ran longer than its timeout, or was silent for longer than its heartbeat allows.
    pub(crate) fn timed_out(token: Token, silent: bool, started_at: Timestamp) -> Self {
        let message = if silent {
            "no sign of life within its heartbeat"
        } else {
            "it took longer than its timeout"
        };
        let failure = Failure::new(failure::kind::TIMEOUT, message);
        Self {
            started_at: Some(started_at),
            ..Self::new(token, Err(failure))
        }
    }
}

/// Until when an attempt may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartRight {
    /// Nobody else could begin it.
    Always,
    /// The lease of its session is known to hold until then.
    Until(Instant),
    /// Not here any more.
    Over,
}

impl StartRight {
    pub fn is_over(self) -> bool {
        match self {
            Self::Always => false,
            Self::Until(end) => Instant::now() >= end,
            Self::Over => true,
        }
    }
}

/// Where outcomes go: the shard that owns the run.
pub trait OutcomeSink: Send + Sync {
    fn settle(&self, outcome: TaskOutcome);
    /// The attempt got its slot or showed life; its time limits count from here.
    fn alive(&self, token: &Token);
    /// May the attempt still begin?
    fn start_right(&self, _token: &Token) -> StartRight {
        StartRight::Always
    }
    /// The attempt has not begun and will not here. Where nobody could begin it elsewhere it is
    /// lost.
    fn give_back(&self, token: &Token) {
        self.settle(TaskOutcome::new(token.clone(), Err(unanswered())));
    }
}

/// The right to answer a task, once. Dropped unanswered (a panic, a killed worker), it answers
/// `WorkerLost`.
pub struct Done {
    token: Option<Token>,
    outcomes: Arc<dyn OutcomeSink>,
    log: OnceLock<Arc<str>>,
    masks: Masks,
}

impl Done {
    pub fn new(token: Token, outcomes: Arc<dyn OutcomeSink>) -> Self {
        Self {
            token: Some(token),
            outcomes,
            log: OnceLock::new(),
            masks: Masks::default(),
        }
    }

    /// What must not be seen in answers and logs.
    #[must_use]
    pub fn masking(mut self, masks: Masks) -> Self {
        self.masks = masks;
        self
    }

    pub fn masks(&self) -> &Masks {
        &self.masks
    }

    pub fn alive(&self) {
        self.token
            .iter()
            .for_each(|token| self.outcomes.alive(token));
    }

    /// May it still begin? A process that stood still for a while finds out here, just before it
    /// does what cannot be taken back.
    pub fn start_right(&self) -> StartRight {
        match &self.token {
            Some(token) => self.outcomes.start_right(token),
            None => StartRight::Over,
        }
    }

    /// Where the attempt's log is; the first word counts.
    pub fn logged(&self, log: &str) {
        let _ = self.log.set(log.into());
    }

    /// Nobody has begun the task, and nobody here will: it is not lost, and no answer to it counts.
    pub fn give_back(mut self) {
        if let Some(token) = self.token.take() {
            self.outcomes.give_back(&token);
        }
    }

    /// What follows from the answer may be done on this thread before it returns, the start of the
    /// next task included: no lock that the executor needs for that may be held.
    pub fn finish(mut self, result: Result<Value, Failure>, worker: Option<Arc<str>>) {
        if let Some(token) = self.token.take() {
            let log = self.log.take();
            let masks = std::mem::take(&mut self.masks);
            let result = if masks.is_empty() {
                result
            } else {
                masked(&masks, result)
            };
            self.outcomes.settle(TaskOutcome {
                worker,
                log,
                ..TaskOutcome::new(token, result)
            });
        }
    }
}

fn masked(masks: &Masks, result: Result<Value, Failure>) -> Result<Value, Failure> {
    result
        .map(|value| masks.hide_in(value))
        .map_err(|failure| masks.hide_in_failure(failure))
}

fn unanswered() -> Failure {
    Failure::new(
        failure::kind::WORKER_LOST,
        "the worker ended without an answer",
    )
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            let log = self.log.take();
            self.outcomes.settle(TaskOutcome {
                log,
                ..TaskOutcome::new(token, Err(unanswered()))
            });
        }
    }
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Done({:?})", self.token)
    }
}

/// Does tasks of one kind.
pub trait Executor: Send + Sync {
    /// Begin a task and return at once; `done` is answered from wherever the work is done.
    fn start(&self, task: Task, done: Done);
    /// Begin several at once, in order.
    fn start_all(&self, tasks: Vec<(Task, Done)>) {
        tasks
            .into_iter()
            .for_each(|(task, done)| self.start(task, done));
    }
    /// Stop a task that is no longer wanted: timed out, cancelled, or its run was lost. Its answer
    /// no longer counts, but it must come, or its `Done` be dropped, when nothing of it is at work
    /// any more: until then it keeps its slot and its keys.
    fn cancel(&self, token: &Token);
    /// Do `start_all`, `cancel` and `withdraw` return at once, whatever happens? One that does not
    /// say so is called on a thread of its own, so that nobody else waits for it.
    fn returns_at_once(&self) -> bool {
        false
    }
    /// The engine ends: what waits here and nobody has begun goes back, each by `Done::give_back`.
    fn withdraw(&self) {}
    /// Can it do this? `None`, or why not in words for the user.
    fn refuses(&self, _arguments: &Value) -> Option<String> {
        None
    }
}
