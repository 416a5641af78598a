//! A pool with the test's actions, and an listener for its answers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use lope_engine::executor::{Done, Executor, Limits, OutcomeSink, Task, TaskOutcome, Token};
use lope_model::{Epoch, Failure, RunId, Span, Value, value};
use lope_workers::pool::{Pool, PoolSettings, WorkerProgram};
use lope_workers::{Logs, logs::LogEntry};

/// How long a test waits before it gives up on an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const RUN: RunId = RunId::from_bytes([9; 16]);

struct OutcomeListener {
    outcomes: mpsc::Sender<TaskOutcome>,
    alive: Mutex<u64>,
}

impl OutcomeSink for OutcomeListener {
    fn settle(&self, outcome: TaskOutcome) {
        // The bench may be gone already.
        let _ = self.outcomes.send(outcome);
    }

    fn alive(&self, _token: &Token) {
        *self.alive.lock().unwrap() += 1;
    }
}

pub(crate) struct Bench {
    pub(crate) pool: Pool,
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) folder: tempfile::TempDir,
    listener: Arc<OutcomeListener>,
    outcomes: mpsc::Receiver<TaskOutcome>,
    early: HashMap<Token, TaskOutcome>,
    born: u32,
}

/// The interpreter that the tests use; nothing if they were told to go without.
pub(crate) fn python() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("LOPE_TEST_PYTHON") {
        return Some(path.into());
    }
    assert!(
        std::env::var_os("LOPE_TEST_NO_PYTHON").is_some(),
        "LOPE_TEST_PYTHON is not set: run this by `cargo xtask test`, or beside `cargo xtask with`"
    );
    println!("left out: no Python");
    None
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python")
}

/// Settings for `processes` workers with the test's actions, quick where production is patient.
pub(crate) fn settings(interpreter: PathBuf, processes: usize, module: &str) -> PoolSettings {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let mut program = WorkerProgram::python(interpreter, &[module.to_owned()], &[tests()]);
    program
        .environment
        .push(("PYTHONPATH".into(), package.into()));
    PoolSettings {
        processes,
        slots: 32,
        program,
        heartbeat: Span::from_millis(100),
        cancel_grace: Span::from_millis(500),
        stuck_grace: Span::from_secs(2),
        backoff: (Span::from_millis(10), Span::from_secs(1)),
        ..PoolSettings::default()
    }
}

impl Bench {
    pub(crate) fn new(settings: PoolSettings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::at(folder.path().join("logs"));
        let pool = Pool::begin(settings, runtime.handle().clone(), logs).unwrap();
        let (sender, outcomes) = mpsc::channel();
        let listener = Arc::new(OutcomeListener {
            outcomes: sender,
            alive: Mutex::new(0),
        });
        Self {
            pool,
            runtime,
            folder,
            listener,
            outcomes,
            early: HashMap::new(),
            born: 0,
        }
    }

    pub(crate) fn with(processes: usize) -> Option<Self> {
        Some(Self::new(settings(python()?, processes, "pool_actions")))
    }

    pub(crate) fn start(&mut self, action: &str, arguments: &str) -> Token {
        self.born += 1;
        let execution = format!("{action}/{}", self.born);
        self.attempt(&execution, 1, action, arguments)
    }

    pub(crate) fn attempt(
        &mut self,
        execution: &str,
        attempt: u32,
        action: &str,
        arguments: &str,
    ) -> Token {
        let (task, done) = self.task(execution, attempt, action, arguments);
        let token = task.token.clone();
        self.pool.start(task, done);
        token
    }

    /// A task, and the right to answer it.
    pub(crate) fn task(
        &self,
        execution: &str,
        attempt: u32,
        action: &str,
        arguments: &str,
    ) -> (Task, Done) {
        let token = Token {
            run: RUN,
            execution: execution.into(),
            attempt,
            epoch: Epoch(1),
        };
        let task = Task {
            token: token.clone(),
            workflow: "w".into(),
            step: "b".into(),
            executor: "action".into(),
            action: action.into(),
            arguments: value::from_json(arguments).unwrap(),
            limits: Limits {
                heartbeat: Some(Span::from_secs(60)),
                ..Limits::default()
            },
            idempotency_key: Some("key-1".to_owned()),
            trace: None,
        };
        let outcomes: Arc<dyn OutcomeSink> = self.listener.clone();
        let done = Done::new(token, outcomes);
        (task, done)
    }

    pub(crate) fn outcome(&mut self, token: &Token) -> Result<Value, Failure> {
        loop {
            if let Some(outcome) = self.early.remove(token) {
                return outcome.result.map_err(|failure| *failure);
            }
            let outcome = self
                .outcomes
                .recv_timeout(PATIENCE)
                .expect("an answer in time");
            self.early.insert(outcome.token.clone(), outcome);
        }
    }

    pub(crate) fn run(&mut self, action: &str, arguments: &str) -> Result<Value, Failure> {
        let token = self.start(action, arguments);
        self.outcome(&token)
    }

    pub(crate) fn alive(&self) -> u64 {
        *self.listener.alive.lock().unwrap()
    }

    /// The log of an attempt, without times.
    /// Wait until the attempt's log holds this text.
    pub(crate) fn until_log(&self, token: &Token, text: &str) {
        let begun = std::time::Instant::now();
        while !self.log(token).join("\n").contains(text) {
            assert!(
                begun.elapsed() < PATIENCE,
                "its log never said '{text}': {:?}",
                self.log(token)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn log(&self, token: &Token) -> Vec<String> {
        let logs = Logs::at(self.folder.path().join("logs"))
            .of_run(RUN)
            .unwrap_or_default();
        let found =
            |log: &&LogEntry| log.execution == *token.execution && log.attempt == token.attempt;
        let Some(log) = logs.iter().find(found) else {
            return Vec::new();
        };
        let text = std::fs::read_to_string(&log.path).unwrap();
        text.lines()
            .map(|line| line.split_once(' ').unwrap().1.to_owned())
            .collect()
    }
}
