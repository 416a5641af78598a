//! Committing what a round staged, and what follows from the answers: successes are counted and forwarded, conflicts are
//! handled again with a fresh view, leases are given back.

use lope_store::StoreResult;
use lope_store::tables::{Applied, Batch, BatchReply, Conflict};

use super::Runner;
use super::claim::Lanes;
use super::hand::{Fate, Kind, Round, Ticket};
use super::step::{FIRST_READ, Number};
use crate::counters::Count;
use crate::error::{HandlerError, RunnerError};
use crate::group::Settled;
use crate::law::retry::Retry;
use crate::trace::AttemptResult;

impl Runner {
    /// Commit the round. If more is waiting and the worker goes on, the next batch is claimed in the same call.
    pub(super) async fn finish(&mut self, round: &mut Round, ahead: bool) -> Result<(), RunnerError> {
        let goes_on = ahead && round.hand.more && !self.stop.is_requested();
        let next = if goes_on { self.prepare(Lanes::Both, self.config.batch()).await? } else { None };
        let mut tail = self.take_closing();
        tail.extend(next.as_ref().map(|next| next.batch.clone()));
        let mut replies = self.commit(round, tail).await?;
        if let Some(next) = next {
            self.ahead = self.claimed(next, replies.pop());
        }
        self.retry_conflicts(round).await?;
        let emitted = std::mem::take(&mut round.emitted);
        self.forward(emitted).await?;
        self.closing = round.hand.releases(self.config.worker, self.time.clock.moment());
        self.closing_epochs.push(round.hand.epoch);
        Ok(())
    }

    /// Give back the leases of what is done.
    pub(super) async fn close(&mut self) -> StoreResult<()> {
        let batches = self.take_closing();
        if !batches.is_empty() {
            self.tables.commit_unflushed(batches).await?;
        }
        Ok(())
    }

    /// Give back everything that is held, also what was claimed ahead.
    pub(crate) async fn let_go(&mut self) -> StoreResult<()> {
        if let Some(hand) = self.ahead.take() {
            self.closing.extend(hand.releases(self.config.worker, self.time.clock.moment()));
            self.closing_epochs.push(hand.epoch);
        }
        self.close().await
    }

    /// Stop for good: give back what is held; from now on the runner answers busy.
    pub async fn shutdown(&mut self) -> StoreResult<()> {
        let result = self.let_go().await;
        self.state = super::State::Stopped(None);
        result
    }

    async fn commit(&mut self, round: &mut Round, tail: Vec<Batch>) -> Result<Vec<BatchReply>, RunnerError> {
        let replies = round.group.commit(tail).await?;
        // A dead letter whose number is taken is staged again under another one.
        while self.settle(round) {
            round.group.commit(Vec::new()).await?;
        }
        Ok(replies)
    }

    /// Take in the answers that are there. Answers whether something was staged again.
    fn settle(&mut self, round: &mut Round) -> bool {
        let mut again = false;
        for Settled { ticket, reply } in round.group.take_settled() {
            match reply {
                Ok(applied) => self.succeeded(round, ticket, applied),
                Err(conflict) => again |= self.conflicted(round, ticket, &conflict),
            }
        }
        again
    }

    fn succeeded(&mut self, round: &mut Round, ticket: usize, applied: Applied) {
        let Ticket { item, kind, began, emitted } = &mut round.tickets[ticket];
        let (item, emitted) = (*item, std::mem::take(emitted));
        round.emitted.extend(applied.appended.into_iter().zip(emitted));
        round.hand.items[item].fate = Fate::Done;
        let result = match kind {
            Kind::Handled => {
                self.counters.succeeded(began.elapsed());
                round.tally.handled += 1;
                AttemptResult::Success
            }
            Kind::Duplicate => {
                self.counters.add(Count::Duplicate);
                round.tally.duplicates += 1;
                AttemptResult::Duplicate
            }
            Kind::Dead { .. } => {
                self.counters.add(Count::DeadLetter);
                round.tally.dead += 1;
                AttemptResult::Dead { reason: "" }
            }
        };
        match &round.tickets[ticket].kind {
            Kind::Dead { reason } => self.show_item(round, item, AttemptResult::Dead { reason }),
            Kind::Handled | Kind::Duplicate => self.show_item(round, item, result),
        }
    }

    /// A commit was refused. Answers whether something was staged again.
    fn conflicted(&mut self, round: &mut Round, ticket: usize, conflict: &Conflict) -> bool {
        let item = round.tickets[ticket].item;
        match conflict.index {
            0 => {
                round.hand.holdings[round.hand.items[item].holding].lost = true;
                self.counters.add(Count::Lost);
                self.show_item(round, item, AttemptResult::Lost);
            }
            // Somebody dropped, cancelled or changed it: there is nothing left to acknowledge.
            1 => round.hand.items[item].fate = Fate::Gone,
            FIRST_READ.. => return self.read_changed(round, ticket),
        }
        false
    }

    fn read_changed(&mut self, round: &mut Round, ticket: usize) -> bool {
        let Ticket { item, kind, .. } = &round.tickets[ticket];
        let item = *item;
        if let Kind::Dead { reason } = kind {
            let reason = reason.clone();
            self.give_up(round, item, reason, Number::Free);
            return true;
        }
        self.counters.add(Count::Conflict);
        self.show_item(round, item, AttemptResult::Conflict);
        round.conflicted.push_back(item);
        false
    }

    /// Handle again, one by one, what met a change. Each time a little later, until that counts as a failed attempt.
    async fn retry_conflicts(&mut self, round: &mut Round) -> Result<(), RunnerError> {
        while let Some(item) = round.conflicted.pop_front() {
            let shown = &mut round.hand.items[item];
            shown.conflicts += 1;
            shown.fate = Fate::Waiting;
            let (conflicts, place) = (shown.conflicts, shown.place);
            if self.stop.is_requested() {
                continue;
            }
            if conflicts > self.config.retry.conflicts {
                let error = HandlerError::Conflict(format!("what it read was changed by others {conflicts} times"));
                self.refused(round, item, &error)?;
            } else {
                // The first conflict is most often with a step of the same round that was refused itself.
                if conflicts > 1 {
                    self.time.sleep.sleep(Retry::after_conflict(conflicts, place)).await;
                }
                round.seen.clear();
                self.tend(round).await?;
                self.handle(round, item).await?;
            }
            self.commit(round, Vec::new()).await?;
        }
        Ok(())
    }
}
