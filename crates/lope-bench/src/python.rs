//! Actions that do nothing, done by Python processes: one after the other on an idle pool, many
//! runs of many, one run of very many. CPU time of the processes stands beside our own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use lope::executors::{self, Done, Executor, Limits, OutcomeSink, Task, TaskOutcome, Token};
use lope::workers::Pool;
use lope_model::{Epoch, RunId, Value};

use crate::error::{BenchError, BenchResult};
use crate::figure::{BenchFigure, CostReading};
use crate::measured_store::MeasuredStore;
use crate::{shapes, work};

/// Processes that a pool should have, unless the user said how many.
pub const PROCESSES: usize = 2;
/// Actions that are timed one by one.
const TRIPS: u64 = 2_000;
/// Runs that were timed one by one.
const RUNS: u64 = 300;
/// How long one action may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(30);

const MODULE: &str = "lope_bench_actions";
const ACTIONS: &str = "from lope import action


@action
async def nothing(number: int) -> int:
    return number
";

/// Write the module whose action the shapes call into a folder; its path.
pub fn write_module(folder: &Path) -> BenchResult<PathBuf> {
    let file = folder.join(format!("{MODULE}.py"));
    std::fs::write(&file, ACTIONS)
        .map_err(|error| BenchError::input(format!("{}: {error}", file.display())))?;
    Ok(file)
}

/// Measure on a pool that has loaded that module.
pub async fn measure(
    scale: u64,
    pool: &Arc<Pool>,
    store: &MeasuredStore,
) -> BenchResult<Vec<BenchFigure>> {
    let scaled = |usual: u64| (usual * scale / 100).max(1);
    let runner = || work::runner_with(store, Arc::clone(pool) as Arc<dyn Executor>);
    let load = |bench, runs, each: u64| work::Load {
        bench,
        unit: "actions",
        plan: shapes::plan(shapes::FAN),
        runs,
        input: i64::try_from(each).unwrap_or(i64::MAX),
        units: each,
    };
    let trips = trips(scaled(TRIPS), pool, store).await?;
    let one = BenchFigure {
        bench: "py-run",
        ..work::latency_on(runner().await?, scaled(RUNS), store).await?
    };
    // The first thousand warm both sides up.
    work::measure_on(runner().await?, load("py-warm", 1, 1_000), store).await?;
    let mut figures = vec![trips, one];
    for load in [
        load("py-fan", 1, scaled(10_000)),
        load("py-many", scaled(50), 2_000),
    ] {
        let runner = runner().await?;
        let before = workers_time();
        let figure = work::measure_on(runner, load, store).await?;
        let theirs =
            workers_time().saturating_sub(before).as_secs_f64() * 1e6 / figure.units.max(1) as f64;
        let took = format!("{:.2} s", figure.cost.wall.as_secs_f64());
        figures.push(
            figure
                .note("workers' CPU", format!("{theirs:.1} µs"))
                .note("took", took),
        );
    }
    Ok(figures)
}

struct OutcomeSender(mpsc::Sender<TaskOutcome>);

impl OutcomeSink for OutcomeSender {
    fn settle(&self, outcome: TaskOutcome) {
        // Nobody listens any more when the measurement was given up.
        let _ = self.0.send(outcome);
    }

    fn alive(&self, _: &Token) {}
}

/// One action after the other through the pool alone: no store, no engine.
async fn trips(count: u64, pool: &Arc<Pool>, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let before = store.read().await?;
    let pool = Arc::clone(pool);
    let timed = tokio::task::spawn_blocking(move || timed(count, &pool)).await;
    let mut times = timed.map_err(|error| BenchError::broken(error.to_string()))??;
    let cost = CostReading::until(before, store.read().await?);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let figure = BenchFigure {
        bench: "py-trip",
        store: "none",
        unit: "actions",
        units: count,
        cost,
        notes: Vec::new(),
    };
    Ok(figure
        .note("p50", format!("{:.3} ms", at(0.5)))
        .note("p99", format!("{:.3} ms", at(0.99))))
}

fn timed(count: u64, pool: &Pool) -> BenchResult<Vec<f64>> {
    let (sender, outcomes) = mpsc::channel();
    let sender: Arc<dyn OutcomeSink> = Arc::new(OutcomeSender(sender));
    let mut times = Vec::new();
    for number in 0..count {
        let execution = format!("only/{number}").into();
        let token = Token {
            run: RunId::from_bytes([1; 16]),
            execution,
            attempt: 1,
            epoch: Epoch(1),
        };
        let task = Task {
            token: token.clone(),
            workflow: "bench".into(),
            step: "only".into(),
            executor: executors::ACTION.into(),
            action: shapes::NOTHING.into(),
            arguments: Value::map([("number", Value::Int(number.cast_signed()))]),
            limits: Limits::default(),
            idempotency_key: None,
            trace: None,
        };
        let began = Instant::now();
        pool.start(task, Done::new(token, Arc::clone(&sender)));
        let broken = |why: &dyn std::fmt::Display| {
            BenchError::broken(format!("an action got no answer: {why}"))
        };
        let outcome = outcomes
            .recv_timeout(PATIENCE)
            .map_err(|error| broken(&error))?;
        outcome.result.map_err(|failure| broken(&failure.message))?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// CPU time of the processes that this one has started, as far as the system tells.
fn workers_time() -> Duration {
    let us = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Duration::ZERO;
    };
    let children = entries
        .flatten()
        .filter(|entry| parent(&entry.path()) == Some(us));
    children.map(|entry| threads_time(&entry.path())).sum()
}

fn parent(process: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(process.join("stat")).ok()?;
    text.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

fn threads_time(process: &Path) -> Duration {
    let Ok(threads) = std::fs::read_dir(process.join("task")) else {
        return Duration::ZERO;
    };
    let nanos = threads.flatten().filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
