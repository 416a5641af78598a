//! The door to workers: a task goes in, and sooner or later its outcome comes back.
//!
//! An executor does the work of one kind (`action`, `run`, `js`, `http`, …). It owns neither retries nor time limits; those
//! are decided by the law and judged by the engine. A task whose `Done` is dropped without an answer counts as lost.

use std::fmt;
use std::sync::{Arc, OnceLock};

use lope_model::policy::{CircuitBreaker, RateLimit};
use lope_model::{Epoch, Failure, Priority, RunId, Span, Timestamp, Value, failure};

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
}

impl Limits {
    /// Does nothing but a free slot decide when it begins?
    pub(crate) fn is_plain(&self) -> bool {
        self.keyed.is_none() && self.circuit_breaker.is_none() && self.rate_limit.is_none() && self.once.is_none()
    }
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct Outcome {
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

impl Outcome {
    pub fn new(token: Token, result: Result<Value, Failure>) -> Self {
        Self { token, result: result.map_err(Box::new), worker: None, log: None, started_at: None }
    }

    /// It ran longer than its timeout, or was silent for longer than its heartbeat allows.
    pub(crate) fn timed_out(token: Token, silent: bool, started_at: Timestamp) -> Self {
        let message = if silent { "no sign of life within its heartbeat" } else { "it took longer than its timeout" };
        let failure = Failure::new(failure::kind::TIMEOUT, message);
        Self { started_at: Some(started_at), ..Self::new(token, Err(failure)) }
    }
}

/// Where outcomes go: the shard that owns the run.
pub trait Outcomes: Send + Sync {
    fn settle(&self, outcome: Outcome);
    /// The attempt got its slot or showed life; its time limits count from here.
    fn alive(&self, token: &Token);
}

/// The right to answer a task, once. Dropped unanswered (a panic, a killed worker), it answers `WorkerLost`.
pub struct Done {
    token: Option<Token>,
    outcomes: Arc<dyn Outcomes>,
    log: OnceLock<Arc<str>>,
    masks: Masks,
}

impl Done {
    pub fn new(token: Token, outcomes: Arc<dyn Outcomes>) -> Self {
        Self { token: Some(token), outcomes, log: OnceLock::new(), masks: Masks::default() }
    }

    /// What must not be seen in answers and logs.
    #[must_use]
    pub(crate) fn masking(mut self, masks: Masks) -> Self {
        self.masks = masks;
        self
    }

    pub fn masks(&self) -> &Masks {
        &self.masks
    }

    pub fn alive(&self) {
        self.token.iter().for_each(|token| self.outcomes.alive(token));
    }

    /// Where the attempt's log is; the first word counts.
    pub fn logged(&self, log: &str) {
        let _ = self.log.set(log.into());
    }

    pub fn finish(mut self, result: Result<Value, Failure>, worker: Option<Arc<str>>) {
        if let Some(token) = self.token.take() {
            let log = self.log.take();
            let masks = std::mem::take(&mut self.masks);
            let result = if masks.is_empty() { result } else { masked(&masks, result) };
            self.outcomes.settle(Outcome { worker, log, ..Outcome::new(token, result) });
        }
    }
}

fn masked(masks: &Masks, result: Result<Value, Failure>) -> Result<Value, Failure> {
    result.map(|value| masks.hide_in(value)).map_err(|failure| masks.hide_in_failure(failure))
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            let failure = Failure::new(failure::kind::WORKER_LOST, "the worker ended without an answer");
            let log = self.log.take();
            self.outcomes.settle(Outcome { log, ..Outcome::new(token, Err(failure)) });
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
        tasks.into_iter().for_each(|(task, done)| self.start(task, done));
    }
    /// Stop a task that is no longer wanted: timed out, cancelled, or its run was lost. Its answer no longer counts.
    fn cancel(&self, token: &Token);
    /// Can it do this? `None`, or why not in words for the user.
    fn refuses(&self, _arguments: &Value) -> Option<String> {
        None
    }
}
