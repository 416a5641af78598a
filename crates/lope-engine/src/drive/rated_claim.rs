//! A claim of a queue with a rate: first so many starts as the rate has left, of all runners; then
//! the claim; what it did not use goes back.

use lope_limits::{LimitsStore, StartsRequest};
use lope_model::{QueueName, RunnerId, Timestamp};
use lope_store::runs::{Claim, Claimed, SessionResult};
use lope_store::{Store, StoreResult};

use crate::settings::Settings;

/// Claim as much as the rate of the claim's queue allows, if it has one.
pub(crate) async fn claim(
    store: &Store,
    limits: &LimitsStore,
    settings: &Settings,
    mut claim: Claim,
    now: Timestamp,
) -> StoreResult<SessionResult<Claimed>> {
    // A queue with limits is claimed alone.
    let limit = match claim.queues.as_slice() {
        [queue] => settings.queue_limits.get_key_value(queue),
        _ => None,
    };
    let Some((queue, rate)) = limit.and_then(|(queue, limit)| Some((queue, limit.rate.as_ref()?)))
    else {
        return store.runs.claim(claim).await;
    };
    let runner = claim.runner;
    let most = u32::try_from(claim.limit).unwrap_or(u32::MAX);
    let taken = limits
        .take_starts(StartsRequest {
            queue,
            rate,
            runner,
            now,
            most,
        })
        .await?;
    let starts = match taken {
        Ok(starts) => starts,
        Err(until) => {
            return Ok(Ok(Claimed {
                now,
                runs: Vec::new(),
                next_due: Some(until),
            }));
        }
    };
    claim.limit = starts as usize;
    let claimed = store.runs.claim(claim).await;
    let used = match &claimed {
        Ok(Ok(claimed)) => u32::try_from(claimed.runs.len()).unwrap_or(u32::MAX),
        Ok(Err(_)) => 0,
        // It may have happened; then its starts did.
        Err(_) => starts,
    };
    give_back(limits, queue, runner, starts.saturating_sub(used)).await;
    claimed
}

/// What is not given back is free again by itself, later.
async fn give_back(limits: &LimitsStore, queue: &QueueName, runner: RunnerId, starts: u32) {
    if starts == 0 {
        return;
    }
    if let Err(error) = limits.give_back_starts(queue, runner, starts).await {
        tracing::warn!(%error, %queue, "starts that were not used could not be given back");
    }
}
