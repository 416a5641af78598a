//! Two things that users wait for beside the work itself: how long pruning keeps others from writing,
//! and how soon a runner hears of a run that a command line has started.

use std::process::Stdio;
use std::time::{Duration, Instant};

use lope::PreparedRun;
use lope::runs::{Prune, RunStartOptions};
use lope_model::{Timestamp, Value};

use crate::error::{BenchError, BenchResult};
use crate::figure::BenchFigure;
use crate::footprint::store_text;
use crate::measured_store::MeasuredStore;
use crate::{shapes, work};

/// Steps of a run that is pruned.
const STEPS: u64 = 20;
/// How long a runner may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// Runs deleted at a time, as a runner does it.
const BATCH: usize = 500;

/// Ended runs leave the store while another client goes on starting runs, one after the other.
pub(crate) async fn prune(runs: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let runner = work::runner(store).await?;
    let load = work::Load {
        bench: "prune",
        unit: "runs",
        plan: shapes::plan(shapes::SEQUENCE),
        runs,
        input: i64::try_from(STEPS).unwrap_or(i64::MAX),
        units: 1,
    };
    work::fill(&runner, &load, store).await?;
    runner.give_back(GRACE).await?;
    let alone = start_one(store).await?;
    let before = store.read().await?;
    let client = store.client.clone();
    let all = Prune {
        before: Timestamp::NEVER,
        statuses: Vec::new(),
        workflow: None,
        limit: BATCH,
    };
    let pruning = tokio::spawn(async move { client.prune(all).await });
    let mut times = Vec::new();
    while !pruning.is_finished() {
        times.push(start_one(store).await?);
    }
    let pruned = pruning.await;
    let pruned = pruned.map_err(|error| BenchError::broken(error.to_string()))??;
    let cost = before.until(store.read().await?);
    let longest = times.iter().copied().fold(alone, f64::max);
    let figure = BenchFigure {
        bench: load.bench,
        store: store.kind.name(),
        unit: load.unit,
        units: pruned.len() as u64,
        cost,
        notes: vec![("a start alone", format!("{alone:.2} ms"))],
    };
    times.push(longest);
    let (figure, _, _) = figure.times(times);
    Ok(figure.note("longest start beside it", format!("{longest:.2} ms")))
}

/// How long it takes to start a run that nobody works on, in milliseconds.
async fn start_one(store: &MeasuredStore) -> BenchResult<f64> {
    let plan = shapes::plan(shapes::ONE);
    let options = RunStartOptions {
        input: Some(Value::Int(1)),
        at: Some(Timestamp::NEVER),
        ..RunStartOptions::default()
    };
    let prepared = PreparedRun::new(&plan, options, store.client.queue_limits())?;
    let began = Instant::now();
    store.client.start(prepared).await?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// From the moment at which a `lope start` of its own process has put a run into the store until a
/// runner here has taken it up, by the store's clock.
pub(crate) async fn wakeups(starts: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let runner = work::runner(store).await?;
    let broken = |error: std::io::Error| BenchError::broken(format!("`lope start`: {error}"));
    let program = std::env::current_exe().map_err(broken)?;
    let file = store.folder().join("one.yaml");
    std::fs::write(&file, shapes::ONE).map_err(broken)?;
    let url = store_text(store)?;
    let before = store.read().await?;
    let mut times = Vec::new();
    for _ in 0..starts {
        let mut command = tokio::process::Command::new(&program);
        command.arg("start").arg(&file);
        command.args(["--input", "1", "--json", "--store", &url]);
        let output = command
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(broken)?;
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let run = said["run_id"].as_str().and_then(|run| run.parse().ok());
        let run = run.ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            BenchError::broken(format!("`lope start` started nothing: {said}"))
        })?;
        let record = store.client.wait(run).await?;
        let record = record.ok_or_else(|| BenchError::broken("the run is gone".to_owned()))?;
        let since = record.begun_at().since(record.created_at);
        times.push(since.millis() as f64);
    }
    let cost = before.until(store.read().await?);
    runner.give_back(GRACE).await?;
    work::completed(store).await?;
    let longest = times.iter().copied().fold(0.0, f64::max);
    let figure = BenchFigure {
        bench: "wake-ups",
        store: store.kind.name(),
        unit: "starts",
        units: starts,
        cost,
        notes: Vec::new(),
    };
    let (figure, _, _) = figure.times(times);
    Ok(figure.note("longest", format!("{longest:.0} ms")))
}
