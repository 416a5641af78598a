//! Runs on an engine of this process, counted from the first admission until the last has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lope_engine::client::{self, StartOptions};
use lope_engine::executor::Executor;
use lope_engine::{Engine, Executors, News};
use lope_flow::definition::executor;
use lope_flow::law::Plan;
use lope_model::Value;
use lope_store::runs::{FinalStatus, RunFilter, RunStatus};
use lope_workers::Functions;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::figure::Figure;
use super::place::Place;
use super::shapes;
use crate::clock::wall;
use crate::error::{CliError, CliResult, Exit};

/// Callers that admit runs at the same time.
pub(crate) const CALLERS: u64 = 256;
/// Runs under way before callers wait, as many as when the store is asked alone: less than an engine holds.
const ROOM: usize = 1_000;
/// How often ends are looked for.
const LOOK: Duration = Duration::from_millis(1);
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

/// An engine whose only action does nothing.
pub(crate) fn engine(place: &Place) -> CliResult<Engine> {
    let functions = Functions::new(tokio::runtime::Handle::current());
    functions.add(shapes::NOTHING, |_| std::future::ready(Ok(Value::Null)));
    engine_with(place, Arc::new(functions))
}

/// An engine whose actions are done by this executor.
pub(crate) fn engine_with(place: &Place, actions: Arc<dyn Executor>) -> CliResult<Engine> {
    let mut executors = Executors::new();
    executors.insert(executor::ACTION.into(), actions);
    let begun = Engine::begin(place.store.clone(), executors, place.engine.clone());
    begun.map_err(|error| CliError::new(Exit::Bug, format!("the engine cannot start: {error}")))
}

/// Measure a load on a place.
pub(crate) async fn measure(load: Load, place: &Place) -> CliResult<Figure> {
    measure_on(engine(place)?, load, place).await
}

/// The same, on this engine, which ends with it.
pub(crate) async fn measure_on(engine: Engine, load: Load, place: &Place) -> CliResult<Figure> {
    let engine = Arc::new(engine);
    client::deploy(&place.store, &load.plan).await?;
    engine.know(Arc::clone(&load.plan));
    first(&engine, place).await?;
    let flush = place.flush_millis()?;
    let before = place.read().await?;
    admit_all(&engine, &load, load.runs).await?;
    rest(&engine).await;
    let cost = before.until(place.read().await?);
    end(engine).await?;
    completed(place).await?;
    let (place, units) = (place.kind.name(), load.runs * load.units);
    let figure = Figure { bench: load.bench, place, unit: load.unit, units, cost, notes: Vec::new() };
    Ok(figure.note("flush", format!("{flush:.2} ms")))
}

async fn admit_all(engine: &Arc<Engine>, load: &Load, runs: u64) -> CliResult<()> {
    let callers = runs.min(CALLERS);
    let (room, admitted) = (Arc::new(Semaphore::new(ROOM)), Arc::new(AtomicUsize::new(0)));
    let doorman = tokio::spawn(keep_the_door(Arc::clone(engine), Arc::clone(&room), Arc::clone(&admitted)));
    let mut working = JoinSet::new();
    for caller in 0..callers {
        let (engine, plan, input) = (Arc::clone(engine), Arc::clone(&load.plan), load.input);
        let (room, admitted) = (Arc::clone(&room), Arc::clone(&admitted));
        let mine = runs / callers + u64::from(caller < runs % callers);
        working.spawn(async move {
            for _ in 0..mine {
                room.acquire().await.expect("the door is not closed").forget();
                admit(&engine, &plan, input).await?;
                admitted.fetch_add(1, Ordering::Relaxed);
            }
            CliResult::Ok(())
        });
    }
    while let Some(ended) = working.join_next().await {
        ended.map_err(|error| CliError::new(Exit::Bug, error.to_string()))??;
    }
    doorman.abort();
    // It holds the engine until it has ended.
    let _ = doorman.await;
    Ok(())
}

/// One looks for ends, so that callers need not: for each that has ended another may come in.
async fn keep_the_door(engine: Arc<Engine>, room: Arc<Semaphore>, admitted: Arc<AtomicUsize>) {
    let mut let_in = 0;
    loop {
        tokio::time::sleep(LOOK).await;
        let ended = admitted.load(Ordering::Relaxed).saturating_sub(engine.residents());
        room.add_permits(ended.saturating_sub(let_in));
        let_in = ended.max(let_in);
    }
}

/// One run to its end: from then on the engine is registered and takes what is born here.
async fn first(engine: &Engine, place: &Place) -> CliResult<()> {
    let plan = shapes::plan(shapes::ONE);
    client::deploy(&place.store, &plan).await?;
    let run = admit(engine, &plan, 1).await?;
    client::wait(&place.store, run).await?;
    Ok(())
}

/// A run that failed would be a fast one.
async fn completed(place: &Place) -> CliResult<()> {
    let others = [FinalStatus::Failed, FinalStatus::Cancelled].map(RunStatus::Final);
    let filter = RunFilter { statuses: others.into(), limit: 1, ..RunFilter::default() };
    match place.store.runs.list(filter).await?.first() {
        Some(run) => {
            Err(CliError::new(Exit::Bug, format!("run {} did not complete; its figure means nothing", run.run)))
        }
        None => Ok(()),
    }
}

async fn admit(engine: &Engine, plan: &Arc<Plan>, input: i64) -> CliResult<lope_model::RunId> {
    let options = StartOptions { input: Some(Value::Int(input)), ..StartOptions::default() };
    let birth = client::birth(plan, options, wall());
    let run = birth.admit.run;
    engine.admit(birth, plan).await?;
    Ok(run)
}

/// Wait until the engine holds no run.
async fn rest(engine: &Engine) {
    while engine.residents() > 0 {
        tokio::time::sleep(LOOK).await;
    }
}

async fn end(engine: Arc<Engine>) -> CliResult<()> {
    if let Ok(engine) = Arc::try_unwrap(engine) {
        engine.shutdown(GRACE).await?;
    }
    Ok(())
}

/// From asking for a one-step run until it has ended, one after the other on an idle engine.
pub(crate) async fn latency(runs: u64, place: &Place) -> CliResult<Figure> {
    latency_on(engine(place)?, runs, place).await
}

/// The same, on this engine, which ends with it.
pub(crate) async fn latency_on(engine: Engine, runs: u64, place: &Place) -> CliResult<Figure> {
    let plan = shapes::plan(shapes::ONE);
    first(&engine, place).await?;
    let mut news = engine.subscribe();
    let flush = place.flush_millis()?;
    let before = place.read().await?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let began = Instant::now();
        let run = admit(&engine, &plan, 1).await?;
        while !matches!(news.recv().await, Ok(News::Ended { run: ended, .. }) if ended == run) {}
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let cost = before.until(place.read().await?);
    engine.shutdown(GRACE).await?;
    let figure = Figure { bench: "latency", place: place.kind.name(), unit: "runs", units: runs, cost, notes: vec![] };
    let (figure, half, most) = figure.times(times);
    Ok(figure
        .note("flush", format!("{flush:.3} ms"))
        .note("in flushes", format!("{:.1} and {:.1}", half / flush, most / flush)))
}

/// A long loop: its last tenth beside its first.
pub(crate) async fn long_loop(steps: u64, place: &Place) -> CliResult<Figure> {
    let engine = engine(place)?;
    let plan = shapes::plan(shapes::SEQUENCE);
    client::deploy(&place.store, &plan).await?;
    first(&engine, place).await?;
    let before = place.read().await?;
    let mut news = engine.subscribe();
    let run = admit(&engine, &plan, i64::try_from(steps).unwrap_or(i64::MAX)).await?;
    let (mut settled, mut marks) = (0_u64, Vec::new());
    loop {
        match news.recv().await {
            Ok(News::Notice { notice: lope_flow::law::Notice::StepSettled { .. }, .. }) => settled += 1,
            Ok(News::Ended { run: ended, .. }) if ended == run => break,
            Err(tokio::sync::broadcast::error::RecvError::Closed) => break,
            Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
        }
        if settled * 10 >= steps * (marks.len() as u64 + 1) {
            marks.push(Instant::now());
        }
    }
    let cost = before.until(place.read().await?);
    engine.shutdown(GRACE).await?;
    let figure = Figure { bench: "loop", place: place.kind.name(), unit: "steps", units: steps, cost, notes: vec![] };
    Ok(figure.note("last tenth against first", share(before.began, &marks)))
}

fn share(began: Instant, marks: &[Instant]) -> String {
    match marks {
        [first, .., before, last] => {
            let (first, last) = (first.duration_since(began), last.duration_since(*before));
            format!("{:.2}×", last.as_secs_f64() / first.as_secs_f64().max(1e-9))
        }
        _ => "unknown".to_owned(),
    }
}
