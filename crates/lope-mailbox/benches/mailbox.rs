//! The figures of the mailbox: messages and timers a second on memory and on SQLite with its flushes, by depth of the queue,
//! how late timers come, and how a million queued messages feel.
//!
//! `cargo bench -p lope-mailbox --bench mailbox [-- memory sqlite depth late million]`. Timings swing with disk and neighbours,
//! so nothing here fails; CPU time a message and a probe of the flush stand beside the wall figures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lope_mailbox::frame::{Message, MessageKind};
use lope_mailbox::key::WorkerId;
use lope_mailbox::message::delivery;
use lope_mailbox::record::Owner;
use lope_mailbox::time::TimeHooks;
use lope_mailbox::{Config, Handler, Mailbox, Until, Worker, handler, plain};
use lope_model::{Clock, Span, Timestamp};
use lope_sqlite::{BootClock, Options, SqliteStore};
use lope_store::tables::{At, Batch, TableId, Write};
use lope_store::{MemoryStore, Store};
use rustix::time::{ClockId, clock_gettime};

const WORKER: i64 = 7;
const CHUNK: usize = 5_000;

/// Wall and CPU time of some work.
#[derive(Default)]
struct Figure {
    count: usize,
    wall: Duration,
    cpu: Duration,
}

impl Figure {
    fn add(&mut self, other: &Self) {
        (self.count, self.wall, self.cpu) = (self.count + other.count, self.wall + other.wall, self.cpu + other.cpu);
    }

    fn show(&self, name: &str, wanted: &str) {
        let per_cpu = self.count as f64 / self.cpu.as_secs_f64();
        println!(
            "{name:<52} {:>9.0}/s   {per_cpu:>9.0} per CPU second   {:>6.2} µs CPU each   {wanted}",
            self.count as f64 / self.wall.as_secs_f64(),
            self.cpu.as_secs_f64() * 1e6 / self.count as f64,
        );
    }
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
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

async fn memory() {
    println!("\nin memory (the seed's system: 0.7–0.9 M messages, 1.1–1.6 M timers per CPU second with raw frames)");
    for depth in [5_000, 100_000, 1_000_000] {
        let store = MemoryStore::open();
        queue(&store, depth).await;
        let figure = drain(&store, 1_024, depth, idle_handler()).await;
        figure.show(&format!("messages, {depth} queued"), "(wanted: ≥ 350–450 k per CPU second)");
    }
    for depth in [5_000, 100_000, 1_000_000] {
        let store = MemoryStore::open();
        arm(&store, depth).await;
        let figure = drain(&store, 1_024, depth, idle_handler()).await;
        figure.show(&format!("timers, {depth} due"), "(wanted: ≥ 550–800 k per CPU second)");
    }
    let store = MemoryStore::open();
    queue(&store, 200_000).await;
    drain(&store, 1_024, 200_000, counting_handler()).await.show("messages that count in the state", "");
}

async fn sqlite(folder: &Path) {
    println!("\non SQLite, flushed (probe: {:.3} ms a flush)", fsync_probe(folder).as_secs_f64() * 1e3);
    for (batch, count, wanted) in
        [(1_024, 100_000, "(wanted: 20,000/s)"), (64, 40_000, "(wanted: 8,000/s)"), (1, 500, "")]
    {
        let store = open(&folder.join(format!("batch{batch}.db")));
        queue(&store, count).await;
        drain(&store, batch, count, idle_handler()).await.show(&format!("messages, batch {batch}"), wanted);
        queue(&store, count).await;
        drain(&store, batch, count, counting_handler())
            .await
            .show(&format!("messages that count, batch {batch}"), wanted);
        store.upkeep.close().await.expect("the store closes");
    }
    println!("(probe: {:.3} ms a flush)", fsync_probe(folder).as_secs_f64() * 1e3);
}

/// The first messages of queues of different depth. Filling a queue and letting go of it are not counted; the depths take turns and
/// the best of each counts, so that neighbours on the machine spoil less.
async fn depth(folder: &Path) {
    const TAKEN: usize = 20_000;
    const DEPTHS: [usize; 4] = [1_000, 20_000, 100_000, 1_000_000];
    const TURNS: usize = 5;
    println!("\n{TAKEN} messages off the front of a queue of any depth, best of {TURNS} (wanted: ±20 %)");
    let mut best: [Figure; DEPTHS.len()] = Default::default();
    for _ in 0..TURNS {
        for (depth, best) in DEPTHS.into_iter().zip(&mut best) {
            let mut sum = Figure::default();
            for _ in 0..TAKEN.div_ceil(depth) {
                let store = MemoryStore::open();
                queue(&store, depth).await;
                sum.add(&take(&store, depth.min(TAKEN)).await);
            }
            if best.count == 0 || sum.cpu < best.cpu {
                *best = sum;
            }
        }
    }
    for (depth, best) in DEPTHS.into_iter().zip(&best) {
        best.show(&format!("memory, {depth} queued"), "");
    }
    for depth in [20_000, 100_000, 1_000_000] {
        let store = open(&folder.join(format!("depth{depth}.db")));
        queue(&store, depth).await;
        take(&store, TAKEN).await.show(&format!("SQLite, {depth} queued"), "");
        store.upkeep.close().await.expect("the store closes");
    }
}

/// How late timers come to a worker with nothing else to do. They are armed before it starts, so that nothing but the clock wakes
/// it, and stand so far apart that it is idle again before the next one.
async fn late(folder: &Path) {
    const TIMERS: u64 = 200;
    const APART: Span = Span::from_millis(40);
    println!("\nlateness of timers, one at a time (probe: {:.3} ms a flush)", fsync_probe(folder).as_secs_f64() * 1e3);
    for (name, store) in [("memory", MemoryStore::open()), ("SQLite", open(&folder.join("late.db")))] {
        let lateness: Arc<Mutex<Vec<i64>>> = Arc::default();
        let noted = Arc::clone(&lateness);
        let handler = plain(move |context, message| {
            let due = i64::from_le_bytes(message.payload.try_into().expect("eight bytes"));
            noted.lock().expect("no panic").push(context.about().now.millis() - due);
            Ok(())
        });
        let mut worker = worker(&store, 64, handler).await;
        let begin = BootClock.now().plus(Span::from_millis(500));
        let writes = (0..TIMERS).map(|number| {
            let due = begin.plus(APART.times(number));
            delivery(&Message::new(MessageKind::Timer, WORKER, b"t", &due.millis().to_le_bytes()), Some(due))
        });
        let writes = writes.collect::<Result<Vec<_>, _>>().expect("sound messages");
        store.tables.commit(vec![Batch { guards: vec![], writes }]).await.expect("the store answers");
        let stop = worker.stop();
        let running = tokio::spawn(async move { worker.run(Until::Stopped).await });
        while lateness.lock().expect("no panic").len() < TIMERS as usize {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        stop.request();
        running.await.expect("no panic").expect("no error");
        let mut sorted = lateness.lock().expect("no panic").clone();
        sorted.sort_unstable();
        let at = |part: usize| sorted[(sorted.len() * part / 100).min(sorted.len() - 1)];
        println!("{name:<52} p50 {} ms   p99 {} ms   max {} ms   (wanted: p99 ≤ 5 ms)", at(50), at(99), at(100));
    }
}

/// What one does with a million messages in one inbox.
async fn million(folder: &Path) {
    const COUNT: usize = 1_000_000;
    println!("\na million queued messages on SQLite");
    let path = folder.join("million.db");
    let store = open(&path);
    queue(&store, COUNT).await;
    let size = || std::fs::metadata(&path).map_or(0, |file| file.len() / 1_048_576);
    let before = size();
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    let seven = WorkerId::new(WORKER).expect("not negative");
    let began = Instant::now();
    let stats = mailbox.stats(100).await.expect("the store answers");
    println!("stats ({} messages)                              {:>8.1} ms", stats.inbox, millis(began));
    let began = Instant::now();
    mailbox.list(seven, None, 20).await.expect("the store answers");
    println!("list --limit 20                                    {:>8.1} ms", millis(began));
    let mut one = worker(&store, 1, idle_handler()).await;
    let began = Instant::now();
    for _ in 0..20 {
        one.tick().await.expect("the store answers");
    }
    println!("claim and acknowledge one message                  {:>8.1} ms", millis(began) / 20.0);
    drain(&store, 1_024, COUNT - 20, idle_handler()).await.show("drain", "");
    let drained = size();
    queue(&store, COUNT / 2).await;
    println!("file: {before} MiB full, {drained} MiB drained, {} MiB with half a million again", size());
}

fn idle_handler() -> impl Handler + 'static {
    plain(|_, _| Ok(()))
}

fn counting_handler() -> impl Handler + 'static {
    handler(|context, _| {
        Box::pin(async move {
            let count = context
                .state(b"count")
                .await?
                .map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
            context.put_state(b"count", (count + 1).to_le_bytes().to_vec())
        })
    })
}

fn open(path: &Path) -> Store {
    SqliteStore::open(Options::new(path)).expect("a store")
}

async fn worker(store: &Store, max_batch: usize, handler: impl Handler + 'static) -> Worker {
    let owner = Owner::new("bench").expect("a name");
    let seven = WorkerId::new(WORKER).expect("not negative");
    let config = Config { max_batch, lease: Span::from_secs(60), ..Config::new(seven, owner) };
    let time = TimeHooks::on(Arc::new(BootClock));
    Worker::init(Arc::clone(&store.tables), Arc::new(handler), config, time).await.expect("a fresh store boots")
}

async fn queue(store: &Store, count: usize) {
    let mailbox = Mailbox::new(Arc::clone(&store.tables));
    let mut left = count;
    while left > 0 {
        let chunk = left.min(CHUNK);
        let frames = (0..chunk).map(|number| {
            let id = format!("message-{}", left - number);
            Message::new(MessageKind::Command, WORKER, id.as_bytes(), b"a payload of thirty-two bytes...")
                .encode()
                .expect("an id")
        });
        mailbox.send_frames(frames.collect()).await.expect("the store answers");
        left -= chunk;
    }
}

async fn arm(store: &Store, count: usize) {
    for begin in (0..count).step_by(CHUNK) {
        let writes = (begin..(begin + CHUNK).min(count)).map(|number| {
            let id = format!("timer-{number}");
            let frame = Message::new(MessageKind::Timer, WORKER, id.as_bytes(), b"").encode().expect("an id");
            let key = lope_mailbox::key::TimerKey::new(Timestamp::from_millis(number as i64 / 4), number as u64);
            Write::Put(At::new(TableId::TIMERS, key.expect("not negative").to_bytes()), frame)
        });
        store.tables.commit(vec![Batch { guards: vec![], writes: writes.collect() }]).await.expect("the store answers");
    }
}

/// Work until nothing is left.
async fn drain(store: &Store, batch: usize, count: usize, handler: impl Handler + 'static) -> Figure {
    let mut worker = worker(store, batch, handler).await;
    let (wall, cpu) = (Instant::now(), cpu());
    worker.run(Until::Idle).await.expect("the store answers");
    let figure = Figure { count, wall: wall.elapsed(), cpu: self::cpu().saturating_sub(cpu) };
    assert_eq!(worker.counters().read().successes, count as u64);
    figure
}

/// Handle so many messages and stop.
async fn take(store: &Store, count: usize) -> Figure {
    let stop: Arc<Mutex<Option<lope_mailbox::Stop>>> = Arc::default();
    let (asked, left) = (Arc::clone(&stop), std::sync::atomic::AtomicUsize::new(count));
    let handler = plain(move |_, _| {
        if left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 1 {
            asked.lock().expect("no panic").as_ref().expect("set").request();
        }
        Ok(())
    });
    let mut worker = worker(store, 1_024, handler).await;
    *stop.lock().expect("no panic") = Some(worker.stop());
    let (wall, cpu) = (Instant::now(), cpu());
    worker.run(Until::Stopped).await.expect("the store answers");
    Figure { count, wall: wall.elapsed(), cpu: self::cpu().saturating_sub(cpu) }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

/// The mean time of appending a page and flushing it.
fn fsync_probe(folder: &Path) -> Duration {
    const TIMES: u32 = 200;
    let mut file = File::create(folder.join("probe")).expect("a file for the probe");
    let began = Instant::now();
    for _ in 0..TIMES {
        file.write_all(&[0; 4096]).and_then(|()| file.sync_data()).expect("the probe writes");
    }
    began.elapsed() / TIMES
}
