//! Looking at a state: how it is, what it waits for and why, when it must be woken, what must be
//! started after a restart.

use std::sync::Arc;

use lope_model::{Failure, RunId, Timestamp, Value};

use super::arena::Key;
use super::effect::{Dispatch, Effect, StartChild};
use super::handling::Handling;
use super::heap::INTERNAL;
use super::limits::SIGNALS_MAX;
use super::plan::{Plan, PlanStep};
use super::state::{Attempt, Begun, Exec, Job, Life, Phase, State, Work};

/// How a run is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    Queued,
    Running,
    /// Open, and nothing to do.
    Idle,
    /// Only time will wake it.
    Sleeping,
    /// It waits for a signal or a child.
    Waiting,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

/// Why a run is not further than it is.
#[derive(Clone, PartialEq, Debug)]
pub enum Reason {
    NotStarted,
    Paused {
        reason: Arc<str>,
    },
    Cancelling,
    /// No input is at work.
    Idle,
    InFlight {
        execution: Arc<str>,
        attempt: u32,
        action: Arc<str>,
    },
    /// It would start if there were a slot (or the run were not paused).
    Ready {
        execution: Arc<str>,
        attempt: u32,
        action: Arc<str>,
    },
    Retry {
        execution: Arc<str>,
        attempt: u32,
        at: Timestamp,
        failure: Option<Failure>,
    },
    Refused {
        execution: Arc<str>,
        attempt: u32,
        until: Timestamp,
        reason: Arc<str>,
    },
    Sleeping {
        execution: Arc<str>,
        until: Timestamp,
    },
    Signal {
        execution: Arc<str>,
        signal: Arc<str>,
        until: Option<Timestamp>,
    },
    Child {
        execution: Arc<str>,
        child: RunId,
    },
    /// A `state` whose earlier inputs are not there yet.
    Turn {
        execution: Arc<str>,
    },
    Failed {
        failure: Failure,
    },
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Sleeping => "sleeping",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Has the run ended?
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl State {
    /// How the run is. Cheap.
    pub fn status(&self) -> Status {
        match &self.life {
            Life::Fresh => Status::Queued,
            Life::Completed => Status::Completed,
            Life::Failed(_) => Status::Failed,
            Life::Cancelled => Status::Cancelled,
            Life::Cancelling => Status::Running,
            Life::Live if self.paused.is_some() => Status::Paused,
            Life::Live if self.busy || self.in_flight > 0 || !self.ready.is_empty() => {
                Status::Running
            }
            Life::Live if self.inputs.is_empty() => Status::Idle,
            Life::Live if self.waiters.is_empty() && self.children == 0 => Status::Sleeping,
            Life::Live => Status::Waiting,
        }
    }

    /// Why a paused run is paused.
    pub const fn paused(&self) -> Option<&Arc<str>> {
        self.paused.as_ref()
    }

    /// Why a failed run failed.
    pub const fn failure(&self) -> Option<&Failure> {
        match &self.life {
            Life::Failed(failure) => Some(failure),
            Life::Fresh | Life::Live | Life::Cancelling | Life::Completed | Life::Cancelled => None,
        }
    }

    /// When the next `Timer` event is due. Cheap.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// How many attempts are in flight, and how many would be if there were slots.
    pub fn load(&self) -> (u32, usize) {
        (self.in_flight, self.ready.len())
    }

    /// The value of every accumulator, by the path of its step.
    pub fn totals(&self, plan: &Plan) -> Vec<(Arc<str>, Value)> {
        let steps = plan.blocks.iter().flat_map(|block| &block.steps);
        let total = |step: &PlanStep| {
            let (number, _) = step.state?;
            Some((Arc::clone(&step.path), self.totals.get(&number)?.clone()))
        };
        steps.filter_map(total).collect()
    }

    /// What must be started after a restart when no owner before could have started it: every
    /// attempt in flight. (If one could, an `Adopted` event comes first and its effects say what to
    /// start.)
    pub fn outstanding(&self, plan: &Plan) -> Vec<Effect> {
        let attempts = self.execs.iter().filter(
            |(_, exec)| matches!(&exec.work, Work::Attempt(attempt) if attempt.in_flight() && attempt.takes_slot()),
        );
        attempts
            .filter_map(|(key, _)| self.dispatch_of(plan, key))
            .map(|it| Effect::Dispatch(Box::new(it)))
            .collect()
    }

    /// Is there room for a signal of this name, or a step that waits for it? What comes otherwise
    /// is dropped.
    pub fn takes_signal(&self, name: &str) -> bool {
        self.buffered < SIGNALS_MAX || self.waiters.contains_key(name)
    }

    /// Attempts that are in flight, or that a limit does not let begin.
    pub fn asked_for(&self, plan: &Plan) -> Vec<Dispatch> {
        let asks = |exec: &Exec| {
            matches!(&exec.work, Work::Attempt(attempt)
                if attempt.in_flight() || matches!(attempt.phase, Phase::Refused { .. }))
        };
        let attempts = self.execs.iter().filter(|(_, exec)| asks(exec));
        attempts
            .filter_map(|(key, _)| self.dispatch_of(plan, key))
            .collect()
    }

    /// Is an attempt of this execution in flight that has not begun?
    pub(crate) fn has_not_begun(&self, execution: &str) -> bool {
        let exec = self
            .index
            .get(execution)
            .and_then(|key| self.execs.get(*key));
        matches!(exec.map(|exec| &exec.work), Some(Work::Attempt(attempt)) if attempt.begun() == Begun::No)
    }

    /// Detached children that were started and of which nobody has said yet that they are there.
    /// After a restart they must be started again: each has an id of its own, so that it is there
    /// once.
    pub fn unconfirmed(&self, plan: &Plan) -> Vec<StartChild> {
        let pending = |exec: &Exec| matches!(&exec.work, Work::Attempt(attempt) if attempt.detached().is_some());
        let pending = self.execs.iter().filter(|(_, exec)| pending(exec));
        pending
            .filter_map(|(key, _)| self.child_of(plan, key))
            .collect()
    }

    /// Why the run is not further than it is, at most `limit` reasons.
    pub fn why(&self, plan: &Plan, limit: usize) -> Vec<Reason> {
        let general = match &self.life {
            Life::Fresh => Some(Reason::NotStarted),
            Life::Failed(failure) => {
                return vec![Reason::Failed {
                    failure: Failure::clone(failure),
                }];
            }
            Life::Completed | Life::Cancelled => return Vec::new(),
            Life::Cancelling => Some(Reason::Cancelling),
            Life::Live if self.inputs.is_empty() && self.paused.is_none() => Some(Reason::Idle),
            Life::Live => self.paused.as_ref().map(|reason| Reason::Paused {
                reason: Arc::clone(reason),
            }),
        };
        let particular = self
            .execs
            .iter()
            .filter_map(|(_, exec)| self.reason(plan, exec));
        general.into_iter().chain(particular).take(limit).collect()
    }

    fn reason(&self, plan: &Plan, exec: &Exec) -> Option<Reason> {
        let execution = || {
            exec.path
                .clone()
                .unwrap_or_else(|| self.path(plan, exec.act, exec.step))
        };
        Some(match &exec.work {
            Work::Attempt(attempt) => attempt.reason(execution()),
            Work::Sleep(sleeping) => Reason::Sleeping {
                execution: execution(),
                until: sleeping.until,
            },
            // Tasks of one run wait for each other; what they wait for in the end is told of those.
            Work::Wait(waiting) if waiting.signal.starts_with(INTERNAL) => return None,
            Work::Wait(waiting) => Reason::Signal {
                execution: execution(),
                signal: Arc::clone(&waiting.signal),
                until: waiting.until,
            },
            Work::Turn(_) => Reason::Turn {
                execution: execution(),
            },
            Work::Send(_) => Reason::Ready {
                execution: execution(),
                attempt: 1,
                action: "send".into(),
            },
            Work::Block(_)
            | Work::Each(_)
            | Work::While(_)
            | Work::Try(_)
            | Work::Race(_)
            | Work::All(_) => {
                return None;
            }
        })
    }

    /// The attempt at hand of an execution, as a dispatcher needs it.
    pub(crate) fn dispatch_of(&self, plan: &Plan, exec: Key) -> Option<Dispatch> {
        let exec = self.execs.get(exec)?;
        let Work::Attempt(attempt) = &exec.work else {
            return None;
        };
        let Job::Worker(job) = &attempt.job else {
            return None;
        };
        let act = self.acts.get(exec.act)?;
        let step = plan.step(act.block, exec.step);
        Some(Dispatch {
            execution: exec.path.clone()?,
            step: Arc::clone(&step.path),
            attempt: attempt.number,
            epoch: self.epoch,
            executor: Arc::clone(&job.executor),
            action: Arc::clone(&job.action),
            with: self.with_heap(job),
            heap: job.heap,
            handling: attempt.handling(step),
            idempotency_key: job.idempotency_key.clone(),
            concurrency: job.concurrency.clone(),
            input: Arc::clone(&self.inputs.get(&act.input)?.fed.id),
            announced: attempt.announced || attempt.handling(step).durable,
        })
    }

    /// The child that an execution is about to start.
    pub(crate) fn child_of(&self, plan: &Plan, exec: Key) -> Option<StartChild> {
        let exec = self.execs.get(exec)?;
        let Work::Attempt(attempt) = &exec.work else {
            return None;
        };
        let Job::Child {
            workflow,
            input,
            detached,
        } = &attempt.job
        else {
            return None;
        };
        let execution = exec.path.clone()?;
        let run = self.run.as_ref()?.id;
        let child = match attempt.number {
            1 => run.child(&execution),
            number => run.child(&format!("{execution}#{number}")),
        };
        let step = plan.step(self.acts.get(exec.act)?.block, exec.step);
        let workflow = Arc::clone(workflow);
        let input = input.clone();
        let handling = attempt.handling(step);
        Some(StartChild {
            execution,
            child,
            workflow,
            input,
            detached: *detached,
            handling,
        })
    }
}

impl Attempt {
    fn handling(&self, step: &PlanStep) -> Arc<Handling> {
        match &self.policy {
            Some(policy) => Arc::new(Handling::new(&step.kind, policy)),
            None => Arc::clone(&step.handling),
        }
    }

    fn reason(&self, execution: Arc<str>) -> Reason {
        let attempt = self.number;
        let action = match &self.job {
            Job::Worker(job) => Arc::clone(&job.action),
            Job::Child { workflow, .. } => Arc::clone(workflow),
        };
        match &self.phase {
            Phase::InFlight {
                child: Some(child), ..
            } => Reason::Child {
                execution,
                child: *child,
            },
            Phase::InFlight {
                child: None,
                begun: Begun::Unknown | Begun::Yes,
                ..
            } => Reason::InFlight {
                execution,
                attempt,
                action,
            },
            Phase::InFlight {
                begun: Begun::No, ..
            }
            | Phase::Ready(_)
            | Phase::Suspended => Reason::Ready {
                execution,
                attempt,
                action,
            },
            Phase::Backoff((at, _)) => Reason::Retry {
                execution,
                attempt,
                at: *at,
                failure: self.last.as_deref().cloned(),
            },
            Phase::Refused {
                timer: (until, _),
                reason,
            } => Reason::Refused {
                execution,
                attempt,
                until: *until,
                reason: Arc::clone(reason),
            },
        }
    }
}
