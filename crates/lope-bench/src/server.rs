//! `lope bench server`: what pages, requests and events cost on a store that has been in use.

use std::time::{Duration, Instant};

use lope::workers::Logs;
use lope::{Runner, config::Config};
use lope_model::Value;
use lope_server::{Listening, Server, ServerError, ServerParts, ServerSettings};
use tokio::task::JoinSet;

use crate::error::{BenchError, BenchResult};
use crate::figure::{BenchFigure, Cost, CostReading};
use crate::filling;
use crate::http_client::{Events, HttpConnection};
use crate::measured_store::MeasuredStore;

/// What the store holds at a scale of 100 percent.
const RUNS: u64 = 1_000_000;
const STEPS: u64 = 100_000;
/// How often each page is asked for.
const ASKED: u64 = 200;
const STARTED: u64 = 50_000;
const CONNECTIONS: u64 = 64;
const WATCHERS: u64 = 100;
/// Runs whose events are waited for.
const WATCHED: u64 = 50;
/// How long an open dashboard is looked at when nothing happens.
const IDLE: Duration = Duration::from_secs(10);

const LISTS: [&str; 9] = [
    "/",
    "/?status=failed",
    "/?workflow=bench-one",
    "/workflows",
    "/schedules",
    "/queues",
    "/runners",
    "/mailboxes",
    "/api/runs?limit=50",
];

/// Who measures, and on what.
struct Measuring<'a> {
    store: &'a MeasuredStore,
    scale: u64,
    address: String,
}

pub(crate) async fn measure(scale: u64, store: &MeasuredStore) -> BenchResult<Vec<BenchFigure>> {
    let scaled = |usual: u64| (usual * scale / 100).max(1);
    let (runner, long) = filling::fill(scaled(RUNS), scaled(STEPS), store).await?;
    let began = Instant::now();
    let server = serve(&runner).await?;
    let measuring = Measuring {
        store,
        scale,
        address: server.address().to_string(),
    };
    let mut first = HttpConnection::open(&measuring.address).await?;
    first.get("/").await?;
    let first_page = began.elapsed();
    let mut figures = vec![measuring.pages("list", &LISTS).await?.note(
        "first page after",
        format!("{:.0} ms", first_page.as_secs_f64() * 1e3),
    )];
    let run = format!("/runs/{long}");
    figures.push(measuring.pages("run page", &[&run]).await?);
    figures.push(measuring.starts().await?);
    measuring.rest().await?;
    figures.push(measuring.events().await?);
    measuring.rest().await?;
    figures.push(measuring.open_dashboard().await?);
    server.stop().await;
    runner.give_back(Duration::from_secs(10)).await?;
    Ok(figures)
}

async fn serve(runner: &Runner) -> BenchResult<Server> {
    let settings = ServerSettings {
        listen: "127.0.0.1:0".to_owned(),
        ..ServerSettings::default()
    };
    let broken = |error: ServerError| BenchError::Broken(error.to_string());
    let listening = Listening::bind(settings).await.map_err(broken)?;
    Ok(listening.serve(ServerParts {
        client: runner.client().clone(),
        runner: Some(runner.clone()),
        logs: Logs::at(std::env::temp_dir().join("lope-bench-logs")),
        config: Config::default(),
        env: Value::Null,
        commands: None,
    }))
}

impl Measuring<'_> {
    fn scaled(&self, usual: u64) -> u64 {
        (usual * self.scale.min(100) / 100).max(1)
    }

    fn figure(&self, unit: &'static str, units: u64, cost: Cost) -> BenchFigure {
        BenchFigure {
            bench: "server",
            store: self.store.kind.name(),
            unit,
            units,
            cost,
            notes: Vec::new(),
        }
    }

    /// Pages, one request after the other, and how large the largest was.
    async fn pages(&self, what: &'static str, paths: &[&str]) -> BenchResult<BenchFigure> {
        let mut connection = HttpConnection::open(&self.address).await?;
        for path in paths {
            connection.get(path).await?;
        }
        let before = self.store.read().await?;
        let mut times = Vec::new();
        let mut sums = vec![0.0; paths.len()];
        let mut largest = 0;
        for _ in 0..self.scaled(ASKED) {
            for (path, sum) in paths.iter().zip(&mut sums) {
                let began = Instant::now();
                let bytes = connection.get(path).await?;
                let took = began.elapsed().as_secs_f64() * 1e3;
                times.push(took);
                *sum += took;
                largest = largest.max(bytes);
            }
        }
        let by_time = paths.iter().zip(sums);
        let slowest = by_time.max_by(|one, other| one.1.total_cmp(&other.1));
        let cost = before.until(self.store.read().await?);
        let figure = self.figure("pages", times.len() as u64, cost);
        let (figure, _, _) = figure.note("of", what).times(times);
        let figure = figure.note("largest", format!("{} kB", largest / 1_024));
        Ok(match slowest {
            Some((path, _)) if paths.len() > 1 => figure.note("slowest", (*path).to_owned()),
            _ => figure,
        })
    }

    /// Runs started over many connections at once.
    async fn starts(&self) -> BenchResult<BenchFigure> {
        let each = (self.scaled(STARTED) / CONNECTIONS).max(1);
        let before: CostReading = self.store.read().await?;
        let mut working = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let address = self.address.clone();
            working.spawn(async move {
                let mut connection = HttpConnection::open(&address).await?;
                for _ in 0..each {
                    connection.post("/api/runs", START).await?;
                }
                BenchResult::Ok(())
            });
        }
        while let Some(ended) = working.join_next().await {
            ended.map_err(|error| BenchError::Broken(error.to_string()))??;
        }
        let cost = before.until(self.store.read().await?);
        let figure = self.figure("starts", each * CONNECTIONS, cost);
        Ok(figure.note("connections", CONNECTIONS))
    }

    /// Until no run is under way: what comes next is measured on its own.
    async fn rest(&self) -> BenchResult<()> {
        while !self.store.client.queues().await?.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// From the answer to a start until every watcher has heard of the run.
    async fn events(&self) -> BenchResult<BenchFigure> {
        let mut watchers = Vec::new();
        for _ in 0..WATCHERS {
            watchers.push(Events::open(&self.address, "/api/events").await?);
        }
        let mut connection = HttpConnection::open(&self.address).await?;
        let before = self.store.read().await?;
        let mut times = Vec::new();
        for _ in 0..self.scaled(WATCHED) {
            let answer = connection.post("/api/runs", START).await?;
            let began = Instant::now();
            let run = answer["run_id"].as_str().unwrap_or_default().to_owned();
            let mut waiting = JoinSet::new();
            for mut watcher in std::mem::take(&mut watchers) {
                let run = run.clone();
                waiting.spawn(async move {
                    watcher.until(&run).await?;
                    BenchResult::Ok((watcher, began.elapsed()))
                });
            }
            while let Some(heard) = waiting.join_next().await {
                let heard = heard.map_err(|error| BenchError::Broken(error.to_string()))?;
                let (watcher, took) = heard?;
                watchers.push(watcher);
                times.push(took.as_secs_f64() * 1e3);
            }
        }
        let cost = before.until(self.store.read().await?);
        let figure = self.figure("events", times.len() as u64, cost);
        let (figure, _, _) = figure.times(times);
        Ok(figure.note("watchers", WATCHERS))
    }

    /// What a dashboard that is open costs while nothing happens: the same time without and with it.
    async fn open_dashboard(&self) -> BenchResult<BenchFigure> {
        let alone = self.idle().await?;
        let open = Events::open(&self.address, "/api/events").await?;
        let watched = self.idle().await?;
        drop(open);
        let figure = self.figure("seconds", IDLE.as_secs(), watched.cost);
        let share = (watched.share - alone.share).max(0.0);
        let figure = figure
            .note("of a core", format!("{share:.3} %"))
            .note("with the runner", format!("{:.3} %", watched.share));
        Ok(match watched.transactions.zip(alone.transactions) {
            Some((watched, alone)) => {
                let more = watched.saturating_sub(alone) as f64 / IDLE.as_secs_f64();
                let all = watched as f64 / IDLE.as_secs_f64();
                figure
                    .note("transactions a second", format!("{more:.1}"))
                    .note("with the runner", format!("{all:.1}"))
            }
            None => figure,
        })
    }

    async fn idle(&self) -> BenchResult<IdleTime> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = self.store.read().await?;
        let asked = self.store.transactions().await?;
        tokio::time::sleep(IDLE).await;
        let cost = before.until(self.store.read().await?);
        let transactions = self.store.transactions().await?.zip(asked);
        let busy = cost.ours + cost.theirs.unwrap_or_default();
        Ok(IdleTime {
            share: busy.as_secs_f64() / cost.wall.as_secs_f64() * 100.0,
            transactions: transactions.map(|(end, begin)| end.saturating_sub(begin)),
            cost,
        })
    }
}

/// What a while in which nothing happened has cost.
struct IdleTime {
    cost: Cost,
    /// Percent of a core, the database's server included.
    share: f64,
    transactions: Option<u64>,
}

/// A run of the workflow that the store was filled with.
const START: &str = "{\"workflow\": \"bench-one\", \"input\": 1}";
