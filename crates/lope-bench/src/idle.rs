//! What a runner with nothing to do costs.

use std::time::Duration;

use crate::error::BenchResult;
use crate::figure::BenchFigure;
use crate::measured_store::MeasuredStore;
use crate::work;

/// Before and after, so that starting up is over and the server's statistics have arrived.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn idle(seconds: u64, store: &MeasuredStore) -> BenchResult<BenchFigure> {
    let runner = work::runner(store).await?;
    tokio::time::sleep(SETTLE).await;
    let before = store.read().await?;
    let asked = store.transactions().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let cost = before.until(store.read().await?);
    let asked = store
        .transactions()
        .await?
        .zip(asked)
        .map(|(end, begin)| end.saturating_sub(begin));
    runner.give_back(SETTLE).await?;
    let store = store.kind.name();
    let busy =
        (cost.ours + cost.theirs.unwrap_or_default()).as_secs_f64() / cost.wall.as_secs_f64();
    let figure = BenchFigure {
        bench: "idle",
        store,
        unit: "seconds",
        units: seconds,
        cost,
        notes: Vec::new(),
    };
    let figure = figure.note("of a core", format!("{:.3} %", busy * 100.0));
    Ok(match asked {
        Some(asked) => figure.note(
            "transactions a second",
            format!("{:.1}", asked as f64 / seconds as f64),
        ),
        None => figure,
    })
}
