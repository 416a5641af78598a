//! Many runners of the real binary fire the same schedules each second, some of them killed in the
//! middle: every tick has one run, on SQLite and on Postgres. A sample here, all of it under
//! `LOPE_CHAOS=full`.
//!
//! "a fire and its run are one transaction, so two runners never both fire a tick."

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lope::stores::{self, CreateStore};
use lope_engine::client;
use lope_flow::law::Plan;
use lope_model::{Span, Timestamp};
use lope_schedule::timing::Timing;
use lope_schedule::{CatchUp, Overlap, Schedule, store};
use lope_store::Store;
use lope_store::runs::RunFilter;

const SECOND: Span = Span::from_secs(1);
const SCHEDULES: usize = 3;
/// Everything that is waited for happens within this time, or never.
const PATIENCE: Duration = Duration::from_secs(120);
/// A notification that was not heard costs no more than this.
const NOTIFICATION_LOST: Duration = Duration::from_millis(100);

/// Runners on one store; those that are left when it is dropped are killed.
struct Party {
    folder: tempfile::TempDir,
    url: String,
    store: Store,
    runners: Vec<Child>,
    began: Timestamp,
}

impl Party {
    async fn at(url: impl FnOnce(&std::path::Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(folder.path());
        let store = stores::open(&url.parse().unwrap(), CreateStore::IfMissing)
            .await
            .unwrap();
        let flow =
            lope_definition::yaml::read("{ name: tick, steps: { a: { let: 1 } } }", "tick.yaml")
                .unwrap();
        client::deploy(&store, &Plan::new(&flow).unwrap())
            .await
            .unwrap();
        let began = store.upkeep.reading().await.unwrap().now;
        for number in 0..SCHEDULES {
            let timing = Timing::every(SECOND, began).unwrap();
            let schedule = Schedule {
                overlap: Overlap::Allow,
                catch_up: CatchUp::All,
                ..Schedule::new(&format!("s{number}"), "tick", timing, began)
            };
            store::add(&store, schedule, began).await.unwrap().unwrap();
        }
        Self {
            folder,
            url,
            store,
            runners: Vec::new(),
            began,
        }
    }

    fn up(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
        command
            .args(["up", "-q", "--store", &self.url])
            .env("HOME", self.folder.path());
        self.runners.push(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
    }

    fn kill_one(&mut self) {
        let mut runner = self.runners.remove(0);
        runner.kill().unwrap();
        runner.wait().unwrap();
    }

    /// Until every schedule has dealt with so many ticks.
    async fn has_fired(&self, ticks: u64) {
        let (started, end) = (Instant::now(), self.began.plus(SECOND.times(ticks)));
        let mut notification = self.store.runs.watch();
        for number in 0..SCHEDULES {
            let name = format!("s{number}");
            while store::find(&self.store, &name)
                .await
                .unwrap()
                .unwrap()
                .entry
                .standing
                .next
                <= Some(end)
            {
                assert!(
                    started.elapsed() < PATIENCE,
                    "{name} did not get to tick {ticks}"
                );
                let _ = tokio::time::timeout(NOTIFICATION_LOST, notification.changed()).await;
            }
        }
    }

    /// Every tick of a schedule, from the first to the last, has one run.
    async fn verify(&self) -> usize {
        let mut all = 0;
        for number in 0..SCHEDULES {
            let tags = [("schedule".to_owned(), format!("s{number}"))].into();
            let runs = self
                .store
                .runs
                .list(RunFilter {
                    tags,
                    limit: 10_000,
                    ..RunFilter::default()
                })
                .await
                .unwrap();
            let ticks: BTreeSet<Timestamp> = runs
                .iter()
                .map(|run| run.tags["tick"].parse().unwrap())
                .collect();
            assert_eq!(ticks.len(), runs.len(), "a tick of s{number} has two runs");
            let expected = (1..=ticks.len() as u64).map(|tick| self.began.plus(SECOND.times(tick)));
            assert!(
                ticks.iter().copied().eq(expected),
                "a tick of s{number} has no run: {ticks:?}"
            );
            let counts = store::find(&self.store, &format!("s{number}"))
                .await
                .unwrap()
                .unwrap()
                .entry
                .standing
                .counts;
            assert_eq!(
                (counts.fired, counts.missed, counts.failed),
                (runs.len() as u64, 0, 0)
            );
            all += runs.len();
        }
        all
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        for mut runner in self.runners.drain(..) {
            let _ = runner.kill();
            let _ = runner.wait();
        }
    }
}

/// Two runners, then more, one killed every second in the middle of its work; then all of them
/// away, and one that comes back.
async fn fire_and_kill(mut party: Party) {
    let (most, seconds) = if fixture::full() { (8, 60) } else { (3, 6) };
    (0..2).for_each(|_| party.up());
    party.has_fired(2).await;
    (2..most).for_each(|_| party.up());
    for second in 3..seconds {
        party.has_fired(second).await;
        party.kill_one();
        party.up();
    }
    while !party.runners.is_empty() {
        party.kill_one();
    }
    // Time goes by and nobody is there: that is what is tried.
    tokio::time::sleep(Duration::from_secs(2)).await;
    party.up();
    party.has_fired(seconds + 2).await;
    party.kill_one();
    let runs = party.verify().await;
    println!("{runs} ticks, each with one run");
    assert!(runs as u64 >= (seconds + 2) * SCHEDULES as u64);
    assert_eq!(party.store.upkeep.check().await.unwrap(), []);
    party.store.upkeep.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runners_on_sqlite_fire_each_tick_once() {
    fire_and_kill(Party::at(|folder| format!("sqlite:{}", folder.join("lope.db").display())).await)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runners_on_postgres_fire_each_tick_once() {
    let Some(server) = fixture::server() else {
        return;
    };
    fire_and_kill(
        Party::at(|_| format!("{server}?schema=chaos_schedules_{}", std::process::id())).await,
    )
    .await;
}
