//! Very many runs that sleep and are due within one minute: how long after the first was due the last
//! has ended, and what they take in memory while they sleep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lope::PreparedRun;
use lope::runs::{LiveStatus, RunFilter, RunStartOptions, RunStatus};
use lope_model::{Timestamp, Value};
use tokio::task::JoinSet;

use crate::error::{BenchError, BenchResult};
use crate::figure::BenchFigure;
use crate::footprint::{megabytes, resident};
use crate::measured_store::MeasuredStore;
use crate::{shapes, work};

/// The stretch within which all of them are due.
const SPREAD: Duration = Duration::from_mins(1);
/// Until the first is due: so long, and longer by a second for so many.
const LEAD: Duration = Duration::from_secs(30);
const ASLEEP_PER_SECOND: u64 = 4_000;
/// How often it is asked whether all sleep, which reads all of them, and whether all have ended.
const ASK: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(100);

pub(crate) async fn sleepers(count: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let runner = work::runner(store).await?;
    let memory = resident(std::process::id());
    let now = store.client.now().await?;
    let lead = LEAD + Duration::from_secs(count / ASLEEP_PER_SECOND);
    let first_due = later(now, lead);
    let began = Instant::now();
    admit_all(count, first_due, store).await?;
    while asleep(store).await? < count {
        tokio::time::sleep(ASK).await;
    }
    let asleep = resident(std::process::id());
    let ahead = lead.checked_sub(began.elapsed());
    let ahead = ahead.ok_or_else(|| {
        let took = began.elapsed().as_secs();
        BenchError::broken(format!("they were asleep only after {took} s, too late"))
    })?;
    tokio::time::sleep(ahead).await;
    let before = store.read().await?;
    while sleeps(store).await? {
        tokio::time::sleep(POLL).await;
    }
    let cost = before.until(store.read().await?);
    runner.give_back(ASK).await?;
    work::completed(store).await?;
    let figure = BenchFigure {
        bench: "sleepers",
        store: store.kind.name(),
        unit: "wake-ups",
        units: count,
        cost,
        notes: vec![],
    };
    let late = cost.wall.saturating_sub(SPREAD).as_secs_f64();
    Ok(figure
        .note("due within", format!("{} s", SPREAD.as_secs()))
        .note("the last late by", format!("{late:.1} s"))
        .note("memory before", megabytes(memory))
        .note("asleep", megabytes(asleep))
        .note("after", megabytes(resident(std::process::id()))))
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(time.millis() + i64::try_from(by.as_millis()).unwrap_or(i64::MAX))
}

/// Each with its own time, spread evenly from the first on.
async fn admit_all(count: u64, first_due: Timestamp, store: &MeasuredStore) -> BenchResult<()> {
    let plan = shapes::plan(shapes::SLEEPER);
    store.client.deploy(&plan).await?;
    let mut working = JoinSet::new();
    for caller in 0..work::CALLERS.min(count) {
        let client = store.client.clone();
        let plan = Arc::clone(&plan);
        working.spawn(async move {
            for number in (caller..count).step_by(work::CALLERS as usize) {
                let spread = SPREAD.as_millis() as u64 * number / count;
                let due = later(first_due, Duration::from_millis(spread));
                let nap = due.millis() - epoch_millis();
                let options = RunStartOptions {
                    input: Some(Value::str(format!("{}ms", nap.max(1)))),
                    ..RunStartOptions::default()
                };
                let prepared = PreparedRun::new(&plan, options, client.queue_limits())?;
                client.start(prepared).await?;
            }
            BenchResult::Ok(())
        });
    }
    while let Some(ended) = working.join_next().await {
        ended.map_err(|error| BenchError::broken(error.to_string()))??;
    }
    Ok(())
}

/// This machine's clock, which also dates the runs that are started here.
fn epoch_millis() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}

async fn asleep(store: &MeasuredStore) -> BenchResult<u64> {
    let counts = store.client.counts().await?;
    let status = LiveStatus::Sleeping.as_str();
    Ok(counts.by_status.get(status).copied().unwrap_or_default())
}

/// Does any of them sleep still? A run that is being woken counts until its end is written.
async fn sleeps(store: &MeasuredStore) -> BenchResult<bool> {
    let filter = RunFilter {
        statuses: vec![RunStatus::Live(LiveStatus::Sleeping)],
        limit: 1,
        ..RunFilter::default()
    };
    Ok(!store.client.list(filter).await?.is_empty())
}
