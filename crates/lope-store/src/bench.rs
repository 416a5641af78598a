//! What benchmarks of stores measure alike: rates with their CPU time, beside a probe of the disk
//! from the same run.
//!
//! A backend calls these on its store and prints the figures; what its raw limit is (a bare loop, a
//! bare statement) only the backend can measure. Nothing here judges: timings swing.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use lope_model::{
    Clock, Digest, Priority, QueueName, Realm, RunId, RunnerId, Span, Timestamp, VersionId,
};
use rustix::time::{ClockId, clock_gettime};

use crate::clock::SystemClock;
use crate::error::StoreResult;
use crate::runs::{Admit, Claim, Deploy, JournalRow, LiveStatus, Register, RunCommit, Then};
use crate::store::Store;

/// Bytes of a journal row's body: a small step's outcome.
const BODY: usize = 100;
/// Runs admitted in one call.
const ADMIT: usize = 5_000;
const PROBES: u32 = 100;

/// How long some work took, and how much it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Rows, commits, operations: what the caller counts.
    pub units: u64,
    pub wall: Duration,
    /// Of the whole process, all threads.
    pub cpu: Duration,
}

/// A clock for wall and CPU time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    began: Instant,
    cpu: Duration,
}

impl Figure {
    pub fn per_second(&self) -> f64 {
        self.units as f64 / self.wall.as_secs_f64()
    }

    pub fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.units as f64
    }

    /// This work and other work, taken together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            units: self.units + other.units,
            wall: self.wall + other.wall,
            cpu: self.cpu + other.cpu,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_cpu_second = 1e6 / self.cpu_micros();
        write!(
            f,
            "{:>10.0} /s  {per_cpu_second:>10.0} /CPU s  {:>6.2} µs CPU each",
            self.per_second(),
            self.cpu_micros()
        )
    }
}

impl Stopwatch {
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            cpu: cpu_time(),
        }
    }

    pub fn stop(self, units: u64) -> Figure {
        Figure {
            units,
            wall: self.began.elapsed(),
            cpu: cpu_time().saturating_sub(self.cpu),
        }
    }
}

/// CPU time of this process so far.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The mean time to append a page to a file in this folder and flush it.
pub fn fsync_probe(folder: &Path) -> std::io::Result<Duration> {
    Ok(fsync_times(folder, PROBES)?.iter().sum::<Duration>() / PROBES)
}

/// How long each of so many flushes of an appended page took, sorted.
pub fn fsync_times(folder: &Path, count: u32) -> std::io::Result<Vec<Duration>> {
    let path = folder.join("fsync-probe");
    let mut file = File::create(&path)?;
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        file.write_all(&[0; 4_096])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    std::fs::remove_file(path)?;
    times.sort_unstable();
    Ok(times)
}

/// `tasks` owners, each of one run, commit one journal row at a time, `commits` times. Needs a
/// runtime of tokio.
pub async fn committers(store: &Store, tasks: usize, commits: u64) -> StoreResult<Figure> {
    let (owner, runs) = owned(store, tasks).await?;
    let watch = Stopwatch::start();
    let mut working = tokio::task::JoinSet::new();
    for run in runs {
        let store = store.clone();
        working.spawn(async move {
            for seq in 2..commits + 2 {
                store
                    .runs
                    .commit(vec![hold(run, owner, vec![row(seq)])])
                    .await?;
            }
            StoreResult::Ok(())
        });
    }
    while let Some(ended) = working.join_next().await {
        ended.expect("a committer does not panic")?;
    }
    Ok(watch.stop(tasks as u64 * commits))
}

/// Journal rows, `rows` a commit call spread over `runs` runs, `calls` times.
pub async fn journal_rows(
    store: &Store,
    runs: usize,
    rows: usize,
    calls: u64,
) -> StoreResult<Figure> {
    let (owner, runs) = owned(store, runs).await?;
    let each = (rows / runs.len()) as u64;
    let watch = Stopwatch::start();
    for call in 0..calls {
        let rows = || (2 + call * each..2 + (call + 1) * each).map(row).collect();
        let commits = runs.iter().map(|run| hold(*run, owner, rows())).collect();
        store.runs.commit(commits).await?;
    }
    Ok(watch.stop(each * runs.len() as u64 * calls))
}

/// Fill the queue with `queued` due runs.
pub async fn fill(store: &Store, queued: usize) -> StoreResult<()> {
    deploy(store).await?;
    let mut left = queued;
    while left > 0 {
        let some = left.min(ADMIT);
        store
            .runs
            .admit((0..some).map(|_| admission(None)).collect())
            .await?;
        left -= some;
    }
    Ok(())
}

/// Claim `limit` of the queued runs at once; the runner's session then ends, which puts them back
/// for the next figure.
pub async fn claim(store: &Store, limit: usize) -> StoreResult<Figure> {
    let runner = register(store).await?;
    let queues = vec![QueueName::default()];
    let claim = Claim {
        runner,
        queues,
        realms: vec![Realm::default()],
        law: 1,
        limit,
        weight: u64::MAX,
        most: None,
        only: Vec::new(),
    };
    let watch = Stopwatch::start();
    let claimed = store
        .runs
        .claim(claim)
        .await?
        .expect("the session was just begun");
    let figure = watch.stop(claimed.runs.len() as u64);
    store.runs.release(runner).await?;
    Ok(figure)
}

async fn owned(store: &Store, number: usize) -> StoreResult<(RunnerId, Vec<RunId>)> {
    deploy(store).await?;
    let owner = register(store).await?;
    let admits: Vec<Admit> = (0..number).map(|_| admission(Some(owner))).collect();
    let runs = admits.iter().map(|admit| admit.run).collect();
    store.runs.admit(admits).await?;
    Ok((owner, runs))
}

fn version() -> VersionId {
    VersionId(Digest::of(b"bench"))
}

async fn deploy(store: &Store) -> StoreResult<()> {
    store
        .runs
        .deploy(Deploy {
            version: version(),
            name: "bench".to_owned(),
            body: vec![],
        })
        .await
}

async fn register(store: &Store) -> StoreResult<RunnerId> {
    let runner = RunnerId::from_parts(SystemClock::default().now(), unique());
    let (name, host, program) = ("bench".to_owned(), "here".to_owned(), "bench".to_owned());
    let lease = Span::from_secs(3_600);
    store
        .runs
        .register(Register {
            runner,
            name,
            host,
            pid: std::process::id(),
            process: String::new(),
            program,
            serves: crate::runs::Serves::default(),
            lease,
        })
        .await?;
    Ok(runner)
}

fn admission(claimed_by: Option<RunnerId>) -> Admit {
    Admit {
        run: RunId::from_parts(SystemClock::default().now(), unique()),
        workflow: "bench".to_owned(),
        version: version(),
        key: None,
        queue: QueueName::default(),
        priority: Priority::NORMAL,
        realm: Realm::default(),
        due: Timestamp::EPOCH,
        law: 1,
        weight: 1_000,
        tags: std::collections::BTreeMap::new(),
        parent: None,
        rows: vec![row(1)],
        snapshot: None,
        blobs: vec![],
        claimed_by,
    }
}

fn unique() -> [u8; 10] {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let digest = Digest::of_parts(&[&count.to_le_bytes(), &std::process::id().to_le_bytes()]);
    let mut bytes = [0; 10];
    bytes.copy_from_slice(&digest.as_bytes()[..10]);
    bytes
}

fn row(seq: u64) -> JournalRow {
    JournalRow {
        seq,
        at: Timestamp::from_millis(seq as i64),
        event: "done".into(),
        body: vec![7; BODY],
    }
}

fn hold(run: RunId, owner: RunnerId, rows: Vec<JournalRow>) -> RunCommit {
    RunCommit {
        rows,
        ..RunCommit::new(
            run,
            owner,
            lope_model::Epoch(1),
            Then::Hold(LiveStatus::Running),
        )
    }
}
