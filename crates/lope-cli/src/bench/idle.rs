//! What a runner with nothing to do costs.

use std::time::Duration;

use super::figure::Figure;
use super::place::Place;
use super::work;
use crate::error::CliResult;

/// Before and after, so that starting up is over and the server's statistics have arrived.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn idle(seconds: u64, place: &Place) -> CliResult<Figure> {
    let engine = work::engine(place)?;
    tokio::time::sleep(SETTLE).await;
    let (before, asked) = (place.read().await?, place.transactions().await?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let cost = before.until(place.read().await?);
    let asked = place.transactions().await?.zip(asked).map(|(end, begin)| end.saturating_sub(begin));
    engine.shutdown(SETTLE).await?;
    let place = place.kind.name();
    let busy = (cost.ours + cost.theirs.unwrap_or_default()).as_secs_f64() / cost.wall.as_secs_f64();
    let figure = Figure { bench: "idle", place, unit: "seconds", units: seconds, cost, notes: Vec::new() };
    let figure = figure.note("of a core", format!("{:.3} %", busy * 100.0));
    Ok(match asked {
        Some(asked) => figure.note("transactions a second", format!("{:.1}", asked as f64 / seconds as f64)),
        None => figure,
    })
}
