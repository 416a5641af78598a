//! What a store can do at best, beside which the engine's figures stand.

use std::time::Instant;

use lope::measure::RawStore;

use crate::error::BenchResult;
use crate::figure::{BenchFigure, Cost};
use crate::measured_store::MeasuredStore;
use crate::shapes;
use crate::work::CALLERS;

/// As many callers as the engine's, each with one run at a time; ends are written together, as they
/// come.
pub(crate) async fn one_step(runs: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let raw = begin(store).await?;
    let before = store.read().await?;
    raw.finish_all(runs, CALLERS).await?;
    let cost = before.until(store.read().await?);
    raw.end().await?;
    Ok(figure(store, "runs", runs, cost))
}

/// Runs that each write one row after the other, as steps in sequence do.
pub(crate) async fn sequences(
    runs: u64,
    steps: u64,
    store: &MeasuredStore,
) -> BenchResult<BenchFigure> {
    let raw = begin(store).await?;
    let born = raw.admit(runs).await?;
    let before = store.read().await?;
    raw.write_rows(born, steps).await?;
    let cost = before.until(store.read().await?);
    raw.end().await?;
    Ok(figure(store, "steps", runs * steps, cost))
}

/// One run after the other, admitted and finished: two commits, and nothing else.
pub(crate) async fn one_by_one(runs: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let raw = begin(store).await?;
    let before = store.read().await?;
    let mut times = Vec::new();
    for _ in 0..runs {
        let began = Instant::now();
        raw.finish_one().await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let cost = before.until(store.read().await?);
    raw.end().await?;
    Ok(figure(store, "runs", runs, cost).times(times).0)
}

async fn begin(store: &MeasuredStore) -> BenchResult<RawStore> {
    Ok(RawStore::begin(&store.client, shapes::plan(shapes::ONE)).await?)
}

fn figure(store: &MeasuredStore, unit: &'static str, units: u64, cost: Cost) -> BenchFigure {
    BenchFigure {
        bench: "raw",
        store: store.kind.name(),
        unit,
        units,
        cost,
        notes: Vec::new(),
    }
}
