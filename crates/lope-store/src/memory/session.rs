//! Sessions: register, heartbeat, takeover, release, and what a runner owns.

use std::ops::Bound;

use lope_model::{Moment, RunId, RunnerId, Span, Timestamp, limit};

use super::admit::Reading;
use super::state::RunState;
use crate::runs::{Beat, ClaimedRun, Held, Mail, Register, RunnerRecord, SessionLost, TakenOver, Takeover};

#[derive(Debug)]
pub(super) struct Session {
    register: Register,
    started_at: Timestamp,
    heartbeat_at: Timestamp,
    expires: Moment,
    ended_at: Option<Timestamp>,
}

impl Session {
    fn lease(&self) -> Span {
        self.register.lease
    }

    fn is_held(&self, moment: Moment) -> bool {
        self.ended_at.is_none() && moment < self.expires
    }

    fn beat(&mut self, reading: Reading) -> Beat {
        self.heartbeat_at = reading.now;
        self.expires = reading.moment.plus(self.lease());
        Beat { now: reading.now, moment: reading.moment, expires: self.expires }
    }
}

impl RunState {
    pub(super) fn is_held(&self, runner: RunnerId, moment: Moment) -> bool {
        self.sessions.get(&runner).is_some_and(|session| session.is_held(moment))
    }

    pub(super) fn register(&mut self, register: Register, reading: Reading) -> Beat {
        let runner = register.runner;
        let Reading { now, moment } = reading;
        let mut session = Session { register, started_at: now, heartbeat_at: now, expires: moment, ended_at: None };
        let beat = session.beat(reading);
        self.sessions.insert(runner, session);
        self.open_sessions.insert(runner);
        beat
    }

    pub(super) fn heartbeat(&mut self, runner: RunnerId, reading: Reading) -> Held<Beat> {
        let session = self.sessions.get_mut(&runner).filter(|session| session.is_held(reading.moment));
        session.map(|session| session.beat(reading)).ok_or(SessionLost)
    }

    /// End what has expired, then put back runs of ended sessions, up to the limit.
    pub(super) fn takeover(&mut self, takeover: Takeover, reading: Reading) -> TakenOver {
        let expired = |runner: &&RunnerId| !self.is_held(**runner, reading.moment);
        let ended: Vec<RunnerId> = self.open_sessions.iter().filter(expired).copied().collect();
        for runner in &ended {
            self.end_session(*runner, reading.now);
        }
        let left = self.orphans(takeover.limit);
        for run in &left {
            self.put_back(*run, reading.now);
        }
        let more = !self.orphans(1).is_empty();
        TakenOver { ended, runs: left.len() as u64, more }
    }

    /// Runs whose owner's session has ended.
    fn orphans(&self, limit: usize) -> Vec<RunId> {
        let ownerless = self.places.owners().filter(|(owner, _)| !self.open_sessions.contains(owner));
        ownerless.flat_map(|(_, holding)| holding.runs.iter().copied()).take(limit).collect()
    }

    pub(super) fn release(&mut self, runner: RunnerId, now: Timestamp) -> u64 {
        self.end_session(runner, now);
        let held: Vec<RunId> =
            self.places.holding(runner).iter().flat_map(|holding| holding.runs.iter().copied()).collect();
        for run in &held {
            self.put_back(*run, now);
        }
        held.len() as u64
    }

    fn end_session(&mut self, runner: RunnerId, now: Timestamp) {
        self.open_sessions.remove(&runner);
        if let Some(session) = self.sessions.get_mut(&runner) {
            session.ended_at.get_or_insert(now);
        }
    }

    fn put_back(&mut self, run: RunId, now: Timestamp) {
        self.change(run, |entry| {
            entry.hand_to(None);
            entry.record.due = Some(now);
        });
    }

    pub(super) fn owned(&self, runner: RunnerId, after: Option<RunId>, limit: usize) -> Vec<ClaimedRun> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let runs = self.places.holding(runner).into_iter().flat_map(|held| held.runs.range((from, Bound::Unbounded)));
        let entries = runs.filter_map(|run| self.runs.get(run));
        entries.take(limit.min(limit::PAGE_MAX)).map(|entry| entry.claimed()).collect()
    }

    pub(super) fn waiting(&self, runner: RunnerId, limit: usize) -> Vec<(RunId, Vec<Mail>)> {
        let runs = self.places.holding(runner).into_iter().flat_map(|holding| &holding.mailed);
        let entries = runs.filter_map(|run| self.runs.get(run));
        entries.take(limit.min(limit::PAGE_MAX)).map(|entry| (entry.run(), entry.mail())).collect()
    }

    pub(super) fn runners(&self, limit: usize, moment: Moment) -> Vec<RunnerRecord> {
        let mut runners: Vec<_> = self.sessions.values().map(|session| self.runner(session, moment)).collect();
        runners.sort_by_key(|runner| std::cmp::Reverse((runner.started_at, runner.runner)));
        runners.truncate(limit.min(limit::PAGE_MAX));
        runners
    }

    fn runner(&self, session: &Session, moment: Moment) -> RunnerRecord {
        let Register { runner, name, host, pid, program, .. } = session.register.clone();
        RunnerRecord {
            runner,
            name,
            host,
            pid,
            program,
            started_at: session.started_at,
            heartbeat_at: session.heartbeat_at,
            live: session.is_held(moment),
            ended_at: session.ended_at,
            owns: self.places.holding(runner).map_or(0, |holding| holding.runs.len() as u64),
        }
    }
}
