//! Runs on a runner of this process, counted from the first admission until the last has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lope::executors::{self, Executor};
use lope::runs::{FinalStatus, News, RunFilter, RunStartOptions, RunStatus};
use lope::workers::Functions;
use lope::workflows::Plan;
use lope::{PreparedRun, Runner};
use lope_model::{RunId, Value};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::error::{BenchError, BenchResult};
use crate::figure::{BenchFigure, Cost, CostReading};
use crate::footprint::{megabytes, resident};
use crate::measured_store::MeasuredStore;
use crate::shapes;

/// Callers that admit runs at the same time.
pub(crate) const CALLERS: u64 = 256;
/// Runs under way before callers wait, as many as when the store is asked alone: less than an
/// engine holds.
const ROOM: usize = 1_000;
/// How often ends are looked for.
const POLL: Duration = Duration::from_millis(1);
/// How often a long run is looked at.
const GLANCE: Duration = Duration::from_millis(20);
/// How long an engine may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// A shape to be measured.
pub(crate) struct Load {
    pub(crate) bench: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) plan: Arc<Plan>,
    pub(crate) runs: u64,
    pub(crate) input: i64,
    /// Units that one run counts for.
    pub(crate) units: u64,
}

/// A runner whose only action does nothing.
pub(crate) async fn runner(store: &MeasuredStore) -> BenchResult<Runner> {
    let functions = Functions::new(tokio::runtime::Handle::current());
    functions.add(shapes::NOTHING, |_| std::future::ready(Ok(Value::Null)));
    runner_with(store, Arc::new(functions)).await
}

/// A runner whose actions are done by this executor. It counts nothing itself, so that what is
/// measured is the engine's.
pub(crate) async fn runner_with(
    store: &MeasuredStore,
    actions: Arc<dyn Executor>,
) -> BenchResult<Runner> {
    let builder = Runner::builder()
        .client(&store.client)
        .shared_settings(store.engine.clone())
        .executor(executors::ACTION, actions);
    Ok(builder.without_telemetry().build().await?)
}

/// Measure a load on a place.
pub(crate) async fn measure(load: Load, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    measure_on(runner(store).await?, load, store).await
}

/// The same, on this runner, which ends with it.
pub(crate) async fn measure_on(
    runner: Runner,
    load: Load,
    store: &MeasuredStore,
) -> BenchResult<BenchFigure> {
    store.client.deploy(&load.plan).await?;
    runner.keep_at_hand(&load.plan).await?;
    first(&runner, store).await?;
    let flush = store.flush_millis()?;
    let before = store.read().await?;
    admit_all(&runner, &load, load.runs).await?;
    rest(&runner).await?;
    let cost = before.until(store.read().await?);
    runner.give_back(GRACE).await?;
    completed(store).await?;
    let store = store.kind.name();
    let units = load.runs * load.units;
    let figure = BenchFigure {
        bench: load.bench,
        store,
        unit: load.unit,
        units,
        cost,
        notes: Vec::new(),
    };
    Ok(figure.note("flush", format!("{flush:.2} ms")))
}

/// Runs that have ended.
pub(crate) async fn fill(runner: &Runner, load: &Load, store: &MeasuredStore) -> BenchResult<()> {
    store.client.deploy(&load.plan).await?;
    runner.keep_at_hand(&load.plan).await?;
    first(runner, store).await?;
    admit_all(runner, load, load.runs).await?;
    rest(runner).await
}

async fn admit_all(runner: &Runner, load: &Load, runs: u64) -> BenchResult<()> {
    let callers = runs.min(CALLERS);
    let (room, admitted) = (
        Arc::new(Semaphore::new(ROOM)),
        Arc::new(AtomicUsize::new(0)),
    );
    let doorman = tokio::spawn(keep_the_door(
        runner.clone(),
        Arc::clone(&room),
        Arc::clone(&admitted),
    ));
    let mut working = JoinSet::new();
    for caller in 0..callers {
        let runner = runner.clone();
        let plan = Arc::clone(&load.plan);
        let input = load.input;
        let (room, admitted) = (Arc::clone(&room), Arc::clone(&admitted));
        let mine = runs / callers + u64::from(caller < runs % callers);
        working.spawn(async move {
            for _ in 0..mine {
                room.acquire()
                    .await
                    .expect("the semaphore is not closed")
                    .forget();
                admit(&runner, &plan, input).await?;
                admitted.fetch_add(1, Ordering::Relaxed);
            }
            BenchResult::Ok(())
        });
    }
    while let Some(ended) = working.join_next().await {
        ended.map_err(|error| BenchError::broken(error.to_string()))??;
    }
    doorman.abort();
    // It looks at the runner until it has ended.
    let _ = doorman.await;
    Ok(())
}

/// One looks for ends, so that callers need not: for each that has ended another may come in.
async fn keep_the_door(runner: Runner, room: Arc<Semaphore>, admitted: Arc<AtomicUsize>) {
    let mut let_in = 0;
    loop {
        tokio::time::sleep(POLL).await;
        let Ok(here) = runner.resident_runs().await else {
            return;
        };
        let ended = admitted.load(Ordering::Relaxed).saturating_sub(here);
        room.add_permits(ended.saturating_sub(let_in));
        let_in = ended.max(let_in);
    }
}

/// One run to its end: from then on the runner is registered and takes what is born here.
async fn first(runner: &Runner, store: &MeasuredStore) -> BenchResult<()> {
    let plan = shapes::plan(shapes::ONE);
    store.client.deploy(&plan).await?;
    let run = admit(runner, &plan, 1).await?;
    store.client.wait(run).await?;
    Ok(())
}

/// A run that failed would be a fast one.
pub(crate) async fn completed(store: &MeasuredStore) -> BenchResult<()> {
    let others = [FinalStatus::Failed, FinalStatus::Cancelled].map(RunStatus::Final);
    let filter = RunFilter {
        statuses: others.into(),
        limit: 1,
        ..RunFilter::default()
    };
    match store.client.list(filter).await?.first() {
        Some(run) => Err(BenchError::broken(format!(
            "run {} did not complete; its figure means nothing",
            run.run
        ))),
        None => Ok(()),
    }
}

pub(crate) async fn admit(runner: &Runner, plan: &Arc<Plan>, input: i64) -> BenchResult<RunId> {
    let options = RunStartOptions {
        input: Some(Value::Int(input)),
        ..RunStartOptions::default()
    };
    let prepared = PreparedRun::new(plan, options, runner.client().queue_limits())?;
    let (run, _) = runner.start(prepared).await?;
    Ok(run)
}

/// Wait until the runner holds no run.
async fn rest(runner: &Runner) -> BenchResult<()> {
    while runner.resident_runs().await? > 0 {
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// From asking for a one-step run until it has ended, one after the other on an idle runner.
pub(crate) async fn latency(runs: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    latency_on(runner(store).await?, runs, store).await
}

/// The same, on this runner, which ends with it.
pub(crate) async fn latency_on(
    runner: Runner,
    runs: u64,
    store: &MeasuredStore,
) -> BenchResult<BenchFigure> {
    let plan = shapes::plan(shapes::ONE);
    first(&runner, store).await?;
    let mut news = runner.news().await?;
    let flush = store.flush_millis()?;
    let before = store.read().await?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let began = Instant::now();
        let run = admit(&runner, &plan, 1).await?;
        while !matches!(news.recv().await, Ok(News::Ended { run: ended, .. }) if ended == run) {}
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let cost = before.until(store.read().await?);
    runner.give_back(GRACE).await?;
    let figure = BenchFigure {
        bench: "latency",
        store: store.kind.name(),
        unit: "runs",
        units: runs,
        cost,
        notes: vec![],
    };
    let (figure, half, most) = figure.times(times);
    Ok(figure.note("flush", format!("{flush:.3} ms")).note(
        "in flushes",
        format!("{:.1} and {:.1}", half / flush, most / flush),
    ))
}

/// A long loop: its last tenth beside its first. It is looked at now and then, not step by step:
/// whoever hears of every step is woken by every step.
pub(crate) async fn long_loop(steps: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let runner = runner(store).await?;
    let plan = shapes::plan(shapes::SEQUENCE);
    store.client.deploy(&plan).await?;
    first(&runner, store).await?;
    let before = store.read().await?;
    let run = admit(&runner, &plan, i64::try_from(steps).unwrap_or(i64::MAX)).await?;
    let mut marks: Vec<CostReading> = Vec::new();
    let mut memory = Vec::new();
    while marks.len() < 10 {
        tokio::time::sleep(GLANCE).await;
        let record = store.client.run(run).await?;
        let record = record.ok_or_else(|| BenchError::broken("the run is gone".to_owned()))?;
        let has_ended = record.finished_at.is_some();
        let settled = if has_ended { steps } else { record.head };
        while marks.len() < 10 && settled * 10 >= steps * (marks.len() as u64 + 1) {
            marks.push(store.read().await?);
            memory.push(megabytes(resident(std::process::id())));
        }
    }
    rest(&runner).await?;
    let cost = before.until(store.read().await?);
    runner.give_back(GRACE).await?;
    completed(store).await?;
    let figure = BenchFigure {
        bench: "loop",
        store: store.kind.name(),
        unit: "steps",
        units: steps,
        cost,
        notes: vec![],
    };
    let (wall, cpu) = share(before, &marks);
    Ok(figure
        .note("last tenth against first", wall)
        .note("its CPU", cpu)
        .note("CPU of each tenth", tenths(before, &marks))
        .note("memory after each", memory.join(", ")))
}

/// CPU time of both ends in each tenth, beside that of the first.
fn tenths(before: CostReading, marks: &[CostReading]) -> String {
    let begins = std::iter::once(&before).chain(marks);
    let costs = begins.zip(marks).map(|(begin, end)| begin.until(*end));
    let times: Vec<f64> = costs.map(|cost| cpu(cost).as_secs_f64()).collect();
    let first = times.first().copied().unwrap_or_default().max(1e-9);
    let shares: Vec<String> = times
        .iter()
        .map(|time| format!("{:.2}", time / first))
        .collect();
    shares.join(" ")
}

fn cpu(cost: Cost) -> Duration {
    cost.ours + cost.theirs.unwrap_or_default()
}

/// The last tenth against the first: time, and CPU time of both ends.
fn share(before: CostReading, marks: &[CostReading]) -> (String, String) {
    let [first, .., penultimate, last] = marks else {
        return ("unknown".to_owned(), "unknown".to_owned());
    };
    let (first, last) = (before.until(*first), penultimate.until(*last));
    let times = |last: Duration, first: Duration| {
        format!("{:.2}×", last.as_secs_f64() / first.as_secs_f64().max(1e-9))
    };
    (times(last.wall, first.wall), times(cpu(last), cpu(first)))
}
