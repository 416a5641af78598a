//! The figures of the mailbox: messages and timers a second on memory and on SQLite with its
//! flushes, by depth of the queue, how late timers come, and how a million queued messages feel.
//!
//! `cargo bench -p lope-mailbox --bench mailbox [-- memory sqlite depth late million]`. Timings
//! swing with disk and neighbours, so nothing here fails; CPU time a message and a probe of the
//! flush stand beside the wall figures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lope_mailbox::bench::{MeasuredMailbox, WORKER, counting_handler, idle_handler};
use lope_mailbox::key::WorkerId;
use lope_mailbox::time::TimeHooks;
use lope_mailbox::{Counting, Handler, Mailbox, Until};
use lope_model::Span;
use lope_sqlite::{BootClock, SqliteOptions, SqliteStore};
use lope_store::bench::{Figure, Stopwatch, fsync_times};
use lope_store::{MemoryStore, Store};

fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    println!("figures: memory, sqlite, depth, late, million");
    runtime.block_on(async {
        if is_asked("memory") {
            memory().await;
        }
        if is_asked("sqlite") {
            sqlite(folder.path()).await;
        }
        if is_asked("depth") {
            depth(folder.path()).await;
        }
        if is_asked("late") {
            late(folder.path()).await;
        }
        if is_asked("million") {
            million(folder.path()).await;
        }
    });
}

fn show(name: &str, figure: &Figure, wanted: &str) {
    println!("{name:<44} {figure}  {wanted}");
}

fn measured(store: &Store) -> MeasuredMailbox {
    MeasuredMailbox {
        tables: Arc::clone(&store.tables),
        time: TimeHooks::on(Arc::new(BootClock)),
    }
}

fn open(path: &Path) -> Store {
    SqliteStore::open(SqliteOptions::new(path)).expect("a store")
}

/// Work until nothing is left.
async fn drain(measured: &MeasuredMailbox, batch: usize, handler: Arc<dyn Handler>) -> Figure {
    let mut worker = measured
        .worker(batch, handler)
        .await
        .expect("a fresh store boots");
    let watch = Stopwatch::start();
    worker.run(Until::Idle).await.expect("the store answers");
    watch.stop(worker.counters().read().successes)
}

/// Handle so many messages and stop.
async fn take(measured: &MeasuredMailbox, count: usize) -> Figure {
    let mut worker = measured
        .taker(1_024, count)
        .await
        .expect("a fresh store boots");
    let watch = Stopwatch::start();
    worker.run(Until::Stopped).await.expect("the store answers");
    watch.stop(count as u64)
}

async fn memory() {
    println!(
        "\nin memory (the seed's system: 0.7–0.9 M messages, 1.1–1.6 M timers per CPU second with raw frames)"
    );
    for depth in [5_000, 100_000, 1_000_000] {
        let measured = measured(&MemoryStore::open());
        measured.queue(depth).await.expect("the store answers");
        let figure = drain(&measured, 1_024, idle_handler()).await;
        show(
            &format!("messages, {depth} queued"),
            &figure,
            "(wanted: ≥ 350–450 k per CPU second)",
        );
    }
    for depth in [5_000, 100_000, 1_000_000] {
        let measured = measured(&MemoryStore::open());
        measured.arm(depth).await.expect("the store answers");
        let figure = drain(&measured, 1_024, idle_handler()).await;
        show(
            &format!("timers, {depth} due"),
            &figure,
            "(wanted: ≥ 550–800 k per CPU second)",
        );
    }
    let measured = measured(&MemoryStore::open());
    measured.queue(200_000).await.expect("the store answers");
    show(
        "messages that count in the state",
        &drain(&measured, 1_024, counting_handler()).await,
        "",
    );
    measured.queue(200_000).await.expect("the store answers");
    let watch = Stopwatch::start();
    let removed = measured.bare(1_024).await.expect("the store answers");
    show(
        "rows read and removed, no mailbox",
        &watch.stop(removed as u64),
        "",
    );
}

fn probe(folder: &Path) -> String {
    let times = fsync_times(folder, 200).expect("the probe writes");
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    format!("a flush: p50 {:.2} ms, p99 {:.2} ms", at(50), at(99))
}

async fn sqlite(folder: &Path) {
    println!("\non SQLite, flushed ({})", probe(folder));
    for (batch, count, wanted) in [
        (1_024, 100_000, "(wanted: 20,000/s)"),
        (64, 40_000, "(wanted: 8,000/s)"),
        (1, 500, ""),
    ] {
        let store = open(&folder.join(format!("batch{batch}.db")));
        let measured = measured(&store);
        for (what, handler) in [
            ("messages", idle_handler()),
            ("messages that count", counting_handler()),
        ] {
            measured.queue(count).await.expect("the store answers");
            show(
                &format!("{what}, batch {batch}"),
                &drain(&measured, batch, handler).await,
                wanted,
            );
        }
        store.upkeep.close().await.expect("the store closes");
    }
    println!("({})", probe(folder));
}

/// The first messages of queues of different depth. Filling a queue and letting go of it are not
/// counted; the depths take turns and the best of each counts, so that neighbours on the machine
/// spoil less.
async fn depth(folder: &Path) {
    const TAKEN: usize = 20_000;
    const DEPTHS: [usize; 4] = [1_000, 20_000, 100_000, 1_000_000];
    const TURNS: usize = 5;
    println!(
        "\n{TAKEN} messages off the front of a queue of any depth, best of {TURNS} (wanted: ±20 %)"
    );
    let mut best: [Option<Figure>; DEPTHS.len()] = Default::default();
    for _ in 0..TURNS {
        for (depth, best) in DEPTHS.into_iter().zip(&mut best) {
            let mut sum: Option<Figure> = None;
            for _ in 0..TAKEN.div_ceil(depth) {
                let measured = measured(&MemoryStore::open());
                measured.queue(depth).await.expect("the store answers");
                let figure = take(&measured, depth.min(TAKEN)).await;
                sum = Some(sum.map_or(figure, |sum| sum.and(&figure)));
            }
            *best = best
                .take()
                .into_iter()
                .chain(sum)
                .min_by_key(|figure| figure.cpu);
        }
    }
    for (depth, best) in DEPTHS.into_iter().zip(best.iter().flatten()) {
        show(&format!("memory, {depth} queued"), best, "");
    }
    for depth in [20_000, 100_000, 1_000_000] {
        let store = open(&folder.join(format!("depth{depth}.db")));
        let measured = measured(&store);
        measured.queue(depth).await.expect("the store answers");
        show(
            &format!("SQLite, {depth} queued"),
            &take(&measured, TAKEN).await,
            "",
        );
        store.upkeep.close().await.expect("the store closes");
    }
}

/// How late timers come to a worker with nothing else to do.
async fn late(folder: &Path) {
    println!("\nlateness of timers, one at a time ({})", probe(folder));
    for (name, store) in [
        ("memory", MemoryStore::open()),
        ("SQLite", open(&folder.join("late.db"))),
    ] {
        let timers = measured(&store)
            .timer_meter(200, Span::from_millis(40))
            .await
            .expect("a fresh store boots");
        let late = timers.lateness().await.expect("the store answers");
        let at = |part: usize| late[(late.len() - 1) * part / 100];
        println!(
            "{name:<44} p50 {} ms   p99 {} ms   max {} ms   (wanted: p99 ≤ 5 ms)",
            at(50),
            at(99),
            at(100)
        );
    }
    println!("({})", probe(folder));
}

/// What one does with a million messages in one inbox.
async fn million(folder: &Path) {
    const COUNT: usize = 1_000_000;
    println!("\na million queued messages on SQLite");
    let path = folder.join("million.db");
    let store = open(&path);
    let measured = measured(&store);
    measured.queue(COUNT).await.expect("the store answers");
    let size = || std::fs::metadata(&path).map_or(0, |file| file.len() / 1_048_576);
    let before = size();
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    let seven = WorkerId::new(WORKER).expect("not negative");
    let began = Instant::now();
    let stats = mailbox
        .stats(100, Counting::Quick)
        .await
        .expect("the store answers");
    println!(
        "stats ({} messages)                              {:>8.1} ms",
        stats.inbox.number(),
        millis(began)
    );
    let began = Instant::now();
    mailbox
        .list(seven, None, 20)
        .await
        .expect("the store answers");
    println!(
        "list --limit 20                                    {:>8.1} ms",
        millis(began)
    );
    let mut one = measured
        .worker(1, idle_handler())
        .await
        .expect("the store boots");
    let began = Instant::now();
    for _ in 0..20 {
        one.tick().await.expect("the store answers");
    }
    println!(
        "claim and acknowledge one message                  {:>8.1} ms",
        millis(began) / 20.0
    );
    show("drain", &drain(&measured, 1_024, idle_handler()).await, "");
    let drained = size();
    measured.queue(COUNT / 2).await.expect("the store answers");
    println!(
        "file: {before} MiB full, {drained} MiB drained, {} MiB with half a million again",
        size()
    );
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
