//! What a process does with attempts: slots, workers, their answers.

use std::sync::Arc;

use lope_engine::executor::{Task, TaskOutcome, Token};
use lope_engine::shard::ShardInput;
use lope_engine::slots::SlotCommand;
use lope_limits::{LimitVerdict, LimitWork};
use lope_model::{Failure, Value, failure};

use crate::checker::employer;
use crate::mutant::Mutant;
use crate::process::AtWork;
use crate::wire::{ProcessMessage, ProcessPart, shard_of};
use crate::world::{SimWorld, at_once};

/// How often what others hold is asked for.
const POLL: i64 = 500;
/// Longest silence of a worker that was told to stop.
const SILENT: i64 = 6_000;

impl SimWorld {
    pub(crate) fn submit(&mut self, slot: usize, task: Box<Task>) {
        let record = self.record(task.token.run);
        let at = self.at;
        self.trace
            .note(at, || format!("p{slot} starts {:?}", task.token));
        let process = &self.processes[slot];
        let shard = shard_of(task.token.run, process.shards.len());
        if process.drained.contains(&shard) {
            self.checker.blame(format!(
                "{:?}: starts though p{slot} shall start nothing more",
                task.token
            ));
        }
        let is_lost = process
            .held
            .get(&task.token.run)
            .is_some_and(|epoch| process.lost.contains(&(task.token.run, *epoch)));
        if is_lost {
            self.checker.blame(format!(
                "{:?}: starts though p{slot} was told that the run is lost",
                task.token
            ));
        }
        let session = process.owners[shard];
        let is_held = self.is_held(session);
        if !is_held && !self.stood_still(slot) {
            self.checker.blame(format!(
                "{:?}: p{slot} starts it though its lease is over",
                task.token
            ));
        }
        let is_unaware = self.taken_over.contains(&session) && self.stood_still(slot);
        self.checker
            .starts(session, &task, record.as_ref(), is_held && !is_unaware);
        if self.setup.mutant == Some(Mutant::AnnounceWhatWaits) {
            let token = task.token.clone();
            self.tell_shard(slot, token.run, ShardInput::Announce(token));
        }
        let process = &mut self.processes[slot];
        let mut commands = Vec::new();
        process
            .dispatcher
            .submit(process.moment(at), task, &mut commands);
        self.act(slot, commands);
    }

    /// Has any part of a process stood still within the last lease? Then it may not know yet what
    /// time it is.
    pub(crate) fn stood_still(&self, slot: usize) -> bool {
        let lease = i64::try_from(self.settings.lease.millis()).unwrap_or(i64::MAX);
        self.processes[slot]
            .still
            .values()
            .any(|until| until + lease > self.at)
    }

    pub(crate) fn settle(&mut self, slot: usize, outcome: TaskOutcome) {
        let at = self.at;
        let mut commands = Vec::new();
        let process = &mut self.processes[slot];
        process.working.remove(&outcome.token);
        let ran = process.dispatcher.settled(
            process.moment(at),
            &outcome.token,
            outcome.result.as_ref().ok(),
            &mut commands,
        );
        self.act(slot, commands);
        // What the dispatcher no longer knows must mean nothing to the shard either.
        if self.processes[slot].up
            && (ran.is_some() || self.dice.chance(self.faults().late_outcome))
        {
            self.tell_shard(slot, outcome.token.run, ShardInput::Outcome(outcome));
        }
    }

    pub(crate) fn act(&mut self, slot: usize, commands: Vec<SlotCommand>) {
        for act in commands {
            if self.crashes(slot) {
                return;
            }
            match act {
                SlotCommand::Start(task) => self.employ(slot, &task),
                SlotCommand::Stop { token, .. } => self.tell_worker_to_stop(slot, token),
                SlotCommand::Announce(token) => {
                    self.announcing.insert((
                        token.run,
                        Arc::clone(&token.execution),
                        token.attempt,
                    ));
                    self.tell_shard(slot, token.run, ShardInput::Announce(token));
                }
                SlotCommand::Return(token) => {
                    self.checker.did_not_start(&token);
                    self.tell_shard(slot, token.run, ShardInput::Returned(token));
                }
                SlotCommand::Overdue { .. } => {}
                SlotCommand::TimedOut { token, silent, ran } => {
                    let started_at = self.processes[slot].wall(self.at).minus(ran);
                    self.tell_shard(
                        slot,
                        token.run,
                        ShardInput::TimedOut {
                            token,
                            silent,
                            started_at,
                        },
                    );
                }
                SlotCommand::Ask(request) => {
                    self.turn_limits(slot, LimitWork::Request(*request));
                }
                SlotCommand::Release { end, .. } => self.turn_limits(slot, LimitWork::End(*end)),
                SlotCommand::Refuse {
                    token,
                    until,
                    reason,
                } => {
                    self.checker.did_not_start(&token);
                    self.tell_shard(
                        slot,
                        token.run,
                        ShardInput::Refused {
                            token,
                            until,
                            reason,
                        },
                    );
                }
                SlotCommand::Answer { token, result } => {
                    let outcome = TaskOutcome::new(token, result.map_err(|failure| *failure));
                    self.tell_shard(slot, outcome.token.run, ShardInput::Outcome(outcome));
                }
            }
        }
    }

    /// What an attempt asks of the limits, or gives back, at the store. The answer takes a while.
    fn turn_limits(&mut self, slot: usize, work: LimitWork) {
        let token = Token::of(work.attempt());
        if self.setup.mutant == Some(Mutant::GrantEverything) {
            return self.grant(slot, token, &work);
        }
        let process = &mut self.processes[slot];
        let now = process.wall(self.at);
        let session = process.session();
        let reply = at_once(process.limits.apply(now, session, vec![work]));
        for (_, verdict) in reply.done {
            let Some(verdict) = verdict else { continue };
            let takes = self.dice.between(0, 40);
            let is_held = matches!(verdict, LimitVerdict::Held(_));
            let verdict = ProcessMessage::Verdict(token.clone(), verdict);
            self.to(slot, takes, ProcessPart::Dispatcher, verdict);
            // After the verdict, also when both have to wait for a part that stands still.
            if is_held {
                self.to(
                    slot,
                    takes + POLL,
                    ProcessPart::Dispatcher,
                    ProcessMessage::AskAgain,
                );
            }
        }
    }

    /// Whatever is asked, without a look at what others hold.
    fn grant(&mut self, slot: usize, token: Token, work: &LimitWork) {
        if matches!(work, LimitWork::Request(_)) {
            let granted = LimitVerdict::Granted { inherited: false };
            let granted = ProcessMessage::Verdict(token, granted);
            self.to(slot, 1, ProcessPart::Dispatcher, granted);
        }
    }

    pub(crate) fn answered(&mut self, slot: usize, token: &Token, verdict: LimitVerdict) {
        let process = &mut self.processes[slot];
        let mut commands = Vec::new();
        let now = process.moment(self.at);
        process
            .dispatcher
            .answered(now, token, verdict, &mut commands);
        self.act(slot, commands);
    }

    pub(crate) fn ask_again(&mut self, slot: usize) {
        let process = &mut self.processes[slot];
        let mut commands = Vec::new();
        let now = process.moment(self.at);
        if process.dispatcher.ask_again(now, &mut commands) {
            self.to(
                slot,
                POLL,
                ProcessPart::Dispatcher,
                ProcessMessage::AskAgain,
            );
        }
        self.act(slot, commands);
    }

    /// Over all sessions whose leases are held, no more are at work under a key than may be.
    fn watch_key(&mut self, slot: usize, task: &Task) {
        let Some((key, most)) = &task.limits.keyed else {
            return;
        };
        let others =
            (0..self.processes.len()).filter(|other| *other != slot && self.processes[*other].up);
        let many = others
            .flat_map(|other| self.processes[other].working.values())
            .filter(|work| work.has_key(key) && self.is_held(work.session))
            .count();
        if many >= *most as usize {
            self.checker.blame(format!(
                "p{slot} begins {:?} under {key}, of which {many} are at work elsewhere and {most} may be",
                task.token
            ));
        }
    }

    /// A worker that is told to stop is silent for a while before it is gone, or answers in the
    /// meantime as if it had not heard.
    fn tell_worker_to_stop(&mut self, slot: usize, token: Token) {
        let silent = self.dice.between(0, SILENT);
        let gone = Failure::new(failure::kind::WORKER_LOST, "it was told to stop");
        if self.setup.mutant == Some(Mutant::FreeSlotsEarly) {
            let at = self.at;
            let mut commands = Vec::new();
            let process = &mut self.processes[slot];
            let now = process.moment(at);
            process.dispatcher.settled(now, &token, None, &mut commands);
            self.act(slot, commands);
        }
        self.to(
            slot,
            silent,
            ProcessPart::Dispatcher,
            ProcessMessage::Done(TaskOutcome::new(token, Err(gone))),
        );
    }

    /// May this task begin in this process, beside what is at work there?
    fn check_start(&mut self, slot: usize, task: &Task) {
        let process = &self.processes[slot];
        let session = process.owners[shard_of(task.token.run, process.shards.len())];
        if !self.is_held(session) {
            self.checker.blame(format!(
                "{:?}: p{slot} has it done though its lease is over",
                task.token
            ));
        }
        if self.checker.is_paused(task.token.run) {
            self.checker
                .blame(format!("{:?}: begins though its run is paused", task.token));
        }
        if task.limits.announced && !self.checker.is_announced(&task.token) {
            self.checker
                .blame(format!("{:?}: begins before that is durable", task.token));
        }
        self.watch_key(slot, task);
        let working = &mut self.processes[slot].working;
        let keyed = task.limits.keyed.clone();
        working.insert(task.token.clone(), AtWork { session, keyed });
        if let Some((key, most)) = &task.limits.keyed {
            let many = working.values().filter(|work| work.has_key(key)).count();
            if many > *most as usize {
                self.checker.blame(format!(
                    "p{slot} has {many} attempts at work under {key}, {most} may be"
                ));
            }
        }
        let many = working.len();
        let slots = self.settings.concurrency;
        if many > slots {
            self.checker.blame(format!(
                "p{slot} has {many} attempts at work in {slots} slots"
            ));
        }
    }

    /// A worker takes a task on and answers after a while, if it does.
    fn employ(&mut self, slot: usize, task: &Task) {
        self.check_start(slot, task);
        let failures = self.checker.failures(&task.token);
        let Some(result) = answer(&task.action, &task.arguments, failures) else {
            return;
        };
        let takes = if &*task.action == "slow" {
            self.dice.between(500, 9_000)
        } else {
            self.dice.between(0, 150)
        };
        let outcome = TaskOutcome {
            worker: Some(employer(task.token.epoch)),
            ..TaskOutcome::new(task.token.clone(), result)
        };
        self.answer_to_an_earlier_start(slot, takes, &outcome);
        if self.dice.chance(self.faults().twice) {
            let again = takes + self.dice.between(0, 3_000);
            self.to(
                slot,
                again,
                ProcessPart::Dispatcher,
                ProcessMessage::Done(outcome.clone()),
            );
        }
        if self.dice.chance(self.faults().late_outcome) {
            let late = takes + self.dice.between(0, 20_000);
            self.later(
                slot,
                late,
                ProcessPart::Dispatcher,
                ProcessMessage::Done(outcome.clone()),
            );
        }
        self.to(
            slot,
            takes,
            ProcessPart::Dispatcher,
            ProcessMessage::Done(outcome),
        );
    }

    /// An owner that did not get to write down what it did may have started the same attempt: that
    /// one's answer may come now.
    fn answer_to_an_earlier_start(&mut self, slot: usize, takes: i64, outcome: &TaskOutcome) {
        let token = &outcome.token;
        let attempt = (token.run, Arc::clone(&token.execution), token.attempt);
        let Some(earlier) = self.answers.insert(attempt, outcome.clone()) else {
            return;
        };
        if earlier.token.epoch != token.epoch && self.faults().late_outcome > 0 {
            let before = self.dice.between(0, takes);
            let number = shard_of(token.run, self.processes[slot].shards.len());
            self.to(
                slot,
                before,
                ProcessPart::Shard(number),
                ProcessMessage::Input(ShardInput::Outcome(earlier)),
            );
        }
    }
}

/// What a worker answers: `ok` and `slow` compute, `big` gives a large value, `flaky2` fails twice
/// first, `stuck1` never answers before it has failed once, `hang` never does, `bad_E` always fails
/// as `E`.
fn answer(action: &str, with: &Value, failures: u32) -> Option<Result<Value, Failure>> {
    let count = |prefix: &str| {
        action
            .strip_prefix(prefix)
            .and_then(|count| count.parse::<u32>().ok())
    };
    if action == "hang" || count("stuck").is_some_and(|count| failures < count) {
        return None;
    }
    if let Some(kind) = action.strip_prefix("bad_") {
        return Some(Err(Failure::new(kind, "always")));
    }
    if count("flaky").is_some_and(|count| failures < count) {
        return Some(Err(Failure::new("Flaky", "try again")));
    }
    let number = with.as_int().unwrap_or(-1);
    if action == "big" {
        return Some(Ok(Value::str("x".repeat(
            5_000 + usize::try_from(number.max(0)).unwrap_or_default(),
        ))));
    }
    Some(Ok(Value::Int((number * 7 + 3).rem_euclid(1_000))))
}
