//! A pipeline of a hundred orders, killed at every call of the store, before the call or right
//! after it, and begun again: each message takes effect once, and no timer is lost or doubled.
//!
//! A sample of the calls in the normal tests, all of them when `LOPE_CHAOS` is `full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::pipeline;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use lope_mailbox::time::{Sleep, TimeHooks};
use lope_mailbox::{ConsumerLoop, Mailbox, Until};
use lope_model::Span;
use lope_store::door::DoorCall;
use lope_store::tables::{Range, TableId, Tables, TablesAnswer, TablesRequest};
use lope_store::{ManualClock, MemoryStore, StoreError, StoreResult, Watch};
use pipeline::{Pipeline, STAGES};

/// Stores that lives are spent on at the same time.
const LANES: usize = 4;

/// The tables as a process sees them that dies at a certain call.
struct Mortal {
    inner: Arc<dyn Tables>,
    /// Calls that are still answered.
    left: AtomicUsize,
    /// Is the last call carried out?
    carried_out: bool,
    calls: AtomicU64,
}

impl Mortal {
    fn new(inner: &Arc<dyn Tables>, calls: usize, carried_out: bool) -> Arc<Self> {
        let inner = Arc::clone(inner);
        Arc::new(Self {
            inner,
            left: AtomicUsize::new(calls),
            carried_out,
            calls: AtomicU64::new(0),
        })
    }

    /// One more call. Answers whether it is still carried out, and whether its answer still
    /// arrives.
    fn count(&self) -> (bool, bool) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let left = self.left.load(Ordering::SeqCst);
        self.left.store(left.saturating_sub(1), Ordering::SeqCst);
        (left > 1 || (left == 1 && self.carried_out), left > 1)
    }

    async fn answer<T>(&self, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let (carried_out, answered) = self.count();
        let answer = if carried_out {
            call.await
        } else {
            Err(StoreError::Closed)
        };
        if answered {
            answer
        } else {
            Err(StoreError::Closed)
        }
    }
}

impl Tables for Mortal {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        Box::pin(self.answer(self.inner.call(request)))
    }
    fn watch(&self) -> Watch {
        self.inner.watch()
    }
}

/// Sleeping moves the clock.
#[derive(Debug)]
struct HandSleep(Arc<ManualClock>);

#[async_trait]
impl Sleep for HandSleep {
    async fn sleep(&self, span: Span) {
        self.0.pass(span);
        tokio::task::yield_now().await;
    }
}

fn time(clock: &Arc<ManualClock>) -> TimeHooks {
    TimeHooks {
        clock: clock.clone(),
        sleep: Arc::new(HandSleep(clock.clone())),
    }
}

/// One life: three workers, each working until it has nothing to do, in turn, until all is done or
/// they die. Answers whether they lived to see it done.
async fn live(
    pipeline: Pipeline,
    tables: Arc<dyn Tables>,
    inner: &Arc<dyn Tables>,
    clock: &Arc<ManualClock>,
) -> bool {
    let mut workers: Vec<ConsumerLoop> = Vec::new();
    for stage in STAGES {
        match pipeline
            .worker(Arc::clone(&tables), stage, time(clock))
            .await
        {
            Some(worker) => workers.push(worker),
            None => return false,
        }
    }
    for _ in 0..1_000 {
        for worker in &mut workers {
            if worker.run(Until::Idle).await.is_err() {
                return false;
            }
        }
        if pipeline.is_done(inner).await
            && inner.count(Range::whole(TableId::OUTBOX)).await.unwrap() == 0
        {
            return true;
        }
        clock.pass(Span::from_millis(5));
    }
    panic!("the pipeline does not end");
}

/// Die at one call, live again, and look.
async fn die_once(
    pipeline: Pipeline,
    tables: &Arc<dyn Tables>,
    calls: usize,
    carried_out: bool,
) -> bool {
    let clock = Arc::new(ManualClock::default());
    pipeline
        .order(&Mailbox::new(Arc::clone(tables)), 0..pipeline.orders)
        .await;
    let done = live(
        pipeline,
        Mortal::new(tables, calls, carried_out),
        tables,
        &clock,
    )
    .await;
    assert!(live(pipeline, Arc::clone(tables), tables, &clock).await);
    pipeline.check(tables).await;
    done
}

/// Which calls to die at.
#[derive(Clone, Copy)]
struct Calls {
    first: usize,
    stride: usize,
}

impl Calls {
    /// All of them when the whole series is wanted, a sample otherwise.
    fn sample(first: usize, stride: usize) -> Self {
        if pipeline::full() {
            Self {
                first: 1,
                stride: 1,
            }
        } else {
            Self { first, stride }
        }
    }

    /// The part of one of several lanes.
    fn lane(self, lane: usize, lanes: usize) -> Self {
        Self {
            first: self.first + lane * self.stride,
            stride: self.stride * lanes,
        }
    }
}

/// Die at every `stride`-th call, from `first` on. Answers with how often that was.
async fn die_everywhere(tables: Arc<dyn Tables>, at: Calls) -> usize {
    let mut number = 0;
    let mut lives = 0;
    for carried_out in [false, true] {
        for calls in (at.first..).step_by(at.stride) {
            number += 1;
            let pipeline = Pipeline {
                number,
                orders: 100,
                batch: 16,
            };
            if die_once(pipeline, &tables, calls, carried_out).await {
                break;
            }
            lives += 1;
        }
    }
    lives
}

/// Several stores at once, each with a part of the calls.
async fn die_in_lanes(places: Vec<String>, at: Calls) {
    let lanes = places.len();
    let mut working = tokio::task::JoinSet::new();
    for (lane, place) in places.into_iter().enumerate() {
        working.spawn(async move {
            let store = pipeline::open(&place).await;
            let lives = die_everywhere(Arc::clone(&store.tables), at.lane(lane, lanes)).await;
            store.upkeep.close().await.unwrap();
            lives
        });
    }
    let lives: usize = working.join_all().await.into_iter().sum();
    println!("{lives} deaths");
    assert!(lives > 4, "the calls were too few to die at");
}

/// Die again and again in one history.
async fn die_often(tables: Arc<dyn Tables>, seed: u64) {
    let clock = Arc::new(ManualClock::default());
    let pipeline = Pipeline {
        number: 1_000 + seed as i64,
        orders: 100,
        batch: 8,
    };
    pipeline
        .order(&Mailbox::new(Arc::clone(&tables)), 0..pipeline.orders)
        .await;
    let mut dice = seed;
    for life in 0.. {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // Long enough that a worker which claims something most often comes to handle it.
        let calls = 60 + (dice >> 33) as usize % 60;
        assert!(life < 1_000, "no progress");
        if live(
            pipeline,
            Mortal::new(&tables, calls, dice & 1 == 0),
            &tables,
            &clock,
        )
        .await
        {
            break;
        }
    }
    pipeline.check(&tables).await;
}

/// "Kill at every store call of a three-worker pipeline of 100 messages … with emits and timers …
/// each message takes effect exactly once, counted in the workers' own state, and no timer is lost
/// or doubled."
#[tokio::test]
async fn in_memory_every_call_may_be_the_last() {
    let lives = die_everywhere(MemoryStore::open().tables, Calls::sample(1, 7)).await;
    println!("{lives} deaths");
    assert!(lives > 4, "the calls were too few to die at");
}

#[tokio::test]
async fn in_memory_a_history_of_many_deaths_ends_well() {
    for seed in 0..if pipeline::full() { 100 } else { 5 } {
        die_often(MemoryStore::open().tables, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_every_call_may_be_the_last() {
    let folders: Vec<tempfile::TempDir> = (0..LANES).map(|_| pipeline::quick_folder()).collect();
    let places = folders
        .iter()
        .map(|folder| pipeline::sqlite(folder.path()))
        .collect();
    die_in_lanes(places, Calls::sample(11, 151)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_every_call_may_be_the_last() {
    let places: Option<Vec<String>> = (0..LANES).map(|_| pipeline::postgres()).collect();
    let Some(places) = places else { return };
    die_in_lanes(places, Calls::sample(11, 151)).await;
}
