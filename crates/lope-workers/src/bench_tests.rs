//! A bench for executors: starts a task, waits for its outcome.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use lope_engine::executor::{Done, Executor, Limits, Outcome, Outcomes, Task, Token};
use lope_model::{Epoch, Failure, RunId, Value, value};

/// How long a test waits before it gives up on an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

struct Ear(mpsc::Sender<Outcome>);

impl Outcomes for Ear {
    fn settle(&self, outcome: Outcome) {
        // The bench may be gone already.
        let _ = self.0.send(outcome);
    }

    fn alive(&self, _token: &Token) {}
}

/// An executor under test.
pub(crate) struct Bench<E> {
    pub(crate) executor: E,
    ear: Arc<Ear>,
    outcomes: mpsc::Receiver<Outcome>,
    _runtime: tokio::runtime::Runtime,
}

pub(crate) const RUN: RunId = RunId::from_bytes([9; 16]);

impl<E: Executor> Bench<E> {
    pub(crate) fn new(make: impl FnOnce(tokio::runtime::Handle) -> E) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, outcomes) = mpsc::channel();
        let executor = make(runtime.handle().clone());
        Self { executor, ear: Arc::new(Ear(sender)), outcomes, _runtime: runtime }
    }

    /// Starts `action` with arguments in JSON.
    pub(crate) fn start(&self, action: &str, arguments: &str) -> Token {
        let token = Token { run: RUN, execution: "a/0/b".into(), attempt: 1, epoch: Epoch(1) };
        let task = Task {
            token: token.clone(),
            workflow: "w".into(),
            step: "b".into(),
            executor: "test".into(),
            action: action.into(),
            arguments: value::from_json(arguments).unwrap(),
            limits: Limits::default(),
            idempotency_key: Some("key-1".to_owned()),
        };
        let outcomes: Arc<dyn Outcomes> = self.ear.clone();
        self.executor.start(task, Done::new(token.clone(), outcomes));
        token
    }

    pub(crate) fn outcome(&self) -> Result<Value, Failure> {
        self.outcomes.recv_timeout(PATIENCE).expect("an answer in time").result.map_err(|failure| *failure)
    }

    pub(crate) fn run(&self, action: &str, arguments: &str) -> Result<Value, Failure> {
        self.start(action, arguments);
        self.outcome()
    }
}
