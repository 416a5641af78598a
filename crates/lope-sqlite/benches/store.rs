//! The figures of the SQLite store, each beside its raw limit from the same run: the disk's flush
//! and the CPU time a row.
//!
//! `cargo bench -p lope-sqlite --bench store`. Timings swing with the disk, so nothing here fails;
//! the figures are for reading.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lope_model::{
    Digest, Epoch, Priority, QueueName, Realm, RunId, RunnerId, Span, Timestamp, VersionId,
};
use lope_sqlite::{SqliteOptions, SqliteStore};
use lope_store::Store;
use lope_store::runs::{
    Admit, Claim, CommitReply, Deploy, FinalStatus, Finish, JournalRow, LiveStatus, Register,
    RunCommit, Then,
};
use rusqlite::{Connection, params};

/// How long each figure is taken.
const TAKE: Duration = Duration::from_secs(3);
const COMMITTERS: usize = 64;
const BATCH: usize = 1_000;
/// A flush of an ordinary disk.
const SLOWER_FLUSH: Duration = Duration::from_millis(2);
const PROCESSES: usize = 8;
/// Names the file that a child process commits to.
const CHILD: &str = "LOPE_BENCH_CHILD";
const BODY: [u8; 120] = [7; 120];

/// Wall and CPU time of some work, and how many rows it wrote.
struct Figure {
    rows: u64,
    wall: Duration,
    cpu: Duration,
}

impl Figure {
    fn rate(&self) -> f64 {
        self.rows as f64 / self.wall.as_secs_f64()
    }

    fn show(&self, name: &str, fsync: Duration) {
        println!(
            "{name:<44} {:>10.0} rows/s   {:>7.2} µs CPU/row   (fsync probe {:.3} ms)",
            self.rate(),
            self.cpu.as_secs_f64() * 1e6 / self.rows as f64,
            fsync.as_secs_f64() * 1e3
        );
    }
}

fn main() {
    if let Some(path) = std::env::var_os(CHILD) {
        return commit_as_child(Path::new(&path));
    }
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
    println!(
        "SQLite {}; figures: committers, rows, runs, processes",
        rusqlite::version()
    );

    if is_asked("committers") {
        group_commit(&runtime, folder.path());
    }
    if is_asked("rows") {
        let bare = bare_rows(folder.path());
        let ours = journal_rows(&runtime, folder.path());
        println!(
            "journal rows against the bare loop: {:.0} % (wanted: 60 %)\n",
            100.0 * ours.rate() / bare.rate()
        );
    }
    if is_asked("runs") {
        one_step_runs(&runtime, folder.path());
    }
    if is_asked("processes") {
        processes(&runtime, folder.path());
    }
}

/// What group commit gains is what a flush costs, so it is measured on this disk, which may hardly
/// wait for its flushes, and on the same disk with flushes that are slower by a known time.
fn group_commit(runtime: &tokio::runtime::Runtime, folder: &Path) {
    for slower in [Duration::ZERO, SLOWER_FLUSH] {
        let one = committers(runtime, folder, 1, slower);
        let many = committers(runtime, folder, COMMITTERS, slower);
        let flush = fsync_probe(folder) + slower;
        println!(
            "{COMMITTERS} committers against one: {:.1}× where a flush takes {:.3} ms (wanted: 20× where it takes longer than a \
             commit's work)\n",
            many.rate() / one.rate(),
            flush.as_secs_f64() * 1e3
        );
    }
}

/// The mean time of appending a page and flushing it.
fn fsync_probe(folder: &Path) -> Duration {
    const TIMES: u32 = 200;
    let mut file = File::create(folder.join("probe")).expect("a file for the probe");
    let began = Instant::now();
    for _ in 0..TIMES {
        file.write_all(&[0; 4096])
            .and_then(|()| file.sync_data())
            .expect("the probe writes");
    }
    began.elapsed() / TIMES
}

fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.cast_unsigned(), used.tv_nsec as u32)
}

fn measured(work: impl FnOnce() -> u64) -> Figure {
    let (cpu, began) = (cpu_time(), Instant::now());
    let rows = work();
    Figure {
        rows,
        wall: began.elapsed(),
        cpu: cpu_time().saturating_sub(cpu),
    }
}

/// Each committer writes one row at a time into a run of its own.
fn committers(
    runtime: &tokio::runtime::Runtime,
    folder: &Path,
    number: usize,
    slower: Duration,
) -> Figure {
    let path = folder.join(format!("committers-{number}-{}.db", slower.as_millis()));
    let store = open_with(
        runtime,
        SqliteOptions {
            slower_flush: slower,
            ..SqliteOptions::new(path)
        },
    );
    let runner = runtime.block_on(register(&store));
    let runs = runtime.block_on(admit(&store, number, Some(runner)));
    let fsync = fsync_probe(folder);
    let figure = measured(|| {
        runtime.block_on(async {
            let until = Instant::now() + TAKE;
            let tasks: Vec<_> = runs
                .iter()
                .map(|run| tokio::spawn(commit_rows(store.clone(), *run, runner, until)))
                .collect();
            let mut rows = 0;
            for task in tasks {
                rows += task.await.expect("a committer");
            }
            rows
        })
    });
    let added = if slower.is_zero() {
        String::new()
    } else {
        format!(", flush + {} ms", slower.as_millis())
    };
    figure.show(
        &format!("{number} committers, one row a commit{added}"),
        fsync,
    );
    runtime.block_on(store.upkeep.close()).expect("closed");
    figure
}

async fn commit_rows(store: Store, run: RunId, runner: RunnerId, until: Instant) -> u64 {
    let mut seq = 1;
    while Instant::now() < until {
        seq += 1;
        let replies = store
            .runs
            .commit(vec![commit(run, runner, seq, 1)])
            .await
            .expect("a commit");
        assert!(matches!(replies[0], CommitReply::Done { .. }));
    }
    seq - 1
}

/// A thousand rows a batch, over a hundred runs, through the door.
fn journal_rows(runtime: &tokio::runtime::Runtime, folder: &Path) -> Figure {
    const RUNS: usize = 100;
    let store = open(runtime, &folder.join("rows.db"));
    let runner = runtime.block_on(register(&store));
    let runs = runtime.block_on(admit(&store, RUNS, Some(runner)));
    let each = (BATCH / RUNS) as u64;
    let fsync = fsync_probe(folder);
    let figure = measured(|| {
        runtime.block_on(async {
            let until = Instant::now() + TAKE;
            let (mut seq, mut rows) = (2, 0);
            while Instant::now() < until {
                let commits = runs
                    .iter()
                    .map(|run| commit(*run, runner, seq, each))
                    .collect();
                store.runs.commit(commits).await.expect("a commit");
                seq += each;
                rows += BATCH as u64;
            }
            rows
        })
    });
    figure.show("journal rows, 1,000 a batch over 100 runs", fsync);
    runtime.block_on(store.upkeep.close()).expect("closed");
    figure
}

/// The same rows by a bare loop over a prepared statement, with the same settings.
fn bare_rows(folder: &Path) -> Figure {
    let path = folder.join("bare.db");
    let mut db = Connection::open(path).expect("a database");
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 4096;
         CREATE TABLE journal (run_id BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, event TEXT NOT NULL,
             body BLOB NOT NULL, PRIMARY KEY (run_id, seq)) WITHOUT ROWID, STRICT;",
    )
    .expect("a table");
    let runs: Vec<RunId> = (0..100).map(id).collect();
    let fsync = fsync_probe(folder);
    let figure = measured(|| {
        let until = Instant::now() + TAKE;
        let (mut seq, mut rows) = (2_i64, 0);
        while Instant::now() < until {
            let batch = db.transaction().expect("a transaction");
            let mut insert = batch
                .prepare_cached("INSERT INTO journal VALUES (?1, ?2, ?3, ?4, ?5)")
                .expect("a statement");
            for run in &runs {
                for offset in 0..10 {
                    insert
                        .execute(params![run.as_bytes(), seq + offset, 0, "settled", BODY])
                        .expect("a row");
                }
            }
            drop(insert);
            batch.commit().expect("a commit");
            seq += 10;
            rows += BATCH as u64;
        }
        rows
    });
    figure.show("bare rusqlite loop, 1,000 rows a transaction", fsync);
    figure
}

/// Runs of one step through all verbs: admit, claim, load, commit with completion; batches of 500.
fn one_step_runs(runtime: &tokio::runtime::Runtime, folder: &Path) {
    const AT_ONCE: usize = 500;
    let store = open(runtime, &folder.join("runs.db"));
    let runner = runtime.block_on(register(&store));
    let fsync = fsync_probe(folder);
    let figure = measured(|| {
        runtime.block_on(async {
            let until = Instant::now() + TAKE;
            let mut done = 0;
            while Instant::now() < until {
                admit_from(&store, done, AT_ONCE, None).await;
                let claimed = store
                    .runs
                    .claim(claim(runner, AT_ONCE))
                    .await
                    .expect("a claim")
                    .expect("a session");
                let ids: Vec<RunId> = claimed.runs.iter().map(|run| run.run).collect();
                let loaded = store.runs.load(&ids).await.expect("loaded");
                assert_eq!(loaded.len(), AT_ONCE);
                let commits = claimed
                    .runs
                    .iter()
                    .map(|run| finish(run.run, runner, run.epoch))
                    .collect();
                store.runs.commit(commits).await.expect("a commit");
                done += AT_ONCE;
            }
            done as u64
        })
    });
    figure.show("one-step runs: admit, claim, load, finish", fsync);
    runtime.block_on(store.upkeep.close()).expect("closed");
}

/// Several processes on one file, eight committers each.
fn processes(runtime: &tokio::runtime::Runtime, folder: &Path) {
    let path = folder.join("processes.db");
    runtime
        .block_on(open(runtime, &path).upkeep.close())
        .expect("closed");
    let fsync = fsync_probe(folder);
    let program = std::env::current_exe().expect("this program has a path");
    let start = || {
        Command::new(&program)
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child")
    };
    let children: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let mut total = Figure {
        rows: 0,
        wall: TAKE,
        cpu: Duration::ZERO,
    };
    for child in children {
        let said = child.wait_with_output().expect("a child ends").stdout;
        let said = String::from_utf8(said).expect("a child speaks plainly");
        let numbers: Vec<u64> = said
            .split_whitespace()
            .map(|word| word.parse().expect("a number"))
            .collect();
        println!("{:>10} rows by one of {PROCESSES} processes", numbers[0]);
        total.rows += numbers[0];
        total.cpu += Duration::from_micros(numbers[1]);
    }
    total.show(&format!("{PROCESSES} processes, 8 committers each"), fsync);
}

fn commit_as_child(path: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let store = SqliteStore::open(SqliteOptions::existing(path)).expect("a store");
    let figure = runtime.block_on(async {
        let runner = register(&store).await;
        let from = std::process::id() as usize * 100;
        let runs = admit_from(&store, from, 8, Some(runner)).await;
        let (cpu, began) = (cpu_time(), Instant::now());
        let tasks: Vec<_> = runs
            .iter()
            .map(|run| tokio::spawn(commit_rows(store.clone(), *run, runner, began + TAKE)))
            .collect();
        let mut rows = 0;
        for task in tasks {
            rows += task.await.expect("a committer");
        }
        Figure {
            rows,
            wall: began.elapsed(),
            cpu: cpu_time().saturating_sub(cpu),
        }
    });
    println!("{} {}", figure.rows, figure.cpu.as_micros());
}

fn open(runtime: &tokio::runtime::Runtime, path: &Path) -> Store {
    open_with(runtime, SqliteOptions::new(path))
}

fn open_with(runtime: &tokio::runtime::Runtime, options: SqliteOptions) -> Store {
    let store = SqliteStore::open(options).expect("a store");
    let deploy = Deploy {
        version: version(),
        name: "flow".to_owned(),
        body: vec![1],
    };
    runtime
        .block_on(store.runs.deploy(deploy))
        .expect("deployed");
    store
}

async fn register(store: &Store) -> RunnerId {
    let mut random = [0; 10];
    random[..4].copy_from_slice(&std::process::id().to_be_bytes());
    let runner = RunnerId::from_parts(Timestamp::from_millis(1), random);
    let register = Register {
        runner,
        name: "bench".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        process: String::new(),
        program: "bench".to_owned(),
        serves: lope_store::runs::Serves::default(),
        lease: Span::from_secs(600),
    };
    store.runs.register(register).await.expect("registered");
    runner
}

async fn admit(store: &Store, number: usize, owner: Option<RunnerId>) -> Vec<RunId> {
    admit_from(store, 0, number, owner).await
}

async fn admit_from(
    store: &Store,
    from: usize,
    number: usize,
    owner: Option<RunnerId>,
) -> Vec<RunId> {
    let runs: Vec<RunId> = (from..from + number)
        .map(|number| id(number as u64))
        .collect();
    store
        .runs
        .admit(runs.iter().map(|run| admission(*run, owner)).collect())
        .await
        .expect("admitted");
    runs
}

/// Ids that rise, as those of a runner do.
fn id(number: u64) -> RunId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    RunId::from_parts(
        Timestamp::from_millis(1_800_000_000_000 + number.cast_signed() / 100),
        random,
    )
}

fn version() -> VersionId {
    VersionId(Digest::of(b"flow"))
}

fn admission(run: RunId, owner: Option<RunnerId>) -> Admit {
    Admit {
        run,
        workflow: "flow".to_owned(),
        version: version(),
        key: None,
        queue: QueueName::default(),
        priority: Priority::NORMAL,
        realm: Realm::default(),
        due: Timestamp::EPOCH,
        law: 1,
        weight: 1,
        tags: std::collections::BTreeMap::new(),
        parent: None,
        rows: rows(1, 1),
        snapshot: None,
        blobs: Vec::new(),
        claimed_by: owner,
    }
}

fn rows(from: u64, number: u64) -> Vec<JournalRow> {
    let event: Arc<str> = "settled".into();
    let row = |seq| JournalRow {
        seq,
        at: Timestamp::EPOCH,
        event: Arc::clone(&event),
        body: BODY.to_vec(),
    };
    (from..from + number).map(row).collect()
}

fn commit(run: RunId, owner: RunnerId, from: u64, number: u64) -> RunCommit {
    RunCommit {
        rows: rows(from, number),
        ..RunCommit::new(run, owner, Epoch(1), Then::Hold(LiveStatus::Running))
    }
}

fn finish(run: RunId, owner: RunnerId, epoch: Epoch) -> RunCommit {
    let end = Finish {
        status: FinalStatus::Completed,
        result: Some(vec![1; 20]),
        error: None,
        seen: Some(0),
    };
    RunCommit {
        epoch,
        then: Then::Finish(end),
        ..commit(run, owner, 2, 1)
    }
}

fn claim(runner: RunnerId, limit: usize) -> Claim {
    Claim {
        runner,
        queues: vec![QueueName::default()],
        realms: vec![Realm::default()],
        law: 1,
        limit,
        weight: u64::MAX,
        most: None,
        only: Vec::new(),
    }
}
