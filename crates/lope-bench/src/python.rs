//! Actions that do nothing, done by Python processes: one after the other on an idle pool, many
//! runs of many, one run of very many. Then the code between awaits: one piece after the other on
//! an idle pool, as many as the pool can do, a loop that keeps more and more, and straight code.
//! CPU time of the processes stands beside our own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use lope::executors::{self, Done, Executor, Limits, OutcomeSink, Task, TaskOutcome, Token};
use lope::runs::RunFilter;
use lope::workers::Pool;
use lope::workflows::Plan;
use lope_model::{Epoch, RunId, Value};

use crate::error::{BenchError, BenchResult};
use crate::figure::{BenchFigure, Cost, CostReading};
use crate::measured_store::MeasuredStore;
use crate::{shapes, work};

/// Processes that a pool should have, unless the user said how many.
pub const PROCESSES: usize = 2;
/// Actions that are timed one by one.
const TRIPS: u64 = 2_000;
/// Runs that were timed one by one.
const RUNS: u64 = 300;
/// Pieces of code between awaits that are done as fast as the pool can, and how many at once.
const REGIONS: u64 = 20_000;
const AT_ONCE: u64 = 256;
/// Rows of a journal that are read at once.
const PAGE: usize = 1_000;
/// How long one action may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(30);

const MODULE: &str = "lope_bench_actions";
const ACTIONS: &str = "from decimal import Decimal

from lope import action, workflow


@action
async def nothing(number: int) -> int:
    return number


@workflow(name='bench-appends')
async def appends(count: int) -> int:
    kept = []
    for number in range(count):
        kept.append(Decimal(await nothing(number)))
    return len(kept)


@workflow(name='bench-straight')
async def straight(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        seen = {}
        for each in range(20):
            seen[each % 5] = seen.get(each % 5, 0) + each * number
        total += sum(seen.values()) % 7
        await nothing(number)
    return total
";
/// The shortest code between awaits, as the compiler would write it.
const REGION: &str = "def region(_lope):
    rounds = _lope.get('rounds')
    return _lope.returns(rounds + 1)";

/// The workflows of the module, compiled.
#[derive(Debug)]
pub struct PythonPlans {
    /// A loop that keeps a decimal more in each round.
    pub appends: Arc<Plan>,
    /// Rounds of straight code.
    pub straight: Arc<Plan>,
}

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
    plans: &PythonPlans,
    store: &MeasuredStore,
) -> BenchResult<Vec<BenchFigure>> {
    let scaled = |usual: u64| (usual * scale / 100).max(1);
    let runner = || work::runner_with(store, Arc::clone(pool) as Arc<dyn Executor>);
    let load = |bench, plan: &Arc<Plan>, runs, each: u64| work::Load {
        bench,
        unit: if bench == "py-append" || bench == "py-code" {
            "rounds"
        } else {
            "actions"
        },
        plan: Arc::clone(plan),
        runs,
        input: i64::try_from(each).unwrap_or(i64::MAX),
        units: each,
    };
    let fan = shapes::plan(shapes::FAN);
    let one = BenchFigure {
        bench: "py-run",
        ..work::latency_on(runner().await?, scaled(RUNS), store).await?
    };
    let mut figures = vec![
        trips("py-trip", action_task, scaled(TRIPS), pool, store).await?,
        one,
        trips("py-region", region_task, scaled(TRIPS), pool, store).await?,
        stream(scaled(REGIONS), pool, store).await?,
    ];
    // The first thousand warm both sides up.
    work::measure_on(runner().await?, load("py-warm", &fan, 1, 1_000), store).await?;
    for load in [
        load("py-fan", &fan, 1, scaled(10_000)),
        load("py-many", &fan, scaled(50), 2_000),
        load("py-code", &plans.straight, 1, scaled(2_000)),
        load("py-append", &plans.appends, 1, scaled(1_000)),
        load("py-append", &plans.appends, 1, scaled(10_000)),
    ] {
        figures.push(with_workers(runner().await?, load, store).await?);
    }
    Ok(figures)
}

/// A load, with what it cost the processes and what its journal holds, if it is one run.
async fn with_workers(
    runner: lope::Runner,
    load: work::Load,
    store: &MeasuredStore,
) -> BenchResult<BenchFigure> {
    let before = workers_time();
    let name = load.plan.name().to_owned();
    let runs = load.runs;
    let figure = work::measure_on(runner, load, store).await?;
    let each = |all: f64| all / figure.units.max(1) as f64;
    let theirs = each(workers_time().saturating_sub(before).as_secs_f64() * 1e6);
    let round = each(figure.cost.wall.as_secs_f64() * 1e6);
    let took = format!("{:.2} s", figure.cost.wall.as_secs_f64());
    let journal = if runs == 1 {
        let bytes = each(journal_bytes(&name, store).await? as f64);
        Some(format!("{bytes:.0} B each"))
    } else {
        None
    };
    let figure = figure
        .note("workers' CPU", format!("{theirs:.1} µs"))
        .note("each", format!("{round:.1} µs"))
        .note("took", took);
    Ok(match journal {
        Some(bytes) => figure.note("journal", bytes),
        None => figure,
    })
}

/// The bytes of the journal of the last run of a workflow, written as JSON.
async fn journal_bytes(workflow: &str, store: &MeasuredStore) -> BenchResult<usize> {
    let filter = RunFilter {
        workflow: Some(workflow.to_owned()),
        limit: 1,
        ..RunFilter::default()
    };
    let found = store.client.list(filter).await?;
    let record = found
        .first()
        .ok_or_else(|| BenchError::broken("the run is gone".to_owned()))?;
    let (mut bytes, mut after) = (0, 0);
    loop {
        let page = store.client.journal_page(record, after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(bytes);
        };
        after = last.seq;
        bytes += page
            .iter()
            .map(|entry| entry.json.to_string().len())
            .sum::<usize>();
    }
}

struct OutcomeSender(mpsc::Sender<TaskOutcome>);

impl OutcomeSink for OutcomeSender {
    fn settle(&self, outcome: TaskOutcome) {
        // Nobody listens any more when the measurement was given up.
        let _ = self.0.send(outcome);
    }

    fn alive(&self, _: &Token) {}
}

/// What the pool is given: an action and its arguments.
type NumberedTask = fn(u64) -> (String, Value);

fn action_task(number: u64) -> (String, Value) {
    let arguments = Value::map([("number", Value::Int(number.cast_signed()))]);
    (shapes::NOTHING.to_owned(), arguments)
}

fn region_task(number: u64) -> (String, Value) {
    let input = Value::map([("rounds", Value::Int(number.cast_signed()))]);
    let request = Value::map([
        ("code", Value::str(REGION)),
        ("lines", Value::list([1, 2, 3].map(Value::Int).to_vec())),
        ("module", Value::str(MODULE)),
        ("line", Value::Int(1)),
        ("root", Value::Bool(true)),
        ("workflow", Value::str("bench-straight")),
        ("input", input),
    ]);
    let arguments = Value::map([("request", request)]);
    (format!("lope.region:{MODULE}"), arguments)
}

/// One after the other through the pool alone: no store, no engine.
async fn trips(
    bench: &'static str,
    task: NumberedTask,
    count: u64,
    pool: &Arc<Pool>,
    store: &MeasuredStore,
) -> BenchResult<BenchFigure> {
    let before = store.read().await?;
    let pool = Arc::clone(pool);
    let timed = tokio::task::spawn_blocking(move || timed(task, count, &pool)).await;
    let mut times = timed.map_err(|error| BenchError::broken(error.to_string()))??;
    let cost = CostReading::until(before, store.read().await?);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let figure = alone(bench, count, cost);
    Ok(figure
        .note("p50", format!("{:.3} ms", at(0.5)))
        .note("p99", format!("{:.3} ms", at(0.99))))
}

fn alone(bench: &'static str, units: u64, cost: Cost) -> BenchFigure {
    BenchFigure {
        bench,
        store: "none",
        unit: if bench == "py-trip" {
            "actions"
        } else {
            "regions"
        },
        units,
        cost,
        notes: Vec::new(),
    }
}

fn timed(task: NumberedTask, count: u64, pool: &Pool) -> BenchResult<Vec<f64>> {
    let (sender, outcomes) = mpsc::channel();
    let sender: Arc<dyn OutcomeSink> = Arc::new(OutcomeSender(sender));
    let mut times = Vec::new();
    for number in 0..count {
        let began = Instant::now();
        begin(task, number, pool, &sender);
        answered(&outcomes)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// As many pieces of code as the pool can do.
async fn stream(count: u64, pool: &Arc<Pool>, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let before = store.read().await?;
    let theirs = workers_time();
    let shared = Arc::clone(pool);
    let done = tokio::task::spawn_blocking(move || streamed(count, &shared)).await;
    done.map_err(|error| BenchError::broken(error.to_string()))??;
    let cost = CostReading::until(before, store.read().await?);
    let theirs = workers_time().saturating_sub(theirs).as_secs_f64() * 1e6 / count.max(1) as f64;
    Ok(alone("py-regions", count, cost).note("workers' CPU", format!("{theirs:.1} µs")))
}

fn streamed(count: u64, pool: &Pool) -> BenchResult<()> {
    let (sender, outcomes) = mpsc::channel();
    let sender: Arc<dyn OutcomeSink> = Arc::new(OutcomeSender(sender));
    for number in 0..count.min(AT_ONCE) {
        begin(region_task, number, pool, &sender);
    }
    for number in AT_ONCE..count + AT_ONCE {
        answered(&outcomes)?;
        if number < count {
            begin(region_task, number, pool, &sender);
        }
    }
    Ok(())
}

fn answered(outcomes: &mpsc::Receiver<TaskOutcome>) -> BenchResult<()> {
    let broken =
        |why: &dyn std::fmt::Display| BenchError::broken(format!("a task got no answer: {why}"));
    let outcome = outcomes
        .recv_timeout(PATIENCE)
        .map_err(|error| broken(&error))?;
    outcome.result.map_err(|failure| broken(&failure.message))?;
    Ok(())
}

fn begin(task: NumberedTask, number: u64, pool: &Pool, sender: &Arc<dyn OutcomeSink>) {
    let token = Token {
        run: RunId::from_bytes([1; 16]),
        execution: format!("only/{number}").into(),
        attempt: 1,
        epoch: Epoch(1),
    };
    let (action, arguments) = task(number);
    let task = Task {
        token: token.clone(),
        workflow: "bench".into(),
        step: "only".into(),
        executor: executors::ACTION.into(),
        action: action.as_str().into(),
        arguments,
        limits: Limits::default(),
        idempotency_key: None,
        trace: None,
    };
    pool.start(task, Done::new(token, Arc::clone(sender)));
}

/// CPU time of the processes that this one has started, and of those they have, as far as the
/// system tells.
fn workers_time() -> Duration {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Duration::ZERO;
    };
    let found: Vec<(u32, u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            Some((process, parent(&entry.path())?, entry.path()))
        })
        .collect();
    let mut ours = vec![std::process::id()];
    let mut time = Duration::ZERO;
    while let Some(one) = ours.pop() {
        for (process, _, path) in found.iter().filter(|(_, parent, _)| *parent == one) {
            ours.push(*process);
            time += threads_time(path);
        }
    }
    time
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
