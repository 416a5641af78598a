//! Halting: a run that fails keeps what it had, so that a retry goes on at the step that failed;
//! and the events that put work which was under way back to its start: a new owner, a retry, a
//! fork.

use std::sync::Arc;

use lope_definition::{OnError, StepKind};
use lope_model::{Epoch, Failure, RunId};

use super::arena::Key;
use super::effect::Effect;
use super::event::Settled;
use super::machine::Machine;
use super::start::Spot;
use super::state::{BlockStepState, Halted, Life, Phase, TryPhase, Work, WorkItem};
use super::trace::Mark;
use super::try_step::handler_for;

impl<'a> Machine<'a> {
    /// Would this failure, raised in this block, end the run with nothing left to run? Then the run
    /// can stop as it is.
    pub(crate) fn can_halt(&self, act: Key, failure: &Failure) -> bool {
        if self.is_open() || self.state.life != Life::Live || self.state.guards > 0 {
            return false;
        }
        let mut key = act;
        while let Some((exec, open)) = self.holder(key) {
            let Some(step) = self.planned(open.act, open.step) else {
                return false;
            };
            let spot = Spot {
                act: open.act,
                index: open.step,
                step,
            };
            let in_body = matches!(&open.work, Work::Try(held) if held.phase == TryPhase::Body);
            if catches(&step.kind, in_body, failure) || self.forgives(spot) || self.is_decided(exec)
            {
                return false;
            }
            key = open.act;
        }
        true
    }

    fn holder(&self, act: Key) -> Option<(Key, &super::state::Exec)> {
        let exec = self.state.acts.get(act)?.parent?;
        Some((exec, self.state.execs.get(exec)?))
    }

    /// The executions that hold a block, from the inside out: what fails in it fails in them.
    fn executions_around(&self, mut act: Key) -> Vec<Key> {
        let mut around = Vec::new();
        while let Some((exec, open)) = self.holder(act) {
            around.push(exec);
            act = open.act;
        }
        around
    }

    /// Is the end of an execution settled already, so that failures in it no longer matter?
    fn is_decided(&self, exec: Key) -> bool {
        let Some(open) = self.state.execs.get(exec) else {
            return true;
        };
        let leaving = self
            .state
            .acts
            .get(open.act)
            .is_none_or(|act| act.exit.is_some());
        let ending = match &open.work {
            Work::Each(each) => each.ending.is_some(),
            Work::Race(branches) | Work::All(branches) => branches.ending.is_some(),
            Work::Attempt(_) | Work::Send(_) | Work::Sleep(_) | Work::Wait(_) | Work::Turn(_) => {
                false
            }
            Work::Block(_) | Work::While(_) | Work::Try(_) => false,
        };
        leaving || ending
    }

    /// The run fails at this step and stays as it is.
    pub(crate) fn halt(&mut self, spot: Spot<'a>, failure: Failure, attempts: u32) {
        if let Some(act) = self.state.acts.get_mut(spot.act) {
            act.steps[spot.index as usize].state = BlockStepState::Waiting;
        }
        let live: Vec<Key> = self.state.execs.iter().map(|(key, _)| key).collect();
        let (around, beside): (Vec<Key>, Vec<Key>) = {
            let around = self.executions_around(spot.act);
            live.iter().partition(|exec| around.contains(exec))
        };
        self.mark_all(&beside, &Mark::Cancelled);
        self.mark_all(&around, &Mark::Failed(failure.clone()));
        for exec in live {
            self.suspend(exec);
        }
        let tasks = std::mem::take(&mut self.state.tasks);
        self.state.halted = Some(Halted {
            step: Some((spot.act, spot.index)),
            attempts,
            tasks,
            fed: None,
        });
        let inputs: Vec<Arc<str>> = self
            .state
            .inputs
            .values()
            .map(|input| Arc::clone(&input.fed.id))
            .collect();
        for input in inputs {
            self.emit(Effect::InputSettled {
                input,
                result: Settled::failed(failure.clone()),
            });
        }
        self.end_run(Life::Failed(Box::new(failure)));
    }

    /// Stops what an execution has under way; `go_on` starts it again.
    fn suspend(&mut self, key: Key) {
        self.stop(key);
        let Some(exec) = self.state.execs.get_mut(key) else {
            return;
        };
        match &mut exec.work {
            Work::Attempt(attempt) => {
                // A detached child that is on its way stays the same one: it is started once.
                attempt.number += u32::from(attempt.in_flight() && attempt.detached().is_none());
                attempt.phase = Phase::Suspended;
            }
            Work::Sleep(sleeping) => sleeping.timer = None,
            Work::Wait(waiting) => waiting.timer = None,
            Work::Send(_) | Work::Turn(_) | Work::Block(_) | Work::Each(_) | Work::While(_) => {}
            Work::Try(_) | Work::Race(_) | Work::All(_) => {}
        }
    }

    fn go_on(&mut self, key: Key) {
        let Some(exec) = self.state.execs.get_mut(key) else {
            return;
        };
        match &mut exec.work {
            Work::Attempt(_) => self.make_ready(key),
            Work::Send(sending) => {
                let ready_key = sending.ready_key;
                self.state.outgoing.insert(ready_key, key);
            }
            Work::Sleep(sleeping) => {
                let until = sleeping.until;
                let timer = self.set_timer(key, until);
                if let Some(Work::Sleep(sleeping)) =
                    self.state.execs.get_mut(key).map(|exec| &mut exec.work)
                {
                    sleeping.timer = Some(timer);
                }
            }
            Work::Wait(_) => self.await_signal(key),
            Work::Turn(turn) => {
                let turn = *turn;
                self.state.turns.insert(turn, key);
                self.enqueue(WorkItem::Turns { top: turn.0 });
            }
            Work::Block(_)
            | Work::Each(_)
            | Work::While(_)
            | Work::Try(_)
            | Work::Race(_)
            | Work::All(_) => {}
        }
    }

    /// A failed run goes on: the step that failed is opened again, and what was stopped with it
    /// starts anew.
    pub(crate) fn retry(&mut self, epoch: Epoch) {
        let Some(halted) = self.state.halted.take() else {
            return;
        };
        self.state.epoch = epoch;
        self.state.life = Life::Live;
        if let Some(run) = &mut self.state.run {
            run.attempt += 1;
        }
        self.state.rebuild();
        if let Some(fed) = halted.fed {
            return self.begin_input(0, fed);
        }
        let live: Vec<Key> = self.state.execs.iter().map(|(key, _)| key).collect();
        self.mark_all(&live, &Mark::Opened);
        for exec in live {
            self.go_on(exec);
        }
        let Halted {
            step,
            attempts,
            mut tasks,
            ..
        } = halted;
        if let Some((act, step)) = step {
            self.state.resumed = Some((act, step, attempts));
            tasks.push_front(WorkItem::Open { act, step });
        }
        tasks.append(&mut std::mem::take(&mut self.state.tasks));
        self.state.tasks = tasks;
        self.enqueue(WorkItem::Timers);
    }

    /// A new owner found the run: attempts in flight are lost, new ones are opened.
    pub(crate) fn adopt(&mut self, epoch: Epoch, budget: Option<u32>) {
        self.state.epoch = epoch;
        for exec in self.workers_in_flight() {
            self.lose(exec, budget);
        }
    }

    /// This run is a copy: it has its own id, and what runs for the original is not its own.
    pub(crate) fn fork(&mut self, run: RunId, epoch: Epoch) {
        self.state.epoch = epoch;
        if let Some(identity) = &mut self.state.run {
            identity.id = run;
        }
        self.state.rebuild();
        for exec in self.workers_in_flight() {
            self.start_over(exec);
        }
        let children = self.state.execs.iter().filter(
            |(_, exec)| matches!(&exec.work, Work::Attempt(attempt) if attempt.in_flight() && !attempt.takes_slot()),
        );
        for exec in children.map(|(key, _)| key).collect::<Vec<Key>>() {
            self.start_over(exec);
        }
    }

    fn workers_in_flight(&self) -> Vec<Key> {
        let execs = self.state.execs.iter().filter(
            |(_, exec)| matches!(&exec.work, Work::Attempt(attempt) if attempt.in_flight() && attempt.takes_slot()),
        );
        execs.map(|(key, _)| key).collect()
    }
}

/// Does a step keep a failure of its blocks from going further? Handlers look only at the body of
/// their `try`.
fn catches(kind: &StepKind, in_body: bool, failure: &Failure) -> bool {
    match kind {
        StepKind::Try { handlers, .. } => in_body && handler_for(handlers, failure).is_some(),
        StepKind::Each { on_error, .. } | StepKind::All { on_error, .. } => {
            *on_error == OnError::Collect
        }
        StepKind::Dispatch(_)
        | StepKind::Let { .. }
        | StepKind::If { .. }
        | StepKind::Switch { .. }
        | StepKind::While { .. }
        | StepKind::Sleep { .. }
        | StepKind::Until { .. }
        | StepKind::Wait { .. }
        | StepKind::Workflow { .. }
        | StepKind::Send { .. }
        | StepKind::State { .. }
        | StepKind::Race { .. }
        | StepKind::Return { .. }
        | StepKind::Raise { .. }
        | StepKind::Break
        | StepKind::Continue
        | StepKind::Call { .. } => false,
    }
}
