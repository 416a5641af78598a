//! Everything at once: three runners of the real binary, runs of five steps whose effects are counted
//! outside, a kill every two seconds, a standstill, and on Postgres restarts of the server and cut
//! links. No run is lost, no step begins after its settlement, and only what was in flight is done
//! again. A sample here, all of it under `LOPE_CHAOS=full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::time::{Duration, Instant};

use fixture::cluster::{Cluster, Stop};
use fixture::party::{Party, Runner};
use fixture::proxy::{Proxy, Way};
use rustix::process::Signal;

const STEPS: [&str; 5] = ["one", "two", "three", "four", "five"];

/// How much of it.
struct StormSize {
    runs: usize,
    between_kills: Duration,
}

fn size() -> StormSize {
    let runs = std::env::var("LOPE_STORM_RUNS").ok();
    let runs = runs.and_then(|number| number.parse().ok());
    let (runs, millis) = if fixture::full() {
        (runs.unwrap_or(2_000), 2_000)
    } else {
        (30, 700)
    };
    StormSize {
        runs,
        between_kills: Duration::from_millis(millis),
    }
}

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}

/// What happens between two kills, beside them.
trait Weather {
    /// The way to the store of the runner of this number.
    fn url(&self, party: &str, runner: usize) -> String;
    fn trouble(&self, kills: usize);
    fn calm(&self);
}

/// After which kills the server is started again.
const RESTARTS: [usize; 2] = [3, 7];

/// SQLite has neither server nor links.
struct Still;

impl Weather for Still {
    fn url(&self, party: &str, _: usize) -> String {
        party.to_owned()
    }
    fn trouble(&self, _: usize) {}
    fn calm(&self) {}
}

struct Stormy {
    cluster: Cluster,
    proxy: Proxy,
}

impl Weather for Stormy {
    fn url(&self, party: &str, runner: usize) -> String {
        if runner == 2 {
            return self.proxy.url(party);
        }
        party.to_owned()
    }

    fn trouble(&self, kills: usize) {
        match kills {
            _ if kills == RESTARTS[0] => self.restart(Stop::Fast),
            _ if kills == RESTARTS[1] => self.restart(Stop::Immediate),
            _ if kills.is_multiple_of(2) => self.proxy.cut_after(Way::Answers, 1_000),
            _ => self.proxy.cut_after(Way::Requests, 1_000),
        }
    }

    fn calm(&self) {
        self.proxy.mend();
    }
}

impl Stormy {
    fn restart(&self, how: Stop) {
        self.cluster.down(how);
        self.cluster.up();
    }
}

/// One runner stands still once, for longer than its lease.
#[derive(Clone, Copy, PartialEq)]
enum Standstill {
    Ahead,
    Since(Instant),
    Over,
}

impl Standstill {
    fn go_on(self, kills: usize, runner: &Runner) -> Self {
        match self {
            Self::Ahead if kills == 2 => {
                runner.signal(Signal::STOP);
                Self::Since(Instant::now())
            }
            Self::Since(since) if since.elapsed() > Duration::from_secs(5) => {
                runner.signal(Signal::CONT);
                Self::Over
            }
            Self::Ahead | Self::Since(_) | Self::Over => self,
        }
    }
}

async fn storm(url: &str, weather: &impl Weather) {
    let StormSize {
        runs,
        between_kills,
    } = size();
    let mut party = Party::with_steps(url, &STEPS).await;
    let begin = |party: &Party, number: usize| {
        party.runner_at(&format!("runner {number}"), &weather.url(url, number))
    };
    let mut runners: Vec<Runner> = (0..3).map(|number| begin(&party, number)).collect();
    for runner in &runners {
        party.registered(runner).await;
    }
    let begun = Instant::now();
    party.more(runs).await;
    party.has_begun(runs / 3).await;
    let (mut kills, mut standstill) = (0, Standstill::Ahead);
    while party.completed().await < runs {
        weather.calm();
        let victim = kills % 2;
        runners[victim].kill();
        runners[victim] = begin(&party, victim);
        kills += 1;
        weather.trouble(kills);
        standstill = standstill.go_on(kills, &runners[2]);
        tokio::time::sleep(between_kills).await;
    }
    weather.calm();
    runners[2].signal(Signal::CONT);
    party.is_done().await;
    let verdict = party.verify().await;
    println!(
        "{kills} kills in {:.0} s: {verdict:?}",
        begun.elapsed().as_secs_f64()
    );
    assert!(kills > 0, "{verdict:?}");
    if fixture::full() {
        assert!(kills > RESTARTS[1], "both restarts of the server: {kills}");
        assert!(standstill == Standstill::Over, "one runner stood still");
        assert!(verdict.adopted > 0, "{verdict:?}");
    }
    for runner in &mut runners {
        assert!(runner.is_alive(), "{}", runner.said());
        // Links that were cut may still be away when it is told to end: then it says so.
        let ended = runner.stop();
        let is_cut_off = runner.said().contains("the store is out of reach");
        assert!(ended.success() || is_cut_off, "{}", runner.said());
    }
    party.store.upkeep.close().await.unwrap();
}

#[test]
fn a_storm_over_runners_on_sqlite_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lope.db").display());
    block_on(storm(&url, &Still));
}

#[test]
fn a_storm_over_runners_on_postgres_loses_nothing() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    block_on(async {
        let url = cluster.url();
        let proxy = Proxy::start(&url);
        storm(&url, &Stormy { cluster, proxy }).await;
    });
}
