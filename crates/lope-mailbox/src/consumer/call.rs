//! Being with a handler while it works: its panics are caught, its leases renewed, and what was
//! handled before it does not wait for it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use lope_model::{Moment, Span};
use lope_store::StoreResult;
use lope_store::tables::BatchReply;

use super::Consumer;
use super::claimed_batch::BatchInProgress;
use crate::context::Context;
use crate::error::{ConsumerError, HandlerError};
use crate::frame::Message;
use crate::handler::{Handled, HandledFuture};
use crate::law::idle;
use crate::record::Lease;

/// While a commit of the handler's own is under way, others wait this long for their turn.
const TURN: Span = Span::from_millis(5);

/// How the work of a handler ended.
pub(super) enum CallOutcome {
    Answered(Handled),
    /// The lease went to somebody else meanwhile; the handler was dropped.
    Lost,
}

impl Consumer {
    /// Call the handler. Most answer at once; for those that do not, leases and earlier steps are
    /// looked after.
    pub(super) async fn call_handler(
        &self,
        progress: &mut BatchInProgress,
        item: Option<usize>,
        context: &mut Context,
        message: &Message<'_>,
    ) -> Result<CallOutcome, ConsumerError> {
        let mut handling = self.handler.handle(context, message);
        if let Poll::Ready(handled) = poll_once(&mut handling).await {
            return Ok(CallOutcome::Answered(handled));
        }
        loop {
            let pause = self.pause(progress);
            let handled = tokio::select! {
                biased;
                handled = poll_fn(|task| guarded_poll(&mut handling, task)) => Some(handled),
                () = self.time.sleep.sleep(pause) => None,
            };
            if let Some(handled) = handled {
                return Ok(CallOutcome::Answered(handled));
            }
            self.renew_while_handling(progress).await?;
            if item.is_some_and(|item| progress.claimed.is_lost(item)) {
                return Ok(CallOutcome::Lost);
            }
        }
    }

    /// How long the handler may be left alone.
    fn pause(&self, progress: &BatchInProgress) -> Span {
        let until_renewal = progress
            .claimed
            .renewal()
            .map(|at| idle::until(at, self.time.clock.moment()).max(TURN));
        let until_commit = (!progress.group.is_empty()).then_some(self.config.group_wait);
        until_renewal
            .into_iter()
            .chain(until_commit)
            .min()
            .unwrap_or(self.config.max_idle)
    }

    async fn renew_while_handling(&self, progress: &mut BatchInProgress) -> StoreResult<()> {
        if !progress.group.is_empty() {
            progress.group.try_commit(Vec::new()).await.transpose()?;
        }
        let now = self.time.clock.moment();
        if progress.claimed.renewal().is_some_and(|at| at <= now) {
            let renewals = progress.claimed.renewals(self.config.worker, now);
            let batches = renewals.iter().map(|(_, _, batch)| batch.clone()).collect();
            if let Some(replies) = progress.group.try_commit(batches).await.transpose()? {
                note_leases(
                    progress,
                    renewals.into_iter().map(|(index, lease, _)| (index, lease)),
                    replies,
                );
            }
        }
        Ok(())
    }

    /// Between two messages: commit what waits if it is much, and renew leases that are due. What
    /// waits carries the leases as they are, so it goes first.
    pub(super) async fn commit_and_renew(&self, progress: &mut BatchInProgress) -> StoreResult<()> {
        let now = self.time.clock.moment();
        let is_due = progress.claimed.renewal().is_some_and(|at| at <= now);
        if is_due || progress.group.is_full() {
            progress.group.commit(Vec::new()).await?;
        }
        if is_due {
            self.renew(progress, now).await?;
        }
        Ok(())
    }

    async fn renew(&self, progress: &mut BatchInProgress, now: Moment) -> StoreResult<()> {
        let renewals = progress.claimed.renewals(self.config.worker, now);
        let batches = renewals.iter().map(|(_, _, batch)| batch.clone()).collect();
        let replies = progress.group.commit(batches).await?;
        note_leases(
            progress,
            renewals.into_iter().map(|(index, lease, _)| (index, lease)),
            replies,
        );
        Ok(())
    }
}

/// Leases that were written anew, and what the store said to each.
pub(super) fn note_leases(
    progress: &mut BatchInProgress,
    leases: impl Iterator<Item = (usize, Lease)>,
    replies: Vec<BatchReply>,
) {
    for ((index, lease), reply) in leases.zip(replies) {
        let tracked = &mut progress.claimed.leases[index];
        match reply {
            Ok(_) => (tracked.held.bytes, tracked.held.lease) = (lease.encode(), lease),
            Err(_) => tracked.lost = true,
        }
    }
}

async fn poll_once(handling: &mut HandledFuture<'_>) -> Poll<Handled> {
    poll_fn(|task| Poll::Ready(guarded_poll(handling, task))).await
}

/// A handler that panics has failed; the worker goes on.
fn guarded_poll(
    handling: &mut HandledFuture<'_>,
    task: &mut std::task::Context<'_>,
) -> Poll<Handled> {
    catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(task))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or(panic.downcast_ref::<String>().map(String::as_str));
        Poll::Ready(Err(HandlerError::Failed(format!(
            "panic: {}",
            text.unwrap_or("without a message")
        ))))
    })
}
