//! Very many sleeping runs: they cost rows, not memory, and each wakes at its time.
//!
//! A few hundred here; 100,000 with `LOPE_CHAOS=full` (or as many as `LOPE_SLEEPERS` says). How
//! late they wake is printed, not judged: that depends on what else the machine does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lope::stores::{self, CreateStore};
use lope_engine::client::{self, RunStartOptions};
use lope_flow::law::Plan;
use lope_model::{Timestamp, Value};
use lope_store::Store;
use lope_store::runs::{LiveStatus, RunFilter, RunStatus};

const SLEEPER: &str = "name: sleeper\nsteps: { nap: { sleep: '${{ input }}' } }";
/// Runs admitted at once.
const BATCH: usize = 500;
/// An idle runner grows by less than this.
const GROWTH_MAX: u64 = 50 * 1024 * 1024;

/// How many, over how long they wake, and how long it may take until all of them sleep.
fn size() -> (usize, u64, u64) {
    let full = std::env::var("LOPE_CHAOS").is_ok_and(|chaos| chaos == "full");
    let asked = std::env::var("LOPE_SLEEPERS")
        .ok()
        .and_then(|count| count.parse::<usize>().ok());
    match (asked, full) {
        (Some(count), _) => (count, 60_000, 60_000 + count as u64),
        (None, true) => (100_000, 60_000, 120_000),
        (None, false) => (300, 1_000, 4_000),
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

/// Resident memory of a process, in bytes.
fn resident(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

async fn until(what: &str, patience: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(
            began.elapsed() < patience,
            "{what} takes longer than {patience:?}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn count(store: &Store, status: &str) -> usize {
    let counts = store.runs.counts().await.unwrap();
    usize::try_from(counts.by_status.get(status).copied().unwrap_or_default()).unwrap()
}

async fn live(store: &Store) -> usize {
    let mut live = 0;
    for status in ["queued", "running", "sleeping", "waiting", "paused"] {
        live += count(store, status).await;
    }
    live
}

/// Does any run sleep still? Asked while they wake: counting a million of them again and again would
/// take a core from the runner.
async fn sleeps(store: &Store) -> bool {
    let filter = RunFilter {
        statuses: vec![RunStatus::Live(LiveStatus::Sleeping)],
        limit: 1,
        ..RunFilter::default()
    };
    !store.runs.list(filter).await.unwrap().is_empty()
}

/// Admit them, each to wake at its own time after `first`.
async fn admit(store: &Store, plan: &Plan, count: usize, first: Timestamp, spread: u64) {
    for from in (0..count).step_by(BATCH) {
        let batch = (from..count.min(from + BATCH)).map(|number| {
            let (at, due) = (
                now(),
                i64::try_from(number as u64 * spread / count as u64).unwrap(),
            );
            let nap = first.millis() + due - at.millis();
            assert!(
                nap > 0,
                "the first wakes before all are admitted; give more time"
            );
            let input = Some(Value::str(format!("{nap}ms")));
            let options = RunStartOptions {
                input,
                ..RunStartOptions::default()
            };
            client::new_run(plan, options, &lope::QueueLimits::new(), at).admit
        });
        store.runs.admit(batch.collect()).await.unwrap();
    }
}

/// How late each run ended, in milliseconds, in order.
async fn lateness(store: &Store, plan: &Plan) -> Vec<i64> {
    let (mut late, mut after) = (Vec::new(), None);
    loop {
        let filter = RunFilter {
            workflow: Some(plan.name().to_string()),
            after,
            limit: 1_000,
            ..RunFilter::default()
        };
        let page = store.runs.list(filter).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.cursor());
        for record in &page {
            let rows = store.runs.journal(record.run, 0, 10).await.unwrap();
            let start =
                lope_engine::codec::event(&rows[0], &lope_engine::codec::Blobs::new()).unwrap();
            let lope_flow::law::EventKind::Start(begin) = start.kind else {
                panic!("no start")
            };
            let nap = begin.input.unwrap().value;
            let nap: i64 = nap
                .as_str()
                .unwrap()
                .trim_end_matches("ms")
                .parse()
                .unwrap();
            late.push(record.finished_at.unwrap().millis() - (rows[0].at.millis() + nap));
        }
    }
    late.sort_unstable();
    late
}

#[test]
fn sleeping_runs_cost_rows_and_wake_at_their_time() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(sleep_and_wake());
}

async fn sleep_and_wake() {
    let (sleepers, spread, until_asleep) = size();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lope.db").display());
    let store = stores::open(&url.parse().unwrap(), CreateStore::IfMissing)
        .await
        .unwrap();
    let plan = Plan::new(&lope_definition::yaml::read(SLEEPER, "sleeper.yaml").unwrap()).unwrap();
    client::deploy(&store, &plan).await.unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
    command
        .arg("up")
        .env("LOPE_HOME", folder.path())
        .env("LOPE_STORE", &url)
        .env("LOPE_ENGINE_EVICT_AFTER", "500ms");
    let mut runner = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("a runner", Duration::from_secs(60), async || {
        !store.runs.runners(10).await.unwrap().is_empty()
    })
    .await;
    // One that has worked, so that what it always keeps is there.
    admit(
        &store,
        &plan,
        BATCH,
        Timestamp::from_millis(now().millis() + 1_500),
        1,
    )
    .await;
    until("the first runs", Duration::from_secs(60), async || {
        count(&store, "completed").await == BATCH
    })
    .await;
    let before = resident(&runner);

    let first = Timestamp::from_millis(now().millis() + i64::try_from(until_asleep).unwrap());
    let began = Instant::now();
    admit(&store, &plan, sleepers, first, spread).await;
    let admitted = began.elapsed();
    until("sleep", Duration::from_millis(until_asleep), async || {
        count(&store, "sleeping").await >= sleepers
    })
    .await;
    let asleep = began.elapsed();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = resident(&runner);
    let patience = Duration::from_millis(until_asleep + spread) + Duration::from_mins(2);
    until("waking", patience, async || {
        // Of those that have ended not all are counted.
        !sleeps(&store).await && live(&store).await == 0
    })
    .await;
    let busiest = resident(&runner);
    let late = lateness(&store, &plan).await;
    assert_eq!(late.len(), sleepers + BATCH, "all have ended");
    runner.kill().unwrap();
    runner.wait().unwrap();

    let at = |share: usize| late[(late.len() - 1) * share / 1_000];
    println!(
        "{sleepers} runs: admitted in {:.1} s, asleep after {:.1} s; resident {} MB before, {} MB with all asleep, {} MB after",
        admitted.as_secs_f64(),
        asleep.as_secs_f64(),
        before >> 20,
        idle >> 20,
        busiest >> 20
    );
    println!(
        "late by p50 {} ms, p99 {} ms, p99.9 {} ms, at most {} ms",
        at(500),
        at(990),
        at(999),
        at(1_000)
    );
    assert!(late[0] >= 0, "one woke {} ms before its time", -late[0]);
    assert!(
        idle.saturating_sub(before) < GROWTH_MAX,
        "the idle runner grew from {before} to {idle} bytes"
    );
}
