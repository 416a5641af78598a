//! When a world is over, and what it comes to: nothing may be left behind.

use std::collections::BTreeSet;

use lope_model::RunId;
use lope_store::runs::RunStatus;
use lope_store::tables::{Range, TableId};

use crate::process::Process;
use crate::report::{SimEnd, SimReport};
use crate::world::{FALLS_MAX, SimWorld, at_once};

/// After the faults have stopped every run must end within this time.
const PATIENCE: i64 = 240_000;
/// How long the world goes on after the last run has ended: long enough for anything left over to
/// show.
const AFTERMATH: i64 = 25_000;
/// Most requests of a process in a second, on average over a world: more means that it goes round
/// in circles.
const CALLS_MAX: f64 = 60.0;

impl SimWorld {
    /// Is there anything left to see?
    pub(crate) fn goes_on(&mut self) -> bool {
        if !self.checker.violations.is_empty() {
            return false;
        }
        if let Some(over_at) = self.over_at {
            return self.at < over_at + AFTERMATH;
        }
        if self.at >= self.setup.faults.until && self.clients == 0 && self.all_ended() {
            self.over_at = Some(self.at);
            self.points_until_over = Some(self.points);
        }
        if self.at > self.setup.faults.until + PATIENCE {
            self.blame_stranded();
            return false;
        }
        true
    }

    fn all_ended(&self) -> bool {
        let watched = self.checker.runs();
        let is_over = |run: &RunId| self.is_over(*run);
        self.ids.iter().all(is_over) && watched.iter().all(is_over)
    }

    /// It has ended, or is damaged and set aside.
    fn is_over(&self, run: RunId) -> bool {
        self.record(run).is_some_and(|record| match record.status {
            RunStatus::Final(_) => true,
            RunStatus::Live(_) => record.parked.is_some() && self.is_damaged(run),
        })
    }

    fn blame_stranded(&mut self) {
        for (run, job) in self.ids.clone().into_iter().zip(self.jobs.clone()) {
            if !self.is_over(run) {
                let record = self.record(run);
                let held: Vec<usize> = self.processes.iter().map(Process::resident).collect();
                self.checker.blame(format!(
                    "{run} ({}) is stranded; in memory {held:?}: {record:?}",
                    job.plan.name()
                ));
            }
        }
        if self.checker.violations.is_empty() {
            let waits = self.clients;
            self.checker.blame(format!(
                "a child is stranded, or one of {waits} clients has never got what it wants"
            ));
        }
    }

    pub(crate) fn report(mut self) -> SimReport {
        if self.checker.violations.is_empty() {
            self.look_back();
        }
        let end = |run: &RunId| self.record(*run).and_then(|record| SimEnd::of(&record));
        let jobs = self.ids.iter().zip(&self.jobs);
        let ends = jobs
            .map(|(run, job)| end(run).filter(|_| job.damaged_at.is_none()))
            .collect();
        SimReport {
            ends,
            violations: self.checker.violations,
            points: self.points,
            points_until_over: self.points_until_over.unwrap_or(self.points),
            fences: self.fences,
            lost_heard: self.lost_heard,
            refused: self.checker.refused,
            unanswered: self.unanswered,
            crashes: self.crashes,
            falls: self
                .falls
                .values()
                .map(|falls| (*falls).min(FALLS_MAX))
                .sum(),
            rows: self.checker.rows,
            calls: self.calls,
            stale_starts: self.checker.stale_starts,
            counts: self.counts,
            over_at: self.over_at.unwrap_or(self.at),
            trace: self.trace.into_lines(),
        }
    }

    /// When all is over: the store is sound, and no process keeps anything of what has ended.
    fn look_back(&mut self) {
        for run in self.checker.runs() {
            if let Some(record) = self.record(run) {
                self.checker.last_word(&record);
            }
        }
        for finding in at_once(self.store.upkeep.check()).expect("the memory store answers") {
            self.checker
                .blame(format!("the store is not sound: {finding:?}"));
        }
        self.blame_repeated_messages();
        for (run, job) in self.ids.iter().zip(&self.jobs) {
            let sent = job
                .mail
                .iter()
                .filter(|(_, kind)| kind.word() == "signal")
                .count();
            let arrived = self.checker.signals(*run);
            if arrived as usize > sent {
                self.checker
                    .violations
                    .push(format!("{run}: {arrived} signals of {sent} arrived"));
            }
        }
        let rate = self.calls as f64 * 1_000.0 / self.at as f64 / self.processes.len() as f64;
        if rate > CALLS_MAX {
            self.checker
                .blame(format!("{rate:.0} requests a second from each process"));
        }
        for process in self.processes.iter().filter(|process| process.up) {
            let slot = process.address.slot;
            let counted = process.session_machine.resident();
            let resident = process.resident();
            let held = process.held.len();
            let running = process.dispatcher.in_flight().max(process.working.len());
            if (resident, held, running, counted) != (0, 0, 0, 0) {
                self.checker.violations.push(format!(
                    "p{slot} keeps what has ended: {resident} in shards, {held} held, {running} in flight, {counted} counted"
                ));
            }
        }
    }

    /// A step that sends a message sends one, however often its run changes hands.
    fn blame_repeated_messages(&mut self) {
        let rows = at_once(self.store.tables.range(Range::whole(TableId::INBOX)));
        let mut seen = BTreeSet::new();
        for row in rows.expect("the memory store answers") {
            if !seen.insert(row.value.clone()) {
                let message = String::from_utf8_lossy(&row.value).into_owned();
                self.checker.blame(format!("{message}: sent twice"));
            }
        }
    }
}
