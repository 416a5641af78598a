//! While a round is worked on: its task's lock is renewed, its runner gives signs of life, and what others
//! want is heard: a stop, a person's decision, a lock that was taken away.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use lope_agents::board::{BoardError, HeldTask};
use lope_agents::records::{AttemptRole, RunnerStatus, StopLevel, StopReason, TaskStatus};
use tokio::sync::watch;

use super::round_state::Round;
use super::{CHANGES_TOGETHER, StopWishes, TaskRunner};

impl TaskRunner {
    /// Keep a task until the future is dropped. Why its agent must end goes to `stop`.
    pub(super) async fn keep(
        &self,
        held: &mut HeldTask,
        round: &Round,
        stop: &watch::Sender<Option<StopReason>>,
        wishes: &mut StopWishes,
    ) -> Infallible {
        let mut changes = self.board.watch();
        let (mut renewed, mut next) = (Instant::now(), Instant::now());
        let mut is_asked = false;
        let end = |reason: StopReason| {
            stop.send_if_modified(|asked| {
                let is_new = asked.is_none();
                asked.get_or_insert(reason);
                is_new
            });
        };
        loop {
            changes.take();
            if !is_asked && *wishes.borrow() == Some(StopLevel::Drain) {
                is_asked = true;
                self.log.line(
                    "asked to stop: the task at work may end; asked again, its agent is stopped",
                );
            }
            if Instant::now() >= next {
                let began = Instant::now();
                match self.renewed(held).await {
                    Ok(true) => {
                        renewed = began;
                        round.renewed(began + self.bearable());
                    }
                    Ok(false) => end(StopReason::LostLock),
                    Err(error) => {
                        self.log
                            .line(&format!("the lock cannot be renewed: {error}"));
                        if renewed.elapsed() >= self.bearable() {
                            end(StopReason::LostLock);
                        }
                    }
                }
                next = Instant::now() + self.heartbeat();
            }
            if let Ok(Some(reason)) = self.wanted(held, round.role(), wishes).await {
                end(reason);
            }
            tokio::select! {
                () = changes.changed() => tokio::time::sleep(CHANGES_TOGETHER).await,
                () = tokio::time::sleep_until(next.into()) => {}
                _ = wishes.changed() => {}
            }
        }
    }

    /// Is the task still ours?
    async fn renewed(&self, held: &mut HeldTask) -> Result<bool, BoardError> {
        let task = held.task.id;
        let expiry = self.spec.lock_expiry;
        if self.board.renew(held, expiry).await?.is_err() {
            return Ok(false);
        }
        let beat = self
            .board
            .beat(self.spec.id, RunnerStatus::Running, Some(task));
        Ok(beat.await?.is_some())
    }

    /// How long a lock that is not renewed is surely still ours.
    pub(super) fn bearable(&self) -> Duration {
        let stale = self.equipment.settings.stale_timeout;
        self.spec.lock_expiry.min(stale).to_duration() / 5 * 4
    }

    /// Must the agent end, because somebody wants it?
    async fn wanted(
        &self,
        held: &HeldTask,
        role: AttemptRole,
        wishes: &StopWishes,
    ) -> Result<Option<StopReason>, BoardError> {
        let by_signal = *wishes.borrow();
        let runner = self.board.runner(&self.spec.id.to_string()).await?;
        let level = by_signal.max(runner.stop);
        if runner.completed_at.is_some() {
            return Ok(Some(StopReason::LostLock));
        }
        if level.is_some_and(|level| level >= StopLevel::Cancel) {
            return Ok(Some(StopReason::Drain));
        }
        let task = self.board.task(&held.task.id.to_string()).await?;
        if task.epoch != held.lock.epoch {
            return Ok(Some(StopReason::LostLock));
        }
        let is_expected = match role {
            AttemptRole::Work => task.status == TaskStatus::InProgress,
            // The role is told before the board is.
            AttemptRole::Review => {
                matches!(task.status, TaskStatus::Review | TaskStatus::InProgress)
            }
        };
        Ok((!is_expected).then_some(StopReason::Cancel))
    }
}
