//! Being with a handler while it works: its panics are caught, its leases renewed, and what was handled before it does not
//! wait for it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use lope_model::{Moment, Span};
use lope_store::StoreResult;
use lope_store::tables::BatchReply;

use super::Runner;
use super::hand::Round;
use crate::context::Context;
use crate::error::{HandlerError, RunnerError};
use crate::frame::Message;
use crate::handler::Handled;
use crate::law::idle;
use crate::record::Lease;

/// While a commit of the handler's own is under way, others wait this long for their turn.
const TURN: Span = Span::from_millis(5);

/// How the work of a handler ended.
pub(super) enum Attended {
    Answered(Handled),
    /// The lease went to somebody else meanwhile; the handler was dropped.
    Lost,
}

impl Runner {
    /// Call the handler. Most answer at once; for those that do not, leases and earlier steps are looked after.
    pub(super) async fn attend(
        &self,
        round: &mut Round,
        item: Option<usize>,
        context: &mut Context,
        message: &Message<'_>,
    ) -> Result<Attended, RunnerError> {
        let mut handling = self.handler.handle(context, message);
        if let Poll::Ready(handled) = poll_once(&mut handling).await {
            return Ok(Attended::Answered(handled));
        }
        loop {
            let pause = self.pause(round);
            let handled = tokio::select! {
                biased;
                handled = poll_fn(|task| guarded_poll(&mut handling, task)) => Some(handled),
                () = self.time.sleep.sleep(pause) => None,
            };
            if let Some(handled) = handled {
                return Ok(Attended::Answered(handled));
            }
            self.look_after(round).await?;
            if item.is_some_and(|item| round.hand.is_lost(item)) {
                return Ok(Attended::Lost);
            }
        }
    }

    /// How long the handler may be left alone.
    fn pause(&self, round: &Round) -> Span {
        let until_renewal = round.hand.renewal().map(|at| idle::until(at, self.time.clock.moment()).max(TURN));
        let until_commit = (!round.group.is_empty()).then_some(self.config.group_wait);
        until_renewal.into_iter().chain(until_commit).min().unwrap_or(self.config.max_idle)
    }

    async fn look_after(&self, round: &mut Round) -> StoreResult<()> {
        if !round.group.is_empty() {
            round.group.try_commit(Vec::new()).await.transpose()?;
        }
        let now = self.time.clock.moment();
        if round.hand.renewal().is_some_and(|at| at <= now) {
            let renewals = round.hand.renewals(self.config.worker, now);
            let batches = renewals.iter().map(|(_, _, batch)| batch.clone()).collect();
            if let Some(replies) = round.group.try_commit(batches).await.transpose()? {
                note_leases(round, renewals.into_iter().map(|(holding, lease, _)| (holding, lease)), replies);
            }
        }
        Ok(())
    }

    /// Between two messages: commit what waits if it is much, and renew leases that are due. What waits carries the leases as
    /// they are, so it goes first.
    pub(super) async fn tend(&self, round: &mut Round) -> StoreResult<()> {
        let now = self.time.clock.moment();
        let is_due = round.hand.renewal().is_some_and(|at| at <= now);
        if is_due || round.group.is_full() {
            round.group.commit(Vec::new()).await?;
        }
        if is_due {
            self.renew(round, now).await?;
        }
        Ok(())
    }

    async fn renew(&self, round: &mut Round, now: Moment) -> StoreResult<()> {
        let renewals = round.hand.renewals(self.config.worker, now);
        let batches = renewals.iter().map(|(_, _, batch)| batch.clone()).collect();
        let replies = round.group.commit(batches).await?;
        note_leases(round, renewals.into_iter().map(|(holding, lease, _)| (holding, lease)), replies);
        Ok(())
    }
}

/// Leases that were written anew, and what the store said to each.
pub(super) fn note_leases(round: &mut Round, leases: impl Iterator<Item = (usize, Lease)>, replies: Vec<BatchReply>) {
    for ((index, lease), reply) in leases.zip(replies) {
        let held = &mut round.hand.holdings[index];
        match reply {
            Ok(_) => (held.holding.bytes, held.holding.lease) = (lease.encode(), lease),
            Err(_) => held.lost = true,
        }
    }
}

type Handling<'a> = Pin<Box<dyn Future<Output = Handled> + Send + 'a>>;

async fn poll_once(handling: &mut Handling<'_>) -> Poll<Handled> {
    poll_fn(|task| Poll::Ready(guarded_poll(handling, task))).await
}

/// A handler that panics has failed; the worker goes on.
fn guarded_poll(handling: &mut Handling<'_>, task: &mut std::task::Context<'_>) -> Poll<Handled> {
    catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(task))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        Poll::Ready(Err(HandlerError::Failed(format!("panic: {}", text.unwrap_or("without a message")))))
    })
}
