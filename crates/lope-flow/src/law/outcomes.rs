//! Outcomes: what becomes of attempts in flight, with retries, fallbacks, refusals and losses. An
//! outcome counts only if it names the execution, the attempt and the epoch that is in flight.
#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use lope_definition::policy::{self, FailureVerdict, LOSS_BUDGET, Tried, after_failure};
use lope_definition::{StepPolicy, executor};
use lope_expr::Template;
use lope_model::failure::kind;
use lope_model::policy::Fallback;
use lope_model::{Epoch, Failure, RunId, Timestamp, Value};

use super::arena::Key;
use super::effect::{Effect, Notice};
use super::event::Settled;
use super::machine::Machine;
use super::state::{Begun, Job, Phase, Work, WorkerJob};

impl Machine<'_> {
    /// The attempt in flight that a token names.
    pub(crate) fn find_in_flight(
        &self,
        execution: &str,
        attempt: u32,
        epoch: Epoch,
    ) -> Option<Key> {
        let exec = *self.state.index.get(execution)?;
        match &self.state.execs.get(exec)?.work {
            Work::Attempt(open) => match open.phase {
                Phase::InFlight {
                    epoch: under,
                    child: None,
                    ..
                } => (open.number == attempt && under == epoch).then_some(exec),
                Phase::InFlight { .. }
                | Phase::Ready(_)
                | Phase::Backoff(_)
                | Phase::Refused { .. } => None,
                Phase::Suspended => None,
            },
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

    /// The execution that waits for a child.
    pub(crate) fn waits_for_child(&self, execution: &str, child: RunId) -> Option<Key> {
        let exec = *self.state.index.get(execution)?;
        match &self.state.execs.get(exec)?.work {
            Work::Attempt(open) => {
                matches!(open.phase, Phase::InFlight { child: Some(id), .. } if id == child)
                    .then_some(exec)
            }
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

    /// An attempt in flight has ended.
    pub(crate) fn attempt_ended(&mut self, exec: Key, result: Settled) {
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        let Work::Attempt(attempt) = &open.work else {
            return;
        };
        let number = attempt.number;
        let let_go = attempt.detached();
        if let Phase::InFlight {
            child: Some(_),
            timeout,
            ..
        } = attempt.phase
        {
            self.state.children -= 1;
            timeout.map(|timer| self.state.timers.remove(&timer));
        } else {
            self.state.in_flight -= 1;
        }
        match result {
            Settled::Done(value) => {
                self.notice_settled(exec, number, None);
                let value = self.keep_heap(exec, value);
                self.settle_exec(
                    exec,
                    let_go.map_or(value, |child| Value::str(child.to_string())),
                );
            }
            Settled::Failed(failure) => self.attempt_failed(exec, *failure),
            Settled::Cancelled => {
                self.attempt_failed(exec, Failure::new(kind::CANCELLED, "it was cancelled"));
            }
        }
    }

    fn notice_settled(&mut self, exec: Key, attempt: u32, failure: Option<Failure>) {
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        let (Some(execution), Some(step)) = (open.path.clone(), self.planned(open.act, open.step))
        else {
            return;
        };
        let step = Arc::clone(&step.path);
        self.emit(Effect::Telemetry(Notice::StepSettled {
            execution,
            step,
            attempt,
            failure,
        }));
    }

    pub(crate) fn child_timed_out(&mut self, exec: Key) {
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        let Work::Attempt(attempt) = &open.work else {
            return;
        };
        if let (
            Phase::InFlight {
                child: Some(child), ..
            },
            Some(execution),
        ) = (&attempt.phase, open.path.clone())
        {
            let child = *child;
            self.state.children -= 1;
            self.emit(Effect::CancelChild { execution, child });
            self.attempt_failed(
                exec,
                Failure::new(kind::TIMEOUT, "the child run took too long"),
            );
        }
    }

    /// An attempt has failed: the policy says what follows.
    fn attempt_failed(&mut self, exec: Key, mut failure: Failure) {
        let Some(policy) = self.policy_of(exec) else {
            return;
        };
        let now = self.state.at;
        let seed = self.state.run.as_ref().map_or(0, |run| run.seed);
        let Some(path) = self
            .state
            .execs
            .get(exec)
            .and_then(|open| open.path.clone())
        else {
            return;
        };
        let Some(attempt) = self.attempt_at(exec) else {
            return;
        };
        attempt.failures += u32::from(failure.again_at.is_none());
        failure.attempt = Some(attempt.number);
        failure.step = Some(path.to_string().into());
        let number = attempt.number;
        let tried = Tried {
            failures: attempt.failures,
            first_at: attempt.first_at,
            now,
            fell_back: attempt.fell_back,
        };
        let jitter = || policy::jitter(seed, &path, number);
        match after_failure(&policy, tried, failure.clone(), jitter) {
            FailureVerdict::Retry(at) => self.try_again(exec, at, failure),
            FailureVerdict::Fallback => self.fall_back(exec, &policy, failure),
            FailureVerdict::Fail(failure) => self.attempts_spent(exec, failure),
        }
    }

    fn attempts_spent(&mut self, exec: Key, failure: Failure) {
        let number = self.attempt_at(exec).map_or(0, |attempt| attempt.number);
        self.notice_settled(exec, number, Some(failure.clone()));
        if let Some(spot) = self.let_go(exec) {
            self.raise_after(spot, failure, number);
        }
    }

    fn try_again(&mut self, exec: Key, at: Timestamp, failure: Failure) {
        self.notice_retry(exec, at, &failure);
        let Some(attempt) = self.attempt_at(exec) else {
            return;
        };
        attempt.number += 1;
        attempt.last = Some(Box::new(failure));
        if at <= self.state.at {
            return self.make_ready(exec);
        }
        let timer = self.set_timer(exec, at);
        if let Some(attempt) = self.attempt_at(exec) {
            attempt.phase = Phase::Backoff(timer);
        }
    }

    fn notice_retry(&mut self, exec: Key, at: Timestamp, failure: &Failure) {
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        let (Some(execution), Some(step)) = (open.path.clone(), self.planned(open.act, open.step))
        else {
            return;
        };
        let step = Arc::clone(&step.path);
        let failed = failure.attempt.unwrap_or(0);
        self.emit(Effect::Telemetry(Notice::Retrying {
            execution,
            step,
            failed,
            at,
            failure: failure.clone(),
        }));
    }

    /// The retries are spent: the fallback's value, or one more attempt with its arguments or its
    /// action.
    fn fall_back(&mut self, exec: Key, policy: &StepPolicy, failure: Failure) {
        let Some(open) = self.state.execs.get(exec) else {
            return;
        };
        let act = open.act;
        let path = open.path.clone();
        let step = self
            .planned(act, open.step)
            .map(|step| Arc::clone(&step.path));
        if let (Some(execution), Some(step)) = (path, step) {
            self.emit(Effect::Telemetry(Notice::FellBack {
                execution,
                step,
                failure: failure.clone(),
            }));
        }
        let extra = [("error", super::names::failure_value(&failure))];
        let mut eval = |template: &Template| self.eval_with(act, template.expr(), &extra);
        let (with, action) = match &policy.fallback {
            Some(Fallback::Value(value)) => match eval(value) {
                Ok(value) => return self.settle_exec(exec, value),
                Err(failure) => return self.attempts_spent(exec, failure),
            },
            Some(Fallback::RetryWith(with)) => (Some(eval(with)), None),
            Some(Fallback::Action { name, with }) => {
                (with.as_ref().map(eval), Some(Arc::clone(name)))
            }
            None => return self.attempts_spent(exec, failure),
        };
        match with.transpose() {
            Ok(with) => self.try_fallback(exec, with, action, failure),
            Err(failure) => self.attempts_spent(exec, failure),
        }
    }

    fn try_fallback(
        &mut self,
        exec: Key,
        with: Option<Value>,
        action: Option<Arc<str>>,
        failure: Failure,
    ) {
        let Some(attempt) = self.attempt_at(exec) else {
            return;
        };
        attempt.fell_back = true;
        attempt.number += 1;
        attempt.last = Some(Box::new(failure));
        match (&mut attempt.job, action) {
            (Job::Worker(job), action) => {
                job.with = with.unwrap_or_else(|| job.with.clone());
                if let Some(action) = action {
                    (job.executor, job.action) = (executor::ACTION.into(), action);
                }
            }
            (Job::Child { input, .. }, None) => *input = with.unwrap_or_else(|| input.clone()),
            (Job::Child { input, .. }, Some(action)) => {
                let with = with.unwrap_or_else(|| input.clone());
                let executor = executor::ACTION.into();
                let job = WorkerJob {
                    executor,
                    action,
                    with,
                    idempotency_key: None,
                    concurrency: None,
                    heap: false,
                };
                attempt.job = Job::Worker(Box::new(job));
            }
        }
        self.make_ready(exec);
    }

    /// A limit that many runs share did not let an attempt start. It did not start, so it keeps its
    /// number.
    pub(crate) fn refused(&mut self, exec: Key, until: Timestamp, reason: Arc<str>) {
        self.state.in_flight -= 1;
        let deadline = self.policy_of(exec).and_then(|policy| policy.deadline);
        let Some(attempt) = self.attempt_at(exec) else {
            return;
        };
        if deadline.is_some_and(|deadline| until > attempt.first_at.plus(deadline)) {
            let message = format!("refused until {until}, which is past the deadline: {reason}");
            return self.give_up_on(exec, Failure::new(kind::DEADLINE, message));
        }
        if until <= self.state.at {
            return self.make_ready(exec);
        }
        let timer = self.set_timer(exec, until);
        if let Some(attempt) = self.attempt_at(exec) {
            attempt.phase = Phase::Refused { timer, reason };
        }
    }

    /// An attempt is lost with its runner; a budget bounds how often. Only what had begun counts:
    /// where nobody can know, it does not, and from then on it is announced before it begins.
    pub(crate) fn lose(&mut self, exec: Key, budget: Option<u32>) {
        let own = self.policy_of(exec).and_then(|policy| policy.loss_budget);
        let budget = own.or(budget).unwrap_or(LOSS_BUDGET);
        let is_precise = self.state.law >= 3;
        let Some(attempt) = self.attempt_at(exec) else {
            return;
        };
        if is_precise {
            match attempt.begun() {
                Begun::Yes => {}
                Begun::No => return self.reopen(exec),
                Begun::Unknown => {
                    attempt.announced = true;
                    return self.start_over(exec);
                }
            }
        }
        attempt.losses += 1;
        if attempt.losses > budget {
            self.state.in_flight -= 1;
            let message = format!("its runner was lost more than {budget} times");
            return self.give_up_on(exec, Failure::new(kind::RUNNER_LOST, message));
        }
        self.start_over(exec);
    }

    /// What is known of an attempt in flight.
    pub(crate) fn knows_begun(&mut self, exec: Key, known: Begun) {
        if self.state.law < 3 {
            return;
        }
        if let Some(attempt) = self.attempt_at(exec)
            && let Phase::InFlight { begun, .. } = &mut attempt.phase
        {
            *begun = known;
        }
    }

    /// It never began: it waits for its turn again, as the attempt that it was.
    fn reopen(&mut self, exec: Key) {
        self.state.in_flight -= 1;
        self.make_ready(exec);
    }

    /// What is in flight starts again as a new attempt.
    pub(crate) fn start_over(&mut self, exec: Key) {
        let Some(attempt) = self.attempt_at(exec) else {
            return;
        };
        attempt.number += 1;
        if let Phase::InFlight {
            child: Some(_),
            timeout,
            ..
        } = attempt.phase
        {
            self.state.children -= 1;
            timeout.map(|timer| self.state.timers.remove(&timer));
        } else {
            self.state.in_flight -= 1;
        }
        self.make_ready(exec);
    }

    /// No more attempts: the fallback if there is one, else the step fails.
    fn give_up_on(&mut self, exec: Key, mut failure: Failure) {
        let Some(policy) = self.policy_of(exec) else {
            return;
        };
        let path = self
            .state
            .execs
            .get(exec)
            .and_then(|open| open.path.clone());
        let Some(attempt) = self.attempt_at(exec) else {
            return;
        };
        failure.attempt = Some(attempt.number);
        failure.step = path.map(|path| path.to_string().into());
        if policy.fallback.is_some() && !attempt.fell_back {
            self.fall_back(exec, &policy, failure);
        } else {
            self.attempts_spent(exec, failure);
        }
    }
}
