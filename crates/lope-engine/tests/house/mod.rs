//! A house for tests of the engine: a memory store, an engine with real threads, and a hand that does the actions.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lope_engine::client::{self, StartOptions};
use lope_engine::executor::{Done, Executor, Task, Token};
use lope_engine::{Engine, Executors, Settings, codec};
use lope_flow::law::{EventKind, Plan};
use lope_model::{Failure, RunId, Span, Timestamp, Value};
use lope_store::Store;
use lope_store::memory::MemoryStore;
use lope_store::runs::{Admitted, RunRecord};

pub(crate) type Work = dyn Fn(&Task) -> Option<Result<Value, Failure>> + Send + Sync;

/// Does actions in the test's own words; `None` leaves the task unanswered until it is cancelled or its engine dies.
pub(crate) struct Hand {
    work: Box<Work>,
    pub(crate) kept: Mutex<HashMap<Token, Done>>,
    pub(crate) calls: AtomicU32,
    /// How long each action takes.
    pub(crate) pause: Duration,
    /// At work now, and the most there ever were at once.
    at_work: Arc<(AtomicU32, AtomicU32)>,
}

impl Executor for Hand {
    fn start(&self, task: Task, done: Done) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match (self.work)(&task) {
            Some(result) if self.pause.is_zero() => done.finish(result, Some("hand".into())),
            Some(result) => {
                let (pause, at_work) = (self.pause, Arc::clone(&self.at_work));
                let now = at_work.0.fetch_add(1, Ordering::SeqCst) + 1;
                at_work.1.fetch_max(now, Ordering::SeqCst);
                std::thread::spawn(move || {
                    std::thread::sleep(pause);
                    at_work.0.fetch_sub(1, Ordering::SeqCst);
                    done.finish(result, None);
                });
            }
            None => drop(self.kept.lock().unwrap().insert(task.token, done)),
        }
    }

    fn cancel(&self, token: &Token) {
        self.kept.lock().unwrap().remove(token);
    }
}

/// Settings under which tests need not wait long.
pub(crate) fn settings() -> Settings {
    let quick = Settings { lease: Span::from_millis(300), heartbeat: Span::from_millis(50), ..Settings::default() };
    Settings { sweep: Span::from_millis(50), evict_after: Span::from_millis(200), ..quick }
}

pub(crate) struct House {
    pub(crate) store: Store,
    pub(crate) hand: Arc<Hand>,
}

impl House {
    pub(crate) fn new(work: impl Fn(&Task) -> Option<Result<Value, Failure>> + Send + Sync + 'static) -> Self {
        Self::slow(Duration::ZERO, work)
    }

    /// Every action takes so long.
    pub(crate) fn slow(
        pause: Duration,
        work: impl Fn(&Task) -> Option<Result<Value, Failure>> + Send + Sync + 'static,
    ) -> Self {
        let (kept, calls, at_work) = (Mutex::default(), AtomicU32::new(0), Arc::default());
        let hand = Hand { work: Box::new(work), kept, calls, pause, at_work };
        Self { store: MemoryStore::open(), hand: Arc::new(hand) }
    }

    /// The same on a store that is there already.
    pub(crate) fn on(
        store: Store,
        work: impl Fn(&Task) -> Option<Result<Value, Failure>> + Send + Sync + 'static,
    ) -> Self {
        Self { store, ..Self::new(work) }
    }

    /// Most actions at work at once.
    pub(crate) fn peak(&self) -> u32 {
        self.hand.at_work.1.load(Ordering::SeqCst)
    }

    pub(crate) fn calls(&self) -> u32 {
        self.hand.calls.load(Ordering::SeqCst)
    }

    /// Wait until an action is at work that nobody answers.
    pub(crate) async fn hanging(&self) -> Token {
        let waiting = async {
            loop {
                if let Some(token) = self.hand.kept.lock().unwrap().keys().next() {
                    return token.clone();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("an action hangs in time")
    }

    /// The record of a run as soon as it is as it should be.
    pub(crate) async fn stands(&self, run: RunId, as_it_should: impl Fn(&RunRecord) -> bool) -> RunRecord {
        let waiting = async {
            loop {
                let record = self.store.runs.run(run).await.unwrap().unwrap();
                if as_it_should(&record) {
                    return record;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it gets there in time")
    }

    pub(crate) async fn failure(&self, run: RunId) -> Failure {
        let record = self.end(run).await;
        assert_eq!(record.status.as_str(), "failed");
        codec::read_error(&record.error.unwrap()).unwrap()
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine_with(settings())
    }

    pub(crate) fn engine_with(&self, settings: Settings) -> Engine {
        let hand: Arc<dyn Executor> = self.hand.clone();
        let executors: Executors = ["action", "special"].into_iter().map(|kind| (kind.into(), hand.clone())).collect();
        Engine::begin(self.store.clone(), executors, settings).unwrap()
    }

    pub(crate) async fn start(&self, engine: &Engine, yaml: &str, input: Value) -> RunId {
        self.start_with(engine, yaml, StartOptions { input: Some(input), ..StartOptions::default() }).await
    }

    pub(crate) async fn start_with(&self, engine: &Engine, yaml: &str, options: StartOptions) -> RunId {
        let definition = lope_flow::yaml::read(yaml, "test.yaml").unwrap_or_else(|problems| panic!("{problems:?}"));
        let plan = Arc::new(Plan::new(&definition).unwrap());
        client::deploy(&self.store, &plan).await.unwrap();
        engine.know(Arc::clone(&plan));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let birth = client::birth(&plan, options, Timestamp::from_millis(i64::try_from(since).unwrap()));
        let run = birth.admit.run;
        assert!(matches!(engine.admit(birth, &plan).await.unwrap(), Admitted::Created { .. }));
        run
    }

    pub(crate) async fn end(&self, run: RunId) -> RunRecord {
        let waiting = client::wait(&self.store, run);
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it ends in time").unwrap().unwrap()
    }

    pub(crate) async fn result(&self, run: RunId) -> Value {
        let record = self.end(run).await;
        let error = record.error.as_deref().map(|bytes| codec::read_error(bytes).unwrap());
        assert_eq!((record.status.as_str(), error), ("completed", None));
        codec::read_result(&record.result.unwrap()).unwrap()
    }

    /// The rows of a run's journal: when, and what.
    pub(crate) async fn rows(&self, run: RunId) -> Vec<(Timestamp, EventKind)> {
        let rows = self.store.runs.journal(run, 0, 10_000).await.unwrap();
        rows.iter().map(|row| (row.at, codec::kind_of(row).unwrap())).collect()
    }

    pub(crate) async fn gapless(&self, run: RunId) -> Vec<Arc<str>> {
        let rows = self.store.runs.journal(run, 0, 10_000).await.unwrap();
        assert!(rows.iter().zip(1..).all(|(row, seq)| row.seq == seq), "the journal has no gaps");
        rows.into_iter().map(|row| row.event).collect()
    }
}
