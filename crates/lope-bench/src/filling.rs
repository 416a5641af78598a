//! A store that has been in use: many runs that have ended, and one that was long.

use lope::{RunId, Runner};

use crate::error::BenchResult;
use crate::measured_store::MeasuredStore;
use crate::{shapes, work};

/// A runner on a store with so many ended runs, one of them with so many steps.
pub(crate) async fn fill(
    runs: u64,
    steps: u64,
    store: &MeasuredStore,
) -> BenchResult<(Runner, RunId)> {
    let runner = work::runner(store).await?;
    let load = work::Load {
        bench: "fill",
        unit: "runs",
        plan: shapes::plan(shapes::ONE),
        runs,
        input: 1,
        units: 1,
    };
    work::fill(&runner, &load, store).await?;
    let plan = shapes::plan(shapes::SEQUENCE);
    store.client.deploy(&plan).await?;
    let rounds = i64::try_from(steps).unwrap_or(i64::MAX);
    let long = work::admit(&runner, &plan, rounds).await?;
    store.client.wait(long).await?;
    Ok((runner, long))
}
