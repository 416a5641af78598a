//! Cancelling: executions that are no longer wanted, inputs and runs that shall end.

use lope_model::Failure;

use super::arena::Key;
use super::effect::Effect;
use super::event::Settled;
use super::machine::Machine;
use super::state::{Alarm, Attempt, End, Exit, Life, Phase, TryPhase, Work, WorkItem};
use super::trace::Mark;
use super::try_step::has_finally;

impl Machine<'_> {
    /// Somebody around an execution decided that it shall end. What has a `finally` still runs it.
    pub(crate) fn cancel(&mut self, exec: Key) {
        let Some(open) = self.state.execs.get_mut(exec) else {
            return;
        };
        let cancelled = End::Exit(Exit::Cancelled);
        let blocks: Vec<Key> = match &mut open.work {
            Work::Attempt(_) | Work::Send(_) | Work::Sleep(_) | Work::Wait(_) | Work::Turn(_) => {
                self.stop(exec);
                return self.conclude(exec, cancelled);
            }
            Work::Block(act) => vec![*act],
            Work::While(held) => vec![held.act],
            Work::Each(each) => {
                each.ending = Some(cancelled.clone());
                each.acts.values().copied().collect()
            }
            Work::Race(branches) | Work::All(branches) => {
                branches.ending = Some(cancelled.clone());
                branches.acts.values().copied().collect()
            }
            Work::Try(held) if held.phase == TryPhase::Finally => {
                held.pending = Some(cancelled);
                return;
            }
            Work::Try(held) => vec![held.act],
        };
        if blocks.is_empty() {
            return self.conclude(exec, cancelled);
        }
        for act in blocks {
            self.enqueue(WorkItem::Leave {
                act,
                exit: Exit::Cancelled,
            });
        }
    }

    /// Takes an execution out of every list it stands in, and stops what runs for it outside.
    pub(crate) fn stop(&mut self, key: Key) {
        let Some(exec) = self.state.execs.get(key) else {
            return;
        };
        match &exec.work {
            Work::Attempt(attempt) => {
                let (path, attempt) = (exec.path.clone(), attempt.clone());
                self.stop_attempt(path, &attempt);
            }
            Work::Send(sending) => {
                let ready_key = sending.ready_key;
                self.state.outgoing.remove(&ready_key);
            }
            Work::Sleep(sleeping) => {
                let timer = sleeping.timer;
                timer.map(|timer| self.state.timers.remove(&timer));
            }
            Work::Wait(waiting) => {
                let signal = waiting.signal.clone();
                let timer = waiting.timer;
                timer.map(|timer| self.state.timers.remove(&timer));
                self.forget_waiter(&signal, key);
            }
            Work::Turn(turn) => {
                let turn = *turn;
                self.state.turns.remove(&turn);
            }
            Work::Block(_)
            | Work::Each(_)
            | Work::While(_)
            | Work::Try(_)
            | Work::Race(_)
            | Work::All(_) => {}
        }
    }

    fn stop_attempt(&mut self, path: Option<std::sync::Arc<str>>, attempt: &Attempt) {
        match &attempt.phase {
            Phase::Ready(ready_key) if attempt.takes_slot() => {
                self.state.ready.remove(ready_key);
            }
            Phase::Ready(ready_key) => {
                self.state.outgoing.remove(ready_key);
            }
            Phase::InFlight {
                epoch,
                child,
                timeout,
                begun: _,
            } => {
                let execution = path.expect("what is in flight has an id");
                timeout.map(|timer| self.state.timers.remove(&timer));
                if let Some(child) = *child {
                    self.state.children -= 1;
                    if attempt.detached().is_none() {
                        self.emit(Effect::CancelChild { execution, child });
                    }
                } else {
                    self.state.in_flight -= 1;
                    self.emit(Effect::CancelAttempt {
                        execution,
                        attempt: attempt.number,
                        epoch: *epoch,
                    });
                }
            }
            Phase::Backoff(timer) | Phase::Refused { timer, .. } => {
                self.state.timers.remove(timer);
            }
            Phase::Suspended => {}
        }
    }

    /// The run shall end: its inputs are left, so that `finally` blocks run, but not for longer
    /// than the grace.
    pub(crate) fn cancel_run(&mut self, force: bool) {
        if force || self.state.life == Life::Cancelling {
            return self.force_cancel();
        }
        self.state.life = Life::Cancelling;
        self.state.paused = None;
        self.state.closed = true;
        for fed in std::mem::take(&mut self.state.queue) {
            self.emit(Effect::InputSettled {
                input: fed.id,
                result: Settled::Cancelled,
            });
        }
        let roots: Vec<Key> = self.state.inputs.values().map(|input| input.root).collect();
        if roots.is_empty() {
            return self.end_run(Life::Cancelled);
        }
        let number = self.state.next_number();
        self.state
            .timers
            .insert((self.state.at.plus(self.plan.grace), number), Alarm::Grace);
        for act in roots {
            self.enqueue(WorkItem::Leave {
                act,
                exit: Exit::Cancelled,
            });
        }
    }

    /// The run ends now, whatever is at work.
    pub(crate) fn force_cancel(&mut self) {
        self.state.life = Life::Cancelling;
        self.state.closed = true;
        let inputs: Vec<u64> = self.state.inputs.keys().copied().collect();
        if inputs.is_empty() {
            return self.end_run(Life::Cancelled);
        }
        for input in inputs {
            self.end_input_at_once(input, &Settled::Cancelled);
        }
    }

    /// Drops everything that works for an input, without `finally`, and settles it.
    pub(crate) fn end_input_at_once(&mut self, input: u64, result: &Settled) {
        let of_input = |machine: &Self, act: Key| {
            machine
                .state
                .acts
                .get(act)
                .is_some_and(|act| act.input == input)
        };
        let execs = self
            .state
            .execs
            .iter()
            .filter(|(_, exec)| of_input(self, exec.act));
        let execs: Vec<Key> = execs.map(|(key, _)| key).collect();
        self.mark_all(&execs, &Mark::Cancelled);
        for exec in execs {
            self.stop(exec);
            self.let_go(exec);
        }
        let acts = self
            .state
            .acts
            .iter()
            .filter(|(_, act)| act.input == input)
            .map(|(key, _)| key);
        for act in acts.collect::<Vec<Key>>() {
            self.state.acts.remove(act);
        }
        self.state.guards = self.count_guards();
        let end = match result {
            Settled::Done(value) => End::Done(value.clone()),
            Settled::Failed(failure) => End::Exit(Exit::Failed(failure.clone())),
            Settled::Cancelled => End::Exit(Exit::Cancelled),
        };
        self.input_ended(input, end);
    }

    fn count_guards(&self) -> u32 {
        let guarded = self.state.execs.iter().filter(|(_, exec)| {
            matches!(exec.work, Work::Try(_))
                && self
                    .planned(exec.act, exec.step)
                    .is_some_and(|step| has_finally(&step.kind))
        });
        guarded.count() as u32
    }

    /// The run is over; only what a retry needs is kept.
    pub(crate) fn end_run(&mut self, life: Life) {
        let state = &mut *self.state;
        state.life = life;
        state.timers.clear();
        state.signals.clear();
        state.buffered = 0;
        state.paused = None;
        if state.halted.is_none() {
            state.totals.clear();
        }
        let effect = match &self.state.life {
            Life::Failed(failure) => Effect::Fail {
                failure: Failure::clone(failure),
            },
            Life::Cancelled => Effect::Cancelled,
            Life::Fresh | Life::Live | Life::Cancelling | Life::Completed => return,
        };
        self.emit(effect);
    }
}
