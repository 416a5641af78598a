//! While a round is worked on: its task's lock is renewed, its runner gives signs of life, and what others
//! want is heard: a stop, a person's decision, a lock that was taken away.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use lope_agents::board::{BoardError, HeldTask};
use lope_agents::records::{AttemptRole, StopLevel, StopReason, TaskStatus};
use lope_model::Span;
use tokio::sync::watch;
use tokio::time::timeout_at;

use super::round_state::Round;
use super::{CHANGES_TOGETHER, StopWishes, TaskRunner};

/// A lock that is kept.
struct KeptLock {
    renewed: Instant,
    /// When it is renewed again.
    next: Instant,
}

impl TaskRunner {
    /// Keep a task until the future is dropped. Why its agent must end goes to `stop`. However long the
    /// store takes to answer, its agent ends before the lock may be another's.
    pub(super) async fn keep(
        &self,
        held: &mut HeldTask,
        round: &Round,
        stop: &watch::Sender<Option<StopReason>>,
        wishes: &mut StopWishes,
    ) -> Infallible {
        let mut changes = self.board.watch();
        let now = Instant::now();
        let mut kept = KeptLock {
            renewed: now,
            next: now,
        };
        let mut is_told = false;
        let end = |reason: StopReason| {
            stop.send_if_modified(|asked| {
                let is_new = asked.is_none();
                asked.get_or_insert(reason);
                is_new
            });
        };
        loop {
            changes.take();
            if !is_told && *wishes.borrow() == Some(StopLevel::Drain) {
                is_told = true;
                self.log.line(
                    "asked to stop: the task at work may end; asked again, its agent is stopped",
                );
            }
            if Instant::now() >= kept.next && !self.is_kept(&mut kept, held, round).await {
                end(StopReason::LostLock);
            }
            let ours = kept.renewed + self.bearable();
            let wanted = timeout_at(ours.into(), self.wanted(held, round, wishes));
            if let Ok(Ok(Some(reason))) = wanted.await {
                end(reason);
            }
            tokio::select! {
                () = changes.changed() => tokio::time::sleep(CHANGES_TOGETHER).await,
                () = tokio::time::sleep_until(kept.next.into()) => {}
                _ = wishes.changed() => {}
            }
        }
    }

    /// Renew a lock. False: it is another's, or may soon be.
    async fn is_kept(&self, kept: &mut KeptLock, held: &mut HeldTask, round: &Round) -> bool {
        let began = Instant::now();
        let ours = kept.renewed + self.bearable();
        let renewed = timeout_at(ours.into(), self.renewed(held)).await;
        let now = Instant::now();
        kept.next = now + self.heartbeat();
        let why = match renewed {
            Ok(Ok(true)) => {
                kept.renewed = began;
                round.renewed(began + self.bearable());
                return true;
            }
            Ok(Ok(false)) => return false,
            Ok(Err(error)) => error.to_string(),
            Err(_) => unanswered(kept.renewed, began, ours),
        };
        self.log.line(&format!("the lock cannot be renewed: {why}"));
        if now < ours {
            kept.next = ours.min(now + self.heartbeat() / 4);
        }
        now < ours
    }

    /// Is the task still ours?
    async fn renewed(&self, held: &mut HeldTask) -> Result<bool, BoardError> {
        let renewed = self.board.renew(held, self.spec.lock_expiry).await?;
        Ok(renewed.is_ok())
    }

    /// How long a lock that is not renewed is surely still ours.
    pub(super) fn bearable(&self) -> Duration {
        let stale = self.equipment.settings.stale_timeout;
        self.spec.lock_expiry.min(stale).to_duration() / 5 * 4
    }

    /// Must the round end now, because somebody wants it?
    async fn wanted(
        &self,
        held: &HeldTask,
        round: &Round,
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
        if level.is_some() {
            round.drain();
        }
        let task = self.board.task(&held.task.id.to_string()).await?;
        if task.epoch != held.lock.epoch {
            return Ok(Some(StopReason::LostLock));
        }
        let is_expected = match round.role() {
            AttemptRole::Work => task.status == TaskStatus::InProgress,
            // The role is told before the board is.
            AttemptRole::Review => {
                matches!(task.status, TaskStatus::Review | TaskStatus::InProgress)
            }
        };
        Ok((!is_expected).then_some(StopReason::Cancel))
    }
}

/// Why nothing was heard of a lock while it was surely ours. Whoever was held up himself longer than that
/// says nothing of the store.
fn unanswered(renewed: Instant, asked: Instant, ours: Instant) -> String {
    if asked < ours {
        return "the store does not answer".to_owned();
    }
    let still = Span::from_millis(asked.duration_since(renewed).as_millis() as u64);
    format!("this process stood still, last renewed it {still} ago, and it may be another's now")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "SIGSTOP a holder past its lease": what comes of it is no fault of the store.
    #[test]
    fn who_stood_still_does_not_accuse_the_store() {
        let renewed = Instant::now();
        let after = |seconds| renewed + Duration::from_secs(seconds);
        let told = unanswered(renewed, after(1), after(3));
        assert_eq!(told, "the store does not answer");
        let told = unanswered(renewed, after(7), after(3));
        let words = "this process stood still, last renewed it 7s ago, and it may be another's now";
        assert_eq!(told, words);
    }
}
