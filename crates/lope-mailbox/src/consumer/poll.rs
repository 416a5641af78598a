//! Turns: claim a batch and work it off, once or again and again.

use std::sync::Arc;

use super::claim::PollSources;
use super::claimed_batch::Tally;
use super::{BootState, Consumer};
use crate::error::ConsumerError;
use crate::group::CommitGroup;
use crate::limit;

impl Consumer {
    /// Take up to `batch` messages from the inbox, oldest first, and handle them.
    pub async fn poll_inbox(&mut self, batch: usize) -> Result<Tally, ConsumerError> {
        self.poll(PollSources::Inbox, batch).await
    }

    /// Take up to `batch` due timers, earliest first, and handle them.
    pub async fn poll_timers(&mut self, batch: usize) -> Result<Tally, ConsumerError> {
        self.poll(PollSources::Timers, batch).await
    }

    /// Handle up to `max_batch` messages: the inbox first, then due timers. Leases are given back
    /// before this returns.
    pub async fn tick(&mut self) -> Result<Tally, ConsumerError> {
        self.poll(PollSources::Both, self.config.batch()).await
    }

    async fn poll(&mut self, sources: PollSources, batch: usize) -> Result<Tally, ConsumerError> {
        let tally = self.handle_next(sources, batch, false).await?;
        self.close().await?;
        Ok(tally)
    }

    /// A tick of a worker that goes on ticking: the next batch is claimed with the commit of this
    /// one, and leases are given back with the next commit.
    pub(crate) async fn tick_on(&mut self) -> Result<Tally, ConsumerError> {
        self.handle_next(PollSources::Both, self.config.batch(), true)
            .await
    }

    async fn handle_next(
        &mut self,
        sources: PollSources,
        batch: usize,
        ahead: bool,
    ) -> Result<Tally, ConsumerError> {
        if matches!(self.state, BootState::Stopped(_)) {
            return Err(ConsumerError::Busy);
        }
        let result = self
            .try_handle_next(sources, batch.clamp(1, limit::BATCH_MAX), ahead)
            .await;
        if result.is_err() {
            self.forget();
        }
        result
    }

    async fn try_handle_next(
        &mut self,
        sources: PollSources,
        batch: usize,
        ahead: bool,
    ) -> Result<Tally, ConsumerError> {
        if self.stop.is_requested() {
            return Ok(Tally::default());
        }
        let claimed = match self.ahead.take() {
            Some(claimed) => Some(claimed),
            None => self.claim(sources, batch).await?,
        };
        match claimed {
            Some(claimed) => self.handle_batch(claimed, ahead).await,
            None => Ok(Tally {
                busy: self.busy,
                ..Tally::default()
            }),
        }
    }

    /// Nothing is certain after a store that did not answer: what was in hand is claimed again.
    fn forget(&mut self) {
        self.claimed_epochs.clear();
        self.closing.clear();
        self.closing_epochs.clear();
        self.ahead = None;
        self.inbox_cursor.reset();
        self.timer_cursor.reset();
    }

    pub(super) fn new_group(&self) -> Option<Arc<CommitGroup>> {
        Some(Arc::new(CommitGroup::new(
            Arc::clone(&self.tables),
            self.manifest()?,
        )))
    }
}
