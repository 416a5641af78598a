//! Committing what a batch staged, and what follows from the answers: successes are counted and
//! forwarded, conflicts are handled again with a fresh view, leases are given back.

use lope_store::StoreResult;
use lope_store::tables::{Applied, Batch, BatchReply, Conflict};

use super::Consumer;
use super::claim::PollSources;
use super::claimed_batch::{BatchInProgress, CommitKind, Disposition, Ticket};
use super::step::{DeadLetterNumber, FIRST_READ};
use crate::counters::Count;
use crate::error::{ConsumerError, HandlerError};
use crate::group::SettledStep;
use crate::law::retry::Retry;
use crate::trace::AttemptResult;

impl Consumer {
    /// Commit the batch. If more is waiting and the worker goes on, the next batch is claimed in
    /// the same call.
    pub(super) async fn finish(
        &mut self,
        progress: &mut BatchInProgress,
        ahead: bool,
    ) -> Result<(), ConsumerError> {
        let goes_on = ahead && progress.claimed.more && !self.stop.is_requested();
        let next = if goes_on {
            self.prepare(PollSources::Both, self.config.batch()).await?
        } else {
            None
        };
        let mut tail = self.take_closing();
        tail.extend(next.as_ref().map(|next| next.batch.clone()));
        let mut replies = self.commit(progress, tail).await?;
        if let Some(next) = next {
            self.ahead = self.claimed(next, replies.pop());
        }
        self.retry_conflicts(progress).await?;
        let emitted = std::mem::take(&mut progress.emitted);
        self.forward(emitted).await?;
        self.closing = progress
            .claimed
            .releases(self.config.worker, self.time.clock.moment());
        self.closing_epochs.push(progress.claimed.epoch);
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
        if let Some(claimed) = self.ahead.take() {
            self.closing
                .extend(claimed.releases(self.config.worker, self.time.clock.moment()));
            self.closing_epochs.push(claimed.epoch);
        }
        self.close().await
    }

    /// Stop for good: give back what is held; from now on the consumer answers busy.
    pub async fn shutdown(&mut self) -> StoreResult<()> {
        let result = self.let_go().await;
        self.state = super::BootState::Stopped(None);
        result
    }

    async fn commit(
        &mut self,
        progress: &mut BatchInProgress,
        tail: Vec<Batch>,
    ) -> Result<Vec<BatchReply>, ConsumerError> {
        let replies = progress.group.commit(tail).await?;
        // A dead letter whose number is taken is staged again under another one.
        while self.settle(progress) {
            progress.group.commit(Vec::new()).await?;
        }
        Ok(replies)
    }

    /// Take in the answers that are there. Answers whether something was staged again.
    fn settle(&mut self, progress: &mut BatchInProgress) -> bool {
        let mut again = false;
        for SettledStep { ticket, reply } in progress.group.take_settled() {
            match reply {
                Ok(applied) => self.succeeded(progress, ticket, applied),
                Err(conflict) => again |= self.conflicted(progress, ticket, &conflict),
            }
        }
        again
    }

    fn succeeded(&mut self, progress: &mut BatchInProgress, ticket: usize, applied: Applied) {
        let Ticket {
            item,
            kind,
            began,
            emitted,
        } = &mut progress.tickets[ticket];
        let item = *item;
        let emitted = std::mem::take(emitted);
        progress
            .emitted
            .extend(applied.appended.into_iter().zip(emitted));
        progress.claimed.items[item].disposition = Disposition::Done;
        let result = match kind {
            CommitKind::Handled => {
                self.counters.succeeded(began.elapsed());
                progress.tally.handled += 1;
                AttemptResult::Success
            }
            CommitKind::Duplicate => {
                self.counters.add(Count::Duplicate);
                progress.tally.duplicates += 1;
                AttemptResult::Duplicate
            }
            CommitKind::Dead { .. } => {
                self.counters.add(Count::DeadLetter);
                progress.tally.dead += 1;
                AttemptResult::Dead { reason: "" }
            }
        };
        match &progress.tickets[ticket].kind {
            CommitKind::Dead { reason } => {
                self.show_item(progress, item, AttemptResult::Dead { reason });
            }
            CommitKind::Handled | CommitKind::Duplicate => self.show_item(progress, item, result),
        }
    }

    /// A commit was refused. Answers whether something was staged again.
    fn conflicted(
        &mut self,
        progress: &mut BatchInProgress,
        ticket: usize,
        conflict: &Conflict,
    ) -> bool {
        let item = progress.tickets[ticket].item;
        match conflict.index {
            0 => {
                progress.claimed.leases[progress.claimed.items[item].lease_index].lost = true;
                self.counters.add(Count::Lost);
                self.show_item(progress, item, AttemptResult::Lost);
            }
            // Somebody dropped, cancelled or changed it: there is nothing left to acknowledge.
            1 => progress.claimed.items[item].disposition = Disposition::Gone,
            FIRST_READ.. => return self.read_changed(progress, ticket),
        }
        false
    }

    fn read_changed(&mut self, progress: &mut BatchInProgress, ticket: usize) -> bool {
        let Ticket { item, kind, .. } = &progress.tickets[ticket];
        let item = *item;
        if let CommitKind::Dead { reason } = kind {
            let reason = reason.clone();
            self.give_up(progress, item, reason, DeadLetterNumber::Free);
            return true;
        }
        self.counters.add(Count::Conflict);
        self.show_item(progress, item, AttemptResult::Conflict);
        progress.conflicted.push_back(item);
        false
    }

    /// Handle again, one by one, what met a change. Each time a little later, until that counts as
    /// a failed attempt.
    async fn retry_conflicts(
        &mut self,
        progress: &mut BatchInProgress,
    ) -> Result<(), ConsumerError> {
        while let Some(item) = progress.conflicted.pop_front() {
            let shown = &mut progress.claimed.items[item];
            shown.conflicts += 1;
            shown.disposition = Disposition::Waiting;
            let (conflicts, position) = (shown.conflicts, shown.position);
            if self.stop.is_requested() {
                continue;
            }
            if conflicts > self.config.retry.conflicts {
                let error = HandlerError::Conflict(format!(
                    "what it read was changed by others {conflicts} times"
                ));
                self.refused(progress, item, &error)?;
            } else {
                // The first conflict is most often with a step of the same batch that was refused
                // itself.
                if conflicts > 1 {
                    self.time
                        .sleep
                        .sleep(Retry::after_conflict(conflicts, position))
                        .await;
                }
                progress.seen.clear();
                self.commit_and_renew(progress).await?;
                self.handle(progress, item).await?;
            }
            self.commit(progress, Vec::new()).await?;
        }
        Ok(())
    }
}
