//! Attempts that have not begun: given back when their run is paused or leaves, and brought again when
//! it goes on.

use std::sync::Arc;

use lope_flow::law::{Effect, EventKind};
use lope_model::{Epoch, Timestamp};

use super::ShardOutput;
use super::after_commit::AfterCommit;
use super::resident::Resident;
use crate::executor::Token;

impl Resident {
    /// An attempt was given back by whoever should have begun it. If the run goes on meanwhile, it is
    /// wanted again.
    pub(super) fn take_back(&mut self, now: Timestamp, token: &Token, drains: bool) {
        if let Some(epoch) = self.attempts.remove(token) {
            self.give_back(now, &token.execution, token.attempt, epoch);
            if !drains && self.state.paused().is_none() {
                self.start_given_back();
            }
        }
    }

    /// What a pause or its end means to attempts that have not begun. A pause is told at once, its end
    /// when that is durable: until then nothing begins.
    pub(super) fn tell_pause(&mut self, out: &mut Vec<ShardOutput>) {
        let is_paused = self.state.paused().is_some();
        let was_paused = std::mem::replace(&mut self.was_paused, is_paused);
        if is_paused && !std::mem::replace(&mut self.pause_told, true) {
            out.push(ShardOutput::Pause(self.run, true));
        }
        if was_paused && !is_paused {
            self.uncommitted.effects.push(AfterCommit::GoOn);
            self.start_given_back();
        }
    }

    /// It goes on, unless it was paused again meanwhile. One that leaves is not paused here: whoever
    /// has it next says so for itself.
    pub(super) fn tell_going_on(&mut self, out: &mut Vec<ShardOutput>) {
        if std::mem::replace(&mut self.pause_told, false) {
            out.push(ShardOutput::Pause(self.run, false));
        }
    }

    fn start_given_back(&mut self) {
        let given_back = std::mem::take(&mut self.given_back);
        let mut wanted = self.state.outstanding(&self.plan);
        wanted.retain(|effect| matches!(effect, Effect::Dispatch(it) if given_back.contains(&(Arc::clone(&it.execution), it.attempt))));
        self.follow(wanted);
    }

    /// What waits to be started will not be, under this owner.
    pub(super) fn give_back_starts(&mut self, now: Timestamp) {
        let effects = std::mem::take(&mut self.uncommitted.effects);
        for effect in effects {
            match effect {
                AfterCommit::Start(it) => {
                    self.give_back(now, &it.execution, it.attempt, it.epoch);
                }
                other => self.uncommitted.effects.push(other),
            }
        }
    }

    /// Whoever takes the run up next knows that this attempt has not begun. Laws before the third
    /// have no word for it.
    fn give_back(&mut self, now: Timestamp, execution: &Arc<str>, attempt: u32, epoch: Epoch) {
        self.given_back.push((Arc::clone(execution), attempt));
        if self.state.law() >= 3 {
            self.fold(
                now,
                EventKind::Returned {
                    execution: Arc::clone(execution),
                    attempt,
                    epoch,
                },
            );
        }
    }
}
