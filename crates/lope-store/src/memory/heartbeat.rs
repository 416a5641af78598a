//! `register` and `heartbeat`: sessions begin and go on; what a runner owns, and who there is.

use std::cmp::Reverse;
use std::ops::Bound;

use lope_model::{Moment, RunId, RunnerId, limit};

use super::session::Session;
use super::state::RunState;
use crate::clock::Reading;
use crate::runs::{
    Beat, ClaimedRun, Mail, Register, RunnerRecord, Serves, SessionLost, SessionResult,
};

impl RunState {
    pub(super) fn register(&mut self, register: Register, reading: Reading) -> Beat {
        let runner = register.runner;
        let (session, beat) = Session::begin(register, reading);
        self.sessions.insert(runner, session);
        self.open_sessions.insert(runner);
        beat
    }

    pub(super) fn heartbeat(&mut self, runner: RunnerId, reading: Reading) -> SessionResult<Beat> {
        let session = self
            .sessions
            .get_mut(&runner)
            .filter(|session| session.is_held(reading.moment));
        session
            .map(|session| session.beat(reading))
            .ok_or(SessionLost)
    }

    pub(super) fn announce(
        &mut self,
        runner: RunnerId,
        serves: Serves,
        reading: Reading,
    ) -> SessionResult<()> {
        let session = self
            .sessions
            .get_mut(&runner)
            .filter(|session| session.is_held(reading.moment));
        session
            .map(|session| session.announce(serves))
            .ok_or(SessionLost)
    }

    pub(super) fn owned(
        &self,
        runner: RunnerId,
        after: Option<RunId>,
        limit: usize,
    ) -> Vec<ClaimedRun> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let runs = self
            .queue_index
            .holding(runner)
            .into_iter()
            .flat_map(|held| held.runs.range((from, Bound::Unbounded)));
        let entries = runs.filter_map(|run| self.runs.get(run));
        entries
            .take(limit.min(limit::PAGE_MAX))
            .map(|entry| entry.claimed())
            .collect()
    }

    pub(super) fn waiting(&self, runner: RunnerId, limit: usize) -> Vec<(RunId, Vec<Mail>)> {
        let runs = self
            .queue_index
            .holding(runner)
            .into_iter()
            .flat_map(|holding| &holding.mailed);
        let entries = runs.filter_map(|run| self.runs.get(run));
        entries
            .take(limit.min(limit::PAGE_MAX))
            .map(|entry| (entry.run(), entry.mail()))
            .collect()
    }

    pub(super) fn live(&self, runners: &[RunnerId], moment: Moment) -> Vec<bool> {
        let session = |runner| self.sessions.get(runner);
        let is_live = |runner| session(runner).is_some_and(|session| session.is_held(moment));
        runners.iter().map(is_live).collect()
    }

    pub(super) fn runners(&self, limit: usize, moment: Moment) -> Vec<RunnerRecord> {
        let owns = |runner| {
            self.queue_index
                .holding(runner)
                .map_or(0, |holding| holding.runs.len() as u64)
        };
        let records = self
            .sessions
            .iter()
            .map(|(runner, session)| session.record(moment, owns(*runner)));
        let mut runners: Vec<RunnerRecord> = records.collect();
        runners.sort_by_key(|runner| Reverse((runner.started_at, runner.runner)));
        runners.truncate(limit.min(limit::PAGE_MAX));
        runners
    }
}
