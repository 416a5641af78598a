//! A bench for executors: starts a task, waits for its outcome.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use lope_engine::executor::{Done, Executor, Limits, OutcomeSink, Task, TaskOutcome, Token};
use lope_model::masks::Masks;
use lope_model::{Epoch, Failure, RunId, Value, value};

/// How long a test waits before it gives up on an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

struct OutcomeChannel(mpsc::Sender<TaskOutcome>);

impl OutcomeSink for OutcomeChannel {
    fn settle(&self, outcome: TaskOutcome) {
        // The bench may be gone already.
        let _ = self.0.send(outcome);
    }

    fn alive(&self, _token: &Token) {}
}

/// An executor under test.
pub(crate) struct Bench<E> {
    pub(crate) executor: E,
    sink: Arc<OutcomeChannel>,
    outcomes: mpsc::Receiver<TaskOutcome>,
    _runtime: tokio::runtime::Runtime,
}

pub(crate) const RUN: RunId = RunId::from_bytes([9; 16]);

impl<E: Executor> Bench<E> {
    pub(crate) fn new(make: impl FnOnce(tokio::runtime::Handle) -> E) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (sender, outcomes) = mpsc::channel();
        let executor = make(runtime.handle().clone());
        Self {
            executor,
            sink: Arc::new(OutcomeChannel(sender)),
            outcomes,
            _runtime: runtime,
        }
    }

    /// Starts `action` with arguments in JSON.
    pub(crate) fn start(&self, action: &str, arguments: &str) -> Token {
        self.start_attempt(action, arguments, ("a/0/b", 1))
    }

    /// The same, answered to another.
    pub(crate) fn start_with(
        &self,
        action: &str,
        arguments: &str,
        outcomes: Arc<dyn OutcomeSink>,
    ) -> Token {
        let task = task(action, arguments, ("a/0/b", 1));
        let token = task.token.clone();
        self.executor
            .start(task, Done::new(token.clone(), outcomes));
        token
    }

    /// The same with a secret in the arguments.
    pub(crate) fn run_masked(
        &self,
        action: &str,
        arguments: &str,
        secret: &str,
    ) -> Result<Value, Failure> {
        let task = task(action, arguments, ("a/0/b", 1));
        let outcomes: Arc<dyn OutcomeSink> = self.sink.clone();
        let done = Done::new(task.token.clone(), outcomes);
        let masks = Masks::of([Arc::from(secret)]);
        self.executor.start(task, done.masking(masks));
        self.outcome()
    }

    /// The same for an attempt of an execution.
    pub(crate) fn start_attempt(
        &self,
        action: &str,
        arguments: &str,
        attempt: (&str, u32),
    ) -> Token {
        let task = task(action, arguments, attempt);
        let token = task.token.clone();
        let outcomes: Arc<dyn OutcomeSink> = self.sink.clone();
        self.executor
            .start(task, Done::new(token.clone(), outcomes));
        token
    }

    pub(crate) fn outcome(&self) -> Result<Value, Failure> {
        self.outcomes
            .recv_timeout(PATIENCE)
            .expect("an answer in time")
            .result
            .map_err(|failure| *failure)
    }

    pub(crate) fn run(&self, action: &str, arguments: &str) -> Result<Value, Failure> {
        self.start(action, arguments);
        self.outcome()
    }
}

fn task(action: &str, arguments: &str, (execution, attempt): (&str, u32)) -> Task {
    let token = Token {
        run: RUN,
        execution: execution.into(),
        attempt,
        epoch: Epoch(1),
    };
    Task {
        token,
        workflow: "w".into(),
        step: "b".into(),
        executor: "test".into(),
        action: action.into(),
        arguments: value::from_json(arguments).unwrap(),
        limits: Limits::default(),
        idempotency_key: Some("key-1".to_owned()),
        trace: None,
    }
}
