//! Attempts: work for workers and child runs, from opened through ready into flight. What becomes of them is in `outcomes`.

use std::sync::Arc;

use lope_model::{Failure, Value};

use super::arena::Key;
use super::effect::Effect;
use super::letter;
use super::machine::Machine;
use super::open::Spot;
use super::state::{Attempt, End, Exit, Job, Life, Phase, Sending, Task, Turn, Work, WorkerJob};
use crate::definition::{Dispatch as Call, Recipient, StepPolicy};
use crate::expr::Template;
use crate::policy::override_with;

impl<'a> Machine<'a> {
    pub(crate) fn start_work(&mut self, spot: Spot<'a>, call: &Call) -> Result<Option<Value>, Failure> {
        self.start_action(spot, (&call.executor, &call.action), &call.with, &[])
    }

    /// An action whose arguments may see names of the law.
    pub(crate) fn start_action(
        &mut self,
        spot: Spot<'a>,
        (executor, action): (&Arc<str>, &Arc<str>),
        with: &Template,
        extra: &[(&'static str, Value)],
    ) -> Result<Option<Value>, Failure> {
        let overridden = self.overridden(spot);
        let policy = overridden.as_ref().unwrap_or(&spot.step.policy);
        let with = self.eval_with(spot.act, with.expr(), extra)?;
        let key = policy.idempotency_key.as_ref();
        let idempotency_key = key.map(|key| self.eval(spot.act, key.expr())).transpose()?;
        let concurrency = match &policy.concurrency {
            Some(limit) => {
                let key = limit.key.as_ref().map(|key| self.eval(spot.act, key.expr())).transpose()?;
                Some((limit.limit, key.unwrap_or_else(|| Value::Str(Arc::clone(action)))))
            }
            None => None,
        };
        let executor = Arc::clone(policy.executor.as_ref().unwrap_or(executor));
        let action = Arc::clone(action);
        self.try_job(spot, Job::Worker(Box::new(WorkerJob { executor, action, with, idempotency_key, concurrency })));
        Ok(None)
    }

    pub(crate) fn start_child(
        &mut self,
        spot: Spot<'a>,
        (workflow, with): (&Template, &Template),
        detached: bool,
    ) -> Result<Option<Value>, Failure> {
        let workflow = self.text(spot.act, workflow.expr(), "the name of a workflow")?;
        let input = self.eval(spot.act, with.expr())?;
        self.try_job(spot, Job::Child { workflow, input, detached });
        Ok(None)
    }

    pub(crate) fn start_send(
        &mut self,
        spot: Spot<'a>,
        to: Recipient,
        (target, body): (&Template, &Template),
    ) -> Result<Option<Value>, Failure> {
        let target = self.text(spot.act, target.expr(), "the recipient")?;
        let body = self.eval(spot.act, body.expr())?;
        let turn = Turn::new(spot.step.handling.priority, self.state.next_number());
        let exec = self.hold(spot, Work::Send(Box::new(Sending { turn, to, target, body })));
        self.state.posts.insert(turn, exec);
        Ok(None)
    }

    fn overridden(&self, spot: Spot<'a>) -> Option<Arc<StepPolicy>> {
        let act = self.state.acts.get(spot.act)?;
        let overrides = &self.state.inputs.get(&act.input)?.fed.policies;
        override_with(overrides, spot.step.facts(), &spot.step.policy).map(Arc::new)
    }

    /// Opens the first attempt of a job; a step that is opened again goes on counting.
    fn try_job(&mut self, spot: Spot<'a>, job: Job) {
        let mut attempt = Attempt::new(job, Turn::new(spot.step.handling.priority, 0), self.state.at);
        attempt.policy = self.overridden(spot);
        if let Some((act, step, attempts)) = self.state.resumed
            && (act, step) == (spot.act, spot.index)
        {
            self.state.resumed = None;
            attempt.number = attempts + 1;
        }
        let path = self.path(spot.act, spot.index);
        let exec = self.hold(spot, Work::Attempt(Box::new(attempt)));
        if let Some(open) = self.state.execs.get_mut(exec) {
            open.path = Some(Arc::clone(&path));
        }
        self.state.index.insert(path, exec);
        self.make_ready(exec);
    }

    pub(crate) fn attempt_at(&mut self, exec: Key) -> Option<&mut Attempt> {
        match &mut self.state.execs.get_mut(exec)?.work {
            Work::Attempt(attempt) => Some(attempt),
            _ => None,
        }
    }

    pub(crate) fn policy_of(&self, exec: Key) -> Option<Arc<StepPolicy>> {
        let open = self.state.execs.get(exec)?;
        let Work::Attempt(attempt) = &open.work else { return None };
        attempt.policy.clone().or_else(|| Some(Arc::clone(&self.planned(open.act, open.step)?.policy)))
    }

    /// Puts an attempt among those that may start.
    pub(crate) fn make_ready(&mut self, exec: Key) {
        let Some(policy) = self.policy_of(exec) else { return };
        let turn = Turn::new(policy.priority.unwrap_or_default(), self.state.next_number());
        let Some(attempt) = self.attempt_at(exec) else { return };
        attempt.phase = Phase::Ready(turn);
        let queue = if attempt.takes_slot() { &mut self.state.ready } else { &mut self.state.posts };
        queue.insert(turn, exec);
    }

    /// Lets through what may start now: attempts while there are slots, children and messages always, nothing while paused.
    pub(crate) fn let_through(&mut self) {
        if self.state.paused.is_some() || !matches!(self.state.life, Life::Live | Life::Cancelling) {
            return;
        }
        while self.state.in_flight < self.plan.concurrency
            && let Some((_, exec)) = self.state.ready.pop_first()
        {
            self.dispatch(exec);
        }
        for exec in std::mem::take(&mut self.state.posts).into_values() {
            self.task(Task::Post { exec });
        }
    }

    fn dispatch(&mut self, exec: Key) {
        let epoch = self.state.epoch;
        let Some(attempt) = self.attempt_at(exec) else { return };
        attempt.phase = Phase::InFlight { epoch, child: None, timeout: None };
        self.state.in_flight += 1;
        if let Some(dispatch) = self.state.dispatch_of(self.plan, exec) {
            self.emit(Effect::Dispatch(Box::new(dispatch)));
        }
    }

    /// A child or a message was let through.
    pub(crate) fn post(&mut self, exec: Key) {
        let Some(open) = self.state.execs.get(exec) else { return };
        match &open.work {
            Work::Send(sending) => {
                let Sending { to, target, body, .. } = (**sending).clone();
                let execution = self.path(open.act, open.step);
                self.post_letter(exec, super::effect::Send { execution, to, target, body });
            }
            Work::Attempt(_) => self.post_child(exec),
            Work::Sleep(_) | Work::Wait(_) | Work::Turn(_) | Work::Block(_) | Work::Each(_) => {}
            Work::While(_) | Work::Guard(_) | Work::Race(_) | Work::All(_) => {}
        }
    }

    /// A message goes out with the event; one that nobody could take fails its step, which the first law did not know.
    fn post_letter(&mut self, exec: Key, send: super::effect::Send) {
        if self.state.law >= 2
            && let Err(failure) = letter::check(&send)
        {
            return self.conclude(exec, End::Exit(Exit::Failed(Box::new(failure))));
        }
        self.emit(Effect::Send(Box::new(send)));
        self.settle_exec(exec, Value::Null);
    }

    /// A child is started. The step of a detached one waits only until it is there; under the first law not even that.
    fn post_child(&mut self, exec: Key) {
        let Some(child) = self.state.child_of(self.plan, exec) else { return };
        let (id, detached) = (child.child, child.detached);
        self.emit(Effect::StartChild(Box::new(child)));
        if detached && self.state.law < 2 {
            return self.settle_exec(exec, Value::str(id.to_string()));
        }
        self.state.children += 1;
        let span = self.policy_of(exec).and_then(|policy| policy.timeout).filter(|_| !detached);
        let timeout = span.map(|span| self.set_timer(exec, self.state.at.plus(span)));
        let epoch = self.state.epoch;
        if let Some(attempt) = self.attempt_at(exec) {
            attempt.phase = Phase::InFlight { epoch, child: Some(id), timeout };
        }
    }
}
