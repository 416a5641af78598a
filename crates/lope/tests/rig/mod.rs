//! What the tests of the embedded runner share: runners on stores, flows, a tally of what ran,
//! waits with an end.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file uses some of them"
)]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lope::{Flow, Runner, RunnerBuilder, StartOptions};
use lope_engine::Settings;
use lope_model::Span;
use lope_store::Store;
use lope_store::memory::MemoryStore;

/// Longest time that anything in a test may take.
pub const LONG: Duration = Duration::from_secs(60);

/// Settings under which a test need not wait long for what a runner does by itself. The lease is
/// long: a machine that stands still for a moment must not lose it.
pub fn settings() -> Settings {
    Settings {
        shards: 2,
        lease: Span::from_secs(60),
        heartbeat: Span::from_millis(100),
        sweep: Span::from_millis(50),
        ..Settings::default()
    }
}

/// The settings of a runner that is going to lose its lease.
pub fn short_lease() -> Settings {
    Settings {
        lease: Span::from_secs(1),
        ..settings()
    }
}

pub fn builder() -> RunnerBuilder {
    Runner::builder().settings(settings())
}

/// A runner that persists nothing.
pub async fn runner() -> Runner {
    builder().build().await.unwrap()
}

/// A runner on a store.
pub async fn on(store: &Store) -> Runner {
    builder().store(store.clone()).build().await.unwrap()
}

pub fn memory() -> Store {
    MemoryStore::open()
}

/// A store in a file of its own. The folder goes with the guard.
pub struct File {
    pub folder: tempfile::TempDir,
}

impl File {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("lope.db").display())
    }

    pub async fn runner(&self) -> Runner {
        builder().url(&self.url()).build().await.unwrap()
    }
}

/// Start a flow as `w`.
pub async fn start(runner: &Runner, flow: &Flow) {
    runner
        .start_workflow("w", flow, StartOptions::default())
        .await
        .unwrap();
}

/// Something that must happen.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what)
        .await
        .expect("it happens in time")
}

/// Wait until something holds; a store has no notification for everything.
pub async fn until(mut holds: impl AsyncFnMut() -> bool) {
    soon(async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// How often what was done, by name, and in which order.
#[derive(Clone, Default)]
pub struct Tally(Arc<Mutex<Vec<String>>>);

impl Tally {
    pub fn note(&self, what: impl ToString) {
        self.0.lock().unwrap().push(what.to_string());
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn of(&self, what: &str) -> usize {
        self.all().iter().filter(|noted| *noted == what).count()
    }

    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        self.all()
            .into_iter()
            .for_each(|noted| *counts.entry(noted).or_default() += 1);
        counts
    }
}

/// Something that holds others back until it is opened.
#[derive(Clone)]
pub struct Gate(Arc<tokio::sync::Semaphore>);

impl Gate {
    pub fn shut() -> Self {
        Self(Arc::new(tokio::sync::Semaphore::new(0)))
    }

    pub async fn pass(&self) {
        drop(self.0.acquire().await.unwrap());
    }

    pub fn open(&self) {
        self.0.add_permits(1_000);
    }
}

/// Adds one.
pub fn add_one() -> Flow {
    Flow::builder("add-one")
        .step("add", |x: i64| async move { Ok(x + 1) })
        .build()
        .unwrap()
}
