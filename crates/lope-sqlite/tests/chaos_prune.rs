//! How long pruning holds the writer: runs with long journals and large values leave a file while
//! another store on it goes on writing, and both are timed. Figures for people, no bound on time:
//! machines stand still. A sample here, all of it under `LOPE_CHAOS=full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lope_model::{Digest, RunnerId, Span, Timestamp};
use lope_sqlite::{SqliteOptions, SqliteStore};
use lope_store::Store;
use lope_store::runs::{Admit, Blob, Prune};

use crate::ground::{Ground, admission, claim, commit, finish, register, rows};

/// How many runs of each kind.
struct PruneSize {
    short: usize,
    long: usize,
    large: usize,
}

fn size() -> PruneSize {
    let is_full = std::env::var("LOPE_CHAOS").is_ok_and(|word| word == "full");
    let times = if is_full { 50 } else { 1 };
    PruneSize {
        short: 60 * times,
        long: times.div_ceil(10),
        large: times.div_ceil(5),
    }
}

fn with_rows(count: u64) -> Admit {
    Admit {
        rows: rows(1, count, 500),
        ..admission()
    }
}

/// A run that keeps four values of two megabytes.
fn with_values(seed: usize) -> Admit {
    let blob = |number: usize| {
        let mut bytes = vec![7; 2_000_000];
        bytes[..16].copy_from_slice(&((seed * 4 + number) as u128).to_be_bytes());
        Blob {
            digest: Digest::of(&bytes),
            bytes,
        }
    };
    Admit {
        blobs: (0..4).map(blob).collect(),
        ..admission()
    }
}

/// Ended runs, all of them.
async fn fill(ground: &Ground, runner: RunnerId) -> usize {
    let PruneSize { short, long, large } = size();
    let admits = (0..short).map(|_| with_rows(20));
    let admits = admits.chain((0..long).map(|_| with_rows(5_000)));
    let mut filled = 0;
    for admit in admits.chain((0..large).map(with_values)) {
        ground.store.runs.admit(vec![admit]).await.unwrap();
        for run in claim(&ground.store, runner).await {
            commit(&ground.store, finish(runner, &run)).await;
            filled += 1;
        }
    }
    filled
}

/// Times of calls, the shortest first.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn add(&mut self, began: Instant) {
        self.0.push(began.elapsed());
    }

    fn told(mut self) -> String {
        self.0.sort();
        let at = |part: usize| {
            let place = (self.0.len() * part / 1_000).min(self.0.len() - 1);
            self.0[place].as_secs_f64() * 1_000.0
        };
        format!(
            "{} calls, median {:.2} ms, 99 of 100 within {:.2} ms, longest {:.2} ms",
            self.0.len(),
            at(500),
            at(990),
            at(1_000)
        )
    }
}

/// Heartbeats of another store on the file, one after the other, until it is told to stop.
async fn heartbeats(store: Store, runner: RunnerId, stop: Arc<AtomicBool>) -> Times {
    let mut times = Times::default();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        store.runs.heartbeat(runner).await.unwrap().unwrap();
        times.add(began);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_write_while_runs_are_pruned() {
    let ground = Ground::new().await;
    let runner = register(&ground.store, Span::from_secs(3_600)).await;
    let filled = fill(&ground, runner).await;
    let other = SqliteStore::open(SqliteOptions::existing(ground.path())).unwrap();
    let beating = register(&other, Span::from_secs(3_600)).await;
    let stop = Arc::new(AtomicBool::new(false));
    let beside = tokio::spawn(heartbeats(other.clone(), beating, Arc::clone(&stop)));
    let (mut portions, mut gone, mut more) = (Times::default(), 0, true);
    while more {
        let prune = Prune {
            before: Timestamp::NEVER,
            statuses: Vec::new(),
            workflow: None,
            limit: 100,
        };
        let began = Instant::now();
        let pruned = ground.store.runs.prune(prune).await.unwrap();
        portions.add(began);
        (gone, more) = (gone + pruned.runs.len(), pruned.more);
    }
    stop.store(true, Ordering::Relaxed);
    let waits = beside.await.unwrap();
    println!("{filled} runs pruned: {}", portions.told());
    println!("heartbeats beside it: {}", waits.told());
    assert_eq!(gone, filled);
    assert_eq!(ground.store.upkeep.check().await.unwrap(), vec![]);
    other.upkeep.close().await.unwrap();
}
