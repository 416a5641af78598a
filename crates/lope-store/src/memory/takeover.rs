//! `takeover` and `release`: sessions end, and their runs go back to the queue, due now, with a
//! higher epoch.

use lope_model::{RunId, RunnerId, Timestamp};

use super::state::RunState;
use crate::clock::Reading;
use crate::runs::{TakenOver, Takeover};

impl RunState {
    /// End what has expired, then put back runs of ended sessions, up to the limit.
    pub(super) fn takeover(&mut self, takeover: Takeover, reading: Reading) -> TakenOver {
        let expired = |runner: &&RunnerId| !self.is_held(**runner, reading.moment);
        let ended: Vec<RunnerId> = self.open_sessions.iter().filter(expired).copied().collect();
        for runner in &ended {
            self.end_session(*runner, reading.now);
        }
        let orphans = self.orphans(takeover.limit);
        for run in &orphans {
            self.put_back(*run, reading.now);
        }
        let more = !self.orphans(1).is_empty();
        TakenOver {
            ended,
            runs: orphans.len() as u64,
            more,
        }
    }

    /// Runs whose owner's session has ended.
    fn orphans(&self, limit: usize) -> Vec<RunId> {
        let ownerless = self
            .queue_index
            .owners()
            .filter(|(owner, _)| !self.open_sessions.contains(owner));
        ownerless
            .flat_map(|(_, holding)| holding.runs.iter().copied())
            .take(limit)
            .collect()
    }

    pub(super) fn release(&mut self, runner: RunnerId, now: Timestamp) -> u64 {
        self.end_session(runner, now);
        let held = self
            .queue_index
            .holding(runner)
            .into_iter()
            .flat_map(|holding| holding.runs.iter().copied());
        let held: Vec<RunId> = held.collect();
        for run in &held {
            self.put_back(*run, now);
        }
        held.len() as u64
    }

    fn end_session(&mut self, runner: RunnerId, now: Timestamp) {
        self.open_sessions.remove(&runner);
        if let Some(session) = self.sessions.get_mut(&runner) {
            session.end(now);
        }
    }

    fn put_back(&mut self, run: RunId, now: Timestamp) {
        self.change(run, |entry| {
            entry.hand_to(None);
            entry.record.due = Some(now);
        });
    }
}
