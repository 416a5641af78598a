//! Attempts: work for workers and child runs, from opened through ready into flight. What becomes
//! of them is in `outcomes`.

use std::sync::Arc;

use lope_definition::policy::override_with;
use lope_definition::{DispatchSpec, Recipient, StepPolicy};
use lope_expr::Template;
use lope_model::{Failure, Value};

use super::arena::Key;
use super::effect::Effect;
use super::machine::Machine;
use super::outgoing_message;
use super::start::Spot;
use super::state::{
    Attempt, Begun, End, Exit, Job, Life, Phase, ReadyKey, Sending, Work, WorkItem, WorkerJob,
};

/// An action, who does it, and its arguments before they are evaluated.
#[derive(Clone, Copy)]
pub(crate) struct ActionCall<'c> {
    pub(crate) executor: &'c Arc<str>,
    pub(crate) action: &'c Arc<str>,
    pub(crate) with: &'c Template,
    /// Does it work on the run's heap?
    pub(crate) heap: bool,
}

impl<'a> Machine<'a> {
    pub(crate) fn start_work(
        &mut self,
        spot: Spot<'a>,
        call: &DispatchSpec,
    ) -> Result<Option<Value>, Failure> {
        let call = ActionCall {
            executor: &call.executor,
            action: &call.action,
            with: &call.with,
            heap: call.heap,
        };
        self.start_action(spot, call, &[])
    }

    /// An action whose arguments may see names of the law.
    pub(crate) fn start_action(
        &mut self,
        spot: Spot<'a>,
        call: ActionCall<'_>,
        extra: &[(&'static str, Value)],
    ) -> Result<Option<Value>, Failure> {
        let overridden = self.overridden(spot);
        let policy = overridden.as_ref().unwrap_or(&spot.step.policy);
        let with = self.eval_with(spot.act, call.with.expr(), extra)?;
        let key = policy.idempotency_key.as_ref();
        let idempotency_key = key.map(|key| self.eval(spot.act, key.expr())).transpose()?;
        let concurrency = match &policy.concurrency {
            Some(limit) => {
                let key = limit
                    .key
                    .as_ref()
                    .map(|key| self.eval(spot.act, key.expr()))
                    .transpose()?;
                Some((
                    limit.limit,
                    key.unwrap_or_else(|| Value::Str(Arc::clone(call.action))),
                ))
            }
            None => None,
        };
        let executor = Arc::clone(policy.executor.as_ref().unwrap_or(call.executor));
        let action = Arc::clone(call.action);
        self.try_job(
            spot,
            Job::Worker(Box::new(WorkerJob {
                executor,
                action,
                with,
                idempotency_key,
                concurrency,
                heap: call.heap,
            })),
        );
        Ok(None)
    }

    pub(crate) fn start_child(
        &mut self,
        spot: Spot<'a>,
        workflow: &Template,
        with: &Template,
        detached: bool,
    ) -> Result<Option<Value>, Failure> {
        let workflow = self.text(spot.act, workflow.expr(), "the name of a workflow")?;
        let input = self.eval(spot.act, with.expr())?;
        self.try_job(
            spot,
            Job::Child {
                workflow,
                input,
                detached,
            },
        );
        Ok(None)
    }

    pub(crate) fn start_send(
        &mut self,
        spot: Spot<'a>,
        to: Recipient,
        target: &Template,
        body: &Template,
    ) -> Result<Option<Value>, Failure> {
        let target = self.text(spot.act, target.expr(), "the recipient")?;
        let body = self.eval(spot.act, body.expr())?;
        let ready_key = ReadyKey::new(spot.step.handling.priority, self.state.next_number());
        let exec = self.hold(
            spot,
            Work::Send(Box::new(Sending {
                ready_key,
                to,
                target,
                body,
            })),
        );
        self.state.outgoing.insert(ready_key, exec);
        Ok(None)
    }

    fn overridden(&self, spot: Spot<'a>) -> Option<Arc<StepPolicy>> {
        let act = self.state.acts.get(spot.act)?;
        let overrides = &self.state.inputs.get(&act.input)?.fed.policies;
        override_with(overrides, spot.step.facts(), &spot.step.policy).map(Arc::new)
    }

    /// Opens the first attempt of a job; a step that is opened again goes on counting.
    fn try_job(&mut self, spot: Spot<'a>, job: Job) {
        let mut attempt = Attempt::new(
            job,
            ReadyKey::new(spot.step.handling.priority, 0),
            self.state.at,
        );
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
            Work::Send(_)
            | Work::Sleep(_)
            | Work::Wait(_)
            | Work::Turn(_)
            | Work::Block(_)
            | Work::Each(_)
            | Work::While(_)
            | Work::Try(_)
            | Work::Race(_)
            | Work::All(_) => None,
        }
    }

    pub(crate) fn policy_of(&self, exec: Key) -> Option<Arc<StepPolicy>> {
        let open = self.state.execs.get(exec)?;
        let Work::Attempt(attempt) = &open.work else {
            return None;
        };
        attempt
            .policy
            .clone()
            .or_else(|| Some(Arc::clone(&self.planned(open.act, open.step)?.policy)))
    }

    /// Puts an attempt among those that may start.
    pub(crate) fn make_ready(&mut self, exec: Key) {
        let Some(policy) = self.policy_of(exec) else {
            return;
        };
        let ready_key = ReadyKey::new(
            policy.priority.unwrap_or_default(),
            self.state.next_number(),
        );
        let Some(attempt) = self.attempt_at(exec) else {
            return;
        };
        attempt.phase = Phase::Ready(ready_key);
        let queue = if attempt.takes_slot() {
            &mut self.state.ready
        } else {
            &mut self.state.outgoing
        };
        queue.insert(ready_key, exec);
    }

    /// Lets through what may start now: attempts while there are slots, children and messages
    /// always, nothing while paused.
    pub(crate) fn let_through(&mut self) {
        if self.state.paused.is_some() || !matches!(self.state.life, Life::Live | Life::Cancelling)
        {
            return;
        }
        while self.state.in_flight < self.plan.concurrency
            && let Some(exec) = self.next_ready()
        {
            self.dispatch(exec);
        }
        for exec in std::mem::take(&mut self.state.outgoing).into_values() {
            self.enqueue(WorkItem::Outgoing { exec });
        }
    }

    fn dispatch(&mut self, exec: Key) {
        let epoch = self.state.epoch;
        let law = self.state.law;
        let policy = self.policy_of(exec);
        let is_exact = policy
            .is_some_and(|policy| policy.loss_budget.is_some() || policy.durable == Some(true));
        let Some(attempt) = self.attempt_at(exec) else {
            return;
        };
        // Whoever says how often it may be lost gets an exact count.
        attempt.announced |= law >= 3 && is_exact;
        let begun = if attempt.announced {
            Begun::No
        } else {
            Begun::Unknown
        };
        attempt.phase = Phase::InFlight {
            epoch,
            child: None,
            timeout: None,
            begun,
        };
        self.state.in_flight += 1;
        self.take_heap(exec);
        if let Some(dispatch) = self.state.dispatch_of(self.plan, exec) {
            self.emit(Effect::Dispatch(Box::new(dispatch)));
        }
    }

    /// A child or a message was let through.
    pub(crate) fn send_outgoing(&mut self, exec: Key) {
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        match &open.work {
            Work::Send(sending) => {
                let Sending {
                    to, target, body, ..
                } = (**sending).clone();
                let execution = self.path(open.act, open.step);
                self.send_message(
                    exec,
                    super::effect::Send {
                        execution,
                        to,
                        target,
                        body,
                    },
                );
            }
            Work::Attempt(_) => self.post_child(exec),
            Work::Sleep(_) | Work::Wait(_) | Work::Turn(_) | Work::Block(_) | Work::Each(_) => {}
            Work::While(_) | Work::Try(_) | Work::Race(_) | Work::All(_) => {}
        }
    }

    /// A message goes out with the event; one that nobody could take fails its step, which the
    /// first law did not know.
    fn send_message(&mut self, exec: Key, send: super::effect::Send) {
        if self.state.law >= 2
            && let Err(failure) = outgoing_message::validate(&send)
        {
            return self.conclude(exec, End::Exit(Exit::Failed(Box::new(failure))));
        }
        self.emit(Effect::Send(Box::new(send)));
        self.settle_exec(exec, Value::Null);
    }

    /// A child is started. The step of a detached one waits only until it is there; under the first
    /// law not even that.
    fn post_child(&mut self, exec: Key) {
        let Some(child) = self.state.child_of(self.plan, exec) else {
            return;
        };
        let (id, detached) = (child.child, child.detached);
        self.emit(Effect::StartChild(Box::new(child)));
        if detached && self.state.law < 2 {
            return self.settle_exec(exec, Value::str(id.to_string()));
        }
        self.state.children += 1;
        let span = self
            .policy_of(exec)
            .and_then(|policy| policy.timeout)
            .filter(|_| !detached);
        let timeout = span.map(|span| self.set_timer(exec, self.state.at.plus(span)));
        let epoch = self.state.epoch;
        if let Some(attempt) = self.attempt_at(exec) {
            attempt.phase = Phase::InFlight {
                epoch,
                child: Some(id),
                timeout,
                begun: Begun::Unknown,
            };
        }
    }
}
