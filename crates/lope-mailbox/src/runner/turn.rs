//! Turns: claim a batch and work it off, once or again and again.

use std::sync::Arc;

use super::claim::Lanes;
use super::hand::Tally;
use super::{Runner, State};
use crate::error::RunnerError;
use crate::group::Group;
use crate::limit;

impl Runner {
    /// Take up to `batch` messages from the inbox, oldest first, and handle them.
    pub async fn poll_inbox(&mut self, batch: usize) -> Result<Tally, RunnerError> {
        self.poll(Lanes::Inbox, batch).await
    }

    /// Take up to `batch` due timers, earliest first, and handle them.
    pub async fn poll_timers(&mut self, batch: usize) -> Result<Tally, RunnerError> {
        self.poll(Lanes::Timers, batch).await
    }

    /// Handle up to `max_batch` messages: the inbox first, then due timers. Leases are given back before this returns.
    pub async fn tick(&mut self) -> Result<Tally, RunnerError> {
        self.poll(Lanes::Both, self.config.batch()).await
    }

    async fn poll(&mut self, lanes: Lanes, batch: usize) -> Result<Tally, RunnerError> {
        let tally = self.turn(lanes, batch, false).await?;
        self.close().await?;
        Ok(tally)
    }

    /// A tick of a worker that goes on ticking: the next batch is claimed with the commit of this one, and leases are given
    /// back with the next commit.
    pub(crate) async fn tick_on(&mut self) -> Result<Tally, RunnerError> {
        self.turn(Lanes::Both, self.config.batch(), true).await
    }

    async fn turn(&mut self, lanes: Lanes, batch: usize, ahead: bool) -> Result<Tally, RunnerError> {
        if matches!(self.state, State::Stopped(_)) {
            return Err(RunnerError::Busy);
        }
        let result = self.try_turn(lanes, batch.clamp(1, limit::BATCH_MAX), ahead).await;
        if result.is_err() {
            self.forget();
        }
        result
    }

    async fn try_turn(&mut self, lanes: Lanes, batch: usize, ahead: bool) -> Result<Tally, RunnerError> {
        if self.stop.is_requested() {
            return Ok(Tally::default());
        }
        let hand = match self.ahead.take() {
            Some(hand) => Some(hand),
            None => self.claim(lanes, batch).await?,
        };
        match hand {
            Some(hand) => self.work(hand, ahead).await,
            None => Ok(Tally { busy: self.busy, ..Tally::default() }),
        }
    }

    /// Nothing is certain after a store that did not answer: what was in hand is claimed again.
    fn forget(&mut self) {
        self.in_hand.clear();
        self.closing.clear();
        self.closing_epochs.clear();
        self.ahead = None;
        self.inbox_floor.reset();
        self.timer_floor.reset();
    }

    pub(super) fn new_group(&self) -> Option<Arc<Group>> {
        Some(Arc::new(Group::new(Arc::clone(&self.tables), self.manifest()?)))
    }
}
