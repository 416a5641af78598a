//! The server under the figures: databases, what it writes and how much time it takes, and the
//! disk's flush.

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

pub(crate) struct Server {
    url: String,
    client: Client,
    /// The parent of every process of the server, if it runs here.
    postmaster: Option<u32>,
}

/// Wall time, CPU time of both ends and written log of some work, and how many rows it was.
pub(crate) struct Figure {
    rows: u64,
    wall: Duration,
    ours: Duration,
    theirs: Option<Duration>,
    log: i64,
    flush: Duration,
}

impl Figure {
    pub(crate) fn rate(&self) -> f64 {
        self.rows as f64 / self.wall.as_secs_f64()
    }

    pub(crate) fn show(&self, name: &str) {
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / self.rows as f64;
        let theirs = self.theirs.map_or("      ?".to_owned(), |theirs| {
            format!("{:>7.2}", micros(theirs))
        });
        println!(
            "{name:<52} {:>9.0} rows/s  CPU {:>6.2} µs/row here, {theirs} there  WAL {:>6.0} B/row  (fsync {:.3} ms)",
            self.rate(),
            micros(self.ours),
            self.log as f64 / self.rows as f64,
            self.flush.as_secs_f64() * 1e3
        );
    }
}

impl Server {
    pub(crate) async fn given() -> Self {
        let url = std::env::var("LOPE_TEST_POSTGRES").expect("LOPE_TEST_POSTGRES names a server");
        let client = connect(&url).await;
        let row = client
            .query_one("select pg_backend_pid()", &[])
            .await
            .expect("a pid");
        let postmaster = parent_of(row.get::<_, i32>(0) as u32);
        Self {
            url,
            client,
            postmaster,
        }
    }

    pub(crate) async fn version(&self) -> String {
        let row = self
            .client
            .query_one(
                "select 'PostgreSQL ' || current_setting('server_version')",
                &[],
            )
            .await;
        row.expect("a version").get(0)
    }

    pub(crate) async fn connect(&self, url: &str) -> Client {
        connect(url).await
    }

    /// A new database of this name.
    pub(crate) async fn database(&self, name: &str) -> String {
        let name = format!("bench_{name}");
        let text = format!("drop database if exists {name} with (force)");
        self.client
            .batch_execute(&text)
            .await
            .expect("an old database goes");
        self.client
            .batch_execute(&format!("create database {name}"))
            .await
            .expect("a database");
        let (database, _) = self.url.rsplit_once('/').expect("the URL names a database");
        format!("{database}/{name}")
    }

    /// Work that counts rows, between two looks at every clock.
    pub(crate) async fn measure(&self, work: impl Future<Output = u64>) -> Figure {
        let flush = flush_probe();
        self.client
            .batch_execute("checkpoint")
            .await
            .expect("a checkpoint");
        let (log, ours, theirs, began) = (
            self.log().await,
            our_time(),
            self.their_time(),
            Instant::now(),
        );
        let rows = work.await;
        let wall = began.elapsed();
        let log = self.log().await - log;
        let theirs = self
            .their_time()
            .zip(theirs)
            .map(|(after, before)| after.saturating_sub(before));
        Figure {
            rows,
            wall,
            ours: our_time().saturating_sub(ours),
            theirs,
            log,
            flush,
        }
    }

    /// Bytes of log written so far.
    async fn log(&self) -> i64 {
        let row = self
            .client
            .query_one("select (pg_current_wal_insert_lsn() - '0/0')::bigint", &[])
            .await;
        row.expect("a position in the log").get(0)
    }

    /// CPU time of all processes of the server, while they live.
    fn their_time(&self) -> Option<Duration> {
        let postmaster = self.postmaster?;
        let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let theirs = pids.filter(|pid| parent_of(*pid) == Some(postmaster));
        Some(theirs.filter_map(time_of).sum())
    }

    /// Let the server itself put runs into the queue.
    pub(crate) async fn fill_queue(&self, database: &str, length: i64) {
        let client = connect(database).await;
        let runs = format!(
            "insert into lope.runs (run_id, created_at, weight, priority, workflow, version, queue, realm, tags, law, epoch, head,
                 mail, status)
                 select gen_random_uuid(), n, 1, 4, 'flow', w.version, 'default', 'default', '{{}}', 1, 0, 1, 0, 'live'
                 from generate_series(1, {length}) n, lope.workflows w;
             insert into lope.queue (run_id, due, epoch, head, mail, taken, created_at, law, weight, priority, queue, realm, status)
                 select run_id, created_at, 0, 1, 0, 0, created_at, 1, 1, 4, 'default', 'default', 'queued' from lope.runs;
             vacuum analyze lope.queue; vacuum analyze lope.runs"
        );
        for text in runs.split(';') {
            client.batch_execute(text).await.expect("a longer queue");
        }
    }

    /// Partitions of a week that is long past, as they were made when it came.
    pub(crate) async fn make_past_week(&self, database: &str) {
        let client = connect(database).await;
        for table in ["journal", "snapshots", "blobs"] {
            let text = format!(
                "create table lope.{table}_w20231113 partition of lope.{table}
                 for values from ('018bc5fa-5800-0000-0000-000000000000') to ('018bea06-dc00-0000-0000-000000000000')"
            );
            client.batch_execute(&text).await.expect("a partition");
        }
    }

    /// Kilobytes of the large tables with everything that belongs to them.
    pub(crate) async fn weight(&self, database: &str) -> i64 {
        let client = connect(database).await;
        let text = "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint / 1024 from pg_class c
            where c.relnamespace = 'lope'::regnamespace and c.relname ~ '^(journal|snapshots|blobs)' and c.relkind = 'r'";
        client.query_one(text, &[]).await.expect("a weight").get(0)
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("the server answers");
    tokio::spawn(connection);
    client
}

/// The mean time of appending a page and flushing it.
fn flush_probe() -> Duration {
    const TIMES: u32 = 200;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut file = File::create(folder.path().join("probe")).expect("a file for the probe");
    let began = Instant::now();
    for _ in 0..TIMES {
        file.write_all(&[0; 8192])
            .and_then(|()| file.sync_data())
            .expect("the probe writes");
    }
    began.elapsed() / TIMES
}

fn our_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.cast_unsigned(), used.tv_nsec as u32)
}

fn parent_of(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Nanoseconds on a processor, as the scheduler counts them.
fn time_of(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    Some(Duration::from_nanos(
        text.split_whitespace().next()?.parse().ok()?,
    ))
}
