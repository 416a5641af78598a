//! What is stuck or large stays where it is: an executor that does not return, runs that take more
//! memory than was announced.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fixture::{EngineFixture, settings};
use lope_engine::executor::{Done, Executor, Task, Token};
use lope_engine::{Engine, Executors, Settings, client};
use lope_flow::law::EventKind;
use lope_model::{RunId, Value, failure};
use lope_store::door::DoorCall;
use lope_store::tables::{Tables, TablesAnswer, TablesRequest};
use lope_store::{MemoryStore, Watch};

/// Does not return from `start` before it is let.
#[derive(Debug, Default)]
struct Stuck {
    begun: Mutex<u32>,
    is_let: Mutex<bool>,
    notification: Condvar,
}

impl Executor for Stuck {
    fn start(&self, _: Task, done: Done) {
        *self.begun.lock().unwrap() += 1;
        let mut is_let = self.is_let.lock().unwrap();
        while !*is_let {
            is_let = self.notification.wait(is_let).unwrap();
        }
        drop(is_let);
        done.finish(Ok(Value::Int(7)), None);
    }

    fn cancel(&self, _: &Token) {}
}

/// "A stuck executor: the dispatcher goes on."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_does_not_return_holds_up_nobody_but_its_own_tasks() {
    let fixture = EngineFixture::new(|_| Some(Ok(Value::Int(1))));
    let stuck = Arc::new(Stuck::default());
    let executors: Executors = [
        (
            "action".into(),
            fixture.test_executor.clone() as Arc<dyn Executor>,
        ),
        ("stuck".into(), Arc::clone(&stuck) as Arc<dyn Executor>),
    ]
    .into();
    let one = Settings {
        shards: 1,
        ..settings()
    };
    let engine = Engine::begin(fixture.store.clone(), executors, one).unwrap();
    let yaml = "name: s\nsteps: { a: { action: x, executor: stuck } }";
    let first = fixture.start(&engine, yaml, Value::Null).await;
    fixture
        .stands(first, |_| *stuck.begun.lock().unwrap() == 1)
        .await;
    // Others are served, by the same shard.
    let yaml = "name: o\nsteps: { a: { action: x }, b: { action: y, needs: [a] } }";
    let other = fixture.start(&engine, yaml, Value::Null).await;
    assert_eq!(fixture.end(other).await.status.as_str(), "completed");
    // One that waits for the stuck one ends when it is told to, or when its time is over.
    let yaml = "name: t\nsteps: { a: { action: x, executor: stuck, timeout: 50ms } }";
    let late = fixture.start(&engine, yaml, Value::Null).await;
    assert!(fixture.failure(late).await.is_a(failure::kind::TIMEOUT));
    let yaml = "name: c\nsteps: { a: { action: x, executor: stuck } }";
    let unwanted = fixture.start(&engine, yaml, Value::Null).await;
    fixture
        .stands(unwanted, |run| run.status.as_str() == "running")
        .await;
    let cancel = EventKind::Cancel { force: false };
    client::tell(&fixture.store, unwanted, &cancel, None)
        .await
        .unwrap();
    assert_eq!(fixture.end(unwanted).await.status.as_str(), "cancelled");
    assert_eq!(*stuck.begun.lock().unwrap(), 1, "the others never began");
    *stuck.is_let.lock().unwrap() = true;
    stuck.notification.notify_all();
    assert_eq!(fixture.result(first).await, Value::Int(7));
}

const MEGABYTE: usize = 1024 * 1024;
/// Makes a megabyte out of nothing, rests outside memory, then hangs until it is let.
const GROWING: &str = "name: g\nsteps:\n  a: { action: grow }\n  w: { wait: go, needs: [a] }\n  \
                       b: { action: hang, needs: [w] }\n  c: { return: '${{ a }}', needs: [b] }\n";

/// "What is resident is counted as it is now, not as at admission; `resident_bytes` bounds the sum."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_grew_are_counted_as_they_are_and_the_others_wait_for_room() {
    let fixture = growing();
    let engine = fixture.engine_with(settings());
    let runs = resting(&fixture, &engine).await;
    engine.shutdown(Duration::from_secs(20)).await.unwrap();
    go(&fixture, &runs).await;
    let engine = fixture.engine_with(small());
    no_more_than_fit_at_once(&fixture, runs).await;
    engine.shutdown(Duration::from_secs(20)).await.unwrap();
}

/// The same where each is claimed by itself, while the ones before it are still being loaded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_wake_one_after_the_other_wait_for_room_too() {
    let fixture = growing();
    let engine = fixture.engine_with(small());
    let runs = resting(&fixture, &engine).await;
    go(&fixture, &runs).await;
    no_more_than_fit_at_once(&fixture, runs).await;
    engine.shutdown(Duration::from_secs(20)).await.unwrap();
}

fn small() -> Settings {
    Settings {
        resident_bytes: 4 * MEGABYTE as u64,
        ..settings()
    }
}

fn growing() -> EngineFixture {
    EngineFixture::new(|task| match &*task.action {
        "grow" => Some(Ok(Value::str("x".repeat(MEGABYTE)))),
        _ => None,
    })
}

/// Twelve runs of a megabyte each, outside memory.
async fn resting(fixture: &EngineFixture, engine: &Engine) -> Vec<RunId> {
    let mut runs = Vec::new();
    for _ in 0..12 {
        runs.push(fixture.start(engine, GROWING, Value::Null).await);
    }
    for run in &runs {
        fixture
            .stands(*run, |run| {
                run.status.as_str() == "waiting" && run.owner.is_none()
            })
            .await;
    }
    runs
}

async fn go(fixture: &EngineFixture, runs: &[RunId]) {
    for run in runs {
        let go = EventKind::Signal {
            name: "go".into(),
            value: Value::Null,
        };
        client::tell(&fixture.store, *run, &go, None).await.unwrap();
    }
}

async fn no_more_than_fit_at_once(fixture: &EngineFixture, runs: Vec<RunId>) {
    fixture.hanging().await;
    // Long enough for several claims; if the machine stands still, nothing more is claimed either.
    let mut most = 0;
    for _ in 0..30 {
        most = most.max(fixture.test_executor.kept.lock().unwrap().len());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!((1..=5).contains(&most), "{most} of a megabyte each");
    let mut ended = 0;
    while ended < runs.len() {
        fixture.hanging().await;
        let kept = std::mem::take(&mut *fixture.test_executor.kept.lock().unwrap());
        assert!(kept.len() <= 5, "{} of a megabyte each", kept.len());
        for (_, done) in kept {
            done.finish(Ok(Value::Null), None);
            ended += 1;
        }
    }
    for run in runs {
        assert_eq!(fixture.end(run).await.status.as_str(), "completed");
    }
}

/// What limits ask of the store.
struct CountingDoor {
    inner: Arc<dyn Tables>,
    calls: AtomicUsize,
}

impl Tables for CountingDoor {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.call(request)
    }

    fn watch(&self) -> Watch {
        self.inner.watch()
    }
}

/// A step that uses no key, rate, circuit or idempotency key costs no request to the store for them;
/// one that does is seen to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_without_limits_asks_nothing_of_them() {
    let mut store = MemoryStore::open();
    let door = Arc::new(CountingDoor {
        inner: Arc::clone(&store.tables),
        calls: AtomicUsize::new(0),
    });
    store.tables = Arc::clone(&door) as Arc<dyn Tables>;
    let fixture = EngineFixture::on(store, |_| Some(Ok(Value::Int(1))));
    let engine = fixture.engine();
    let calls = async |yaml: &str| {
        let before = door.calls.load(Ordering::SeqCst);
        let run = fixture.start(&engine, yaml, Value::Null).await;
        fixture.end(run).await;
        door.calls.load(Ordering::SeqCst) - before
    };
    let many = |step: &str| {
        format!(
            "name: m\nsteps: {{ a: {{ each: '${{{{ range(200) }}}}', as: n, parallel: max, steps: {{ b: {step} }} }} }}"
        )
    };
    // What an engine asks by itself now and then falls into some of these runs, not into all.
    let mut plain = usize::MAX;
    for _ in 0..5 {
        plain = plain.min(calls(&many("{ action: x }")).await);
    }
    assert_eq!(plain, 0, "200 steps cost nothing");
    let keyed = calls(&many("{ action: x, concurrency: { limit: 200, key: k } }")).await;
    assert!(keyed > plain, "{keyed}");
    // "batches of tokens leased from the store, not a query per step": one after the other.
    let rated = "name: r\nsteps: { a: { each: '${{ range(200) }}', as: n, \
                 steps: { b: { action: x, rate_limit: 1000000/1h } } } }";
    let rated = calls(rated).await;
    assert!(
        (1..=20).contains(&rated),
        "{rated} requests for 200 starts of a rate"
    );
}
