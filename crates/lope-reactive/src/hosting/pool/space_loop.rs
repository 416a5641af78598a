//! One space at work in a pool: taken, kept up to date while there is something to do, given back.

use std::sync::Arc;
use std::time::Duration;

use lope_cells::id::SpaceName;
use lope_model::{Span, Timestamp};
use tokio::sync::{Notify, watch};

use super::SpacePoolInner;
use crate::hosting::effects::RequestedEffect;
use crate::hosting::lease::LeaseView;
use crate::hosting::{HostError, LeaseRequest, SpaceHost};
use crate::machine::SpaceOutput;
use crate::runner::RecipeRunner;
use lope_cells::javascript::JavaScript;

/// How soon to look again at a space that somebody else has.
const TRY_AGAIN: Span = Span::from_secs(1);

/// How soon to try a space again that cannot be hosted as it is.
const TRY_BROKEN_AGAIN: Span = Span::from_secs(30);

/// Longest time between two turns of a space that looks at others.
const POLL: Span = Span::from_secs(2);

/// The pause before a turn that failed and may succeed is taken again.
const PAUSE: Duration = Duration::from_millis(200);

/// Hosts a space until it has had nothing to do for a while, is taken by somebody else, or the pool
/// stops.
pub(super) async fn serve(
    inner: &Arc<SpacePoolInner>,
    space: &SpaceName,
    notification: &Notify,
    stop: watch::Receiver<bool>,
) {
    attend(inner, space, notification, stop).await;
    inner.rests(space);
}

async fn attend(
    inner: &Arc<SpacePoolInner>,
    space: &SpaceName,
    notification: &Notify,
    mut stop: watch::Receiver<bool>,
) {
    let mut host = match take(inner, space).await {
        Ok(host) => host,
        Err(error) => return not_taken(inner, space, &error),
    };
    let mut idle_since = inner.now();
    let mut attempts = 0_u64;
    while !*stop.borrow() {
        inner.at_work().insert(space.clone());
        match host.slice(inner.now()).await {
            Ok(told) => {
                if !told.is_empty() {
                    idle_since = inner.now();
                }
                for output in told {
                    attempts += 1;
                    let attempt = format!("{}-{attempts}", host.epoch());
                    pass_on(inner, space, output, attempt);
                }
            }
            Err(HostError::Lost) => return,
            Err(error) if error.is_passing() => {
                tracing::warn!(%space, %error, "a turn of a space is taken again");
                inner.rests(space);
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => return broken(inner, space, &error),
        }
        if host.is_settling() {
            tokio::task::yield_now().await;
            continue;
        }
        inner.rests(space);
        let looks_elsewhere = host.looks_elsewhere();
        if looks_elsewhere {
            inner.onlookers().insert(space.clone());
        }
        let now = inner.now();
        let end = idle_since.plus(inner.options.idle);
        let due = host.next_deadline(now);
        if due.is_none() && !looks_elsewhere && end <= now {
            break;
        }
        tokio::select! {
            () = notification.notified() => {}
            () = tokio::time::sleep(until(now, due.unwrap_or(end.max(now.plus(POLL))))) => {}
            _ = stop.changed() => {}
        }
    }
    if let Err(error) = host.release().await {
        tracing::debug!(%space, %error, "the space is free when its lease ends");
    }
}

async fn take(
    inner: &SpacePoolInner,
    space: &SpaceName,
) -> Result<SpaceHost<RecipeRunner>, HostError> {
    let options = &inner.options;
    let scripts = Box::new(JavaScript::new(options.scripts));
    let runner = RecipeRunner::new(space.clone(), options.modules.clone(), scripts);
    let store = inner.directory.space(space.clone());
    let now = inner.now();
    // One that was seen to be over is taken whatever time it names, unless it is renewed just now.
    let now = match store
        .view_lease(&options.identity, inner.clock.moment())
        .await?
    {
        LeaseView::Free => now,
        LeaseView::Over { until } => now.max(until),
        LeaseView::Held { owner, left } => {
            let until = now.plus(left);
            return Err(HostError::Held { owner, until });
        }
    };
    let asked = LeaseRequest {
        identity: &options.identity,
        now,
        span: options.lease,
    };
    SpaceHost::take(store, runner, asked).await
}

/// A space whose turn cannot be taken is left alone for a while, and whoever asked is told.
fn broken(inner: &SpacePoolInner, space: &SpaceName, error: &HostError) {
    tracing::error!(%space, %error, "the space cannot be hosted");
    let again = inner.now().plus(TRY_BROKEN_AGAIN);
    inner.held().insert(space.clone(), again);
    inner.broken().insert(space.clone(), error.to_string());
}

fn not_taken(inner: &SpacePoolInner, space: &SpaceName, error: &HostError) {
    if let HostError::Held { until, .. } = error {
        let again = inner.now().plus(TRY_AGAIN).min(*until);
        inner.held().insert(space.clone(), again);
        return;
    }
    if let HostError::Lost = error {
        return tracing::debug!(%space, "somebody else took the space at the same moment");
    }
    tracing::warn!(%space, %error, "the space was not taken");
}

fn pass_on(inner: &Arc<SpacePoolInner>, space: &SpaceName, output: SpaceOutput, attempt: String) {
    match output {
        SpaceOutput::Effect(effect) => {
            inner.perform(RequestedEffect::new(space, &effect), attempt);
        }
        SpaceOutput::NonSettling(report) => {
            let runs = report.runs;
            tracing::warn!(%space, runs, "non-settling: 'lope recipes why' tells who writes what it reads");
        }
        SpaceOutput::Failed { node, failure } => {
            tracing::debug!(%space, %node, message = failure.message, "a node failed");
        }
        SpaceOutput::Save(_)
        | SpaceOutput::Edited { .. }
        | SpaceOutput::Receipt(_)
        | SpaceOutput::Refused(_) => {}
    }
}

fn until(now: Timestamp, due: Timestamp) -> Duration {
    let left = due.millis().saturating_sub(now.millis());
    Duration::from_millis(left.clamp(0, 60_000) as u64)
}
