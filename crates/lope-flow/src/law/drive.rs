//! Driving a run by hand: a whole run in memory, with somebody standing in for workers, children
//! and the clock.
//!
//! For tests, examples and `lope test`: attempts are answered one after the other in the order in
//! which they were dispatched, and when nothing else is to do time jumps to the next timer.

use std::collections::VecDeque;
use std::sync::Arc;

use lope_model::{RunId, Timestamp, Value};

use super::effect::{Dispatch, Effect, Send, StartChild};
use super::event::{Event, EventKind, Fed, Outcome, Settled, Start};
use super::machine::Progress;
use super::plan::Plan;
use super::state::State;
use super::view::Status;
use super::{advance, resume_slice};

/// Most events of a run that is driven; one that needs more is left where it is.
pub const EVENTS_MAX: usize = 10_000_000;

/// Who stands in for the world.
pub trait World {
    /// The outcome of an attempt.
    fn attempt(&mut self, dispatch: &Dispatch) -> Settled;

    /// The result of a child run.
    fn child(&mut self, child: &StartChild) -> Settled {
        let _ = child;
        Settled::Done(Value::Null)
    }

    /// A signal that the run waits for, if it shall come.
    fn signal(&mut self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// A message or signal that the run sent.
    fn sent(&mut self, send: &Send) {
        let _ = send;
    }
}

impl<F: FnMut(&Dispatch) -> Settled> World for F {
    fn attempt(&mut self, dispatch: &Dispatch) -> Settled {
        self(dispatch)
    }
}

/// A run that was driven as far as it went.
#[derive(Debug)]
pub struct Driven {
    pub state: State,
    /// The result of every input that has one, in the order in which they settled.
    pub results: Vec<(Arc<str>, Settled)>,
    /// Everything that happened.
    pub journal: Vec<Event>,
}

impl Driven {
    pub fn status(&self) -> Status {
        self.state.status()
    }

    /// The result of the first input that settled.
    pub fn result(&self) -> Option<&Settled> {
        self.results.first().map(|(_, result)| result)
    }

    /// The value of the first input that settled, if it has one.
    pub fn value(&self) -> Option<&Value> {
        match self.result() {
            Some(Settled::Done(value)) => Some(value),
            Some(Settled::Failed(_) | Settled::Cancelled) | None => None,
        }
    }
}

/// Runs a plan with these inputs (named `1`, `2`…) as far as it goes. One input makes a run that
/// ends with it, more make an open one that is closed when they are settled.
pub fn drive(
    plan: &Plan,
    inputs: Vec<Value>,
    mut worker: impl FnMut(&Dispatch) -> Settled,
) -> Driven {
    drive_with(plan, inputs, &mut worker)
}

/// As `drive`, with somebody who stands in for children and signals too.
pub fn drive_with(plan: &Plan, inputs: Vec<Value>, world: &mut dyn World) -> Driven {
    let run = RunId::from_parts(Timestamp::EPOCH, [7; 10]);
    let fed = inputs
        .into_iter()
        .enumerate()
        .map(|(index, value)| Fed::new(&(index + 1).to_string(), value));
    let mut fed: VecDeque<Fed> = fed.collect();
    let open = fed.len() != 1;
    let input = if open { None } else { fed.pop_front() };
    let start = Start {
        run,
        law: crate::LAW,
        seed: 7,
        epoch: lope_model::Epoch(1),
        open,
        env: Value::Null,
        input,
    };
    let mut driver = DriveLoop {
        plan,
        world,
        now: Timestamp::EPOCH,
        pending: VecDeque::new(),
        run: Driven::new(plan),
    };
    driver.event(EventKind::Start(Box::new(start)));
    for fed in fed {
        driver.event(EventKind::Input(Box::new(fed)));
    }
    while driver.run.journal.len() < EVENTS_MAX
        && let Some(kind) = driver.next_event()
    {
        driver.event(kind);
    }
    driver.run
}

impl Driven {
    fn new(plan: &Plan) -> Self {
        Self {
            state: State::new(plan),
            results: Vec::new(),
            journal: Vec::new(),
        }
    }
}

struct DriveLoop<'a> {
    plan: &'a Plan,
    world: &'a mut dyn World,
    now: Timestamp,
    pending: VecDeque<Effect>,
    run: Driven,
}

impl DriveLoop<'_> {
    fn event(&mut self, kind: EventKind) {
        let event = Event::new(self.now, kind);
        let mut effects = Vec::new();
        let mut progress = advance(self.plan, &mut self.run.state, event.clone(), &mut effects);
        while progress == Progress::More {
            progress = resume_slice(self.plan, &mut self.run.state, &mut effects);
        }
        if progress == Progress::Done {
            self.run.journal.push(event);
        }
        effects.into_iter().for_each(|effect| self.take(effect));
    }

    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Dispatch(_) | Effect::StartChild(_) => self.pending.push_back(effect),
            Effect::Send(send) => self.world.sent(&send),
            Effect::InputSettled { input, result } => self.run.results.push((input, result)),
            Effect::CancelAttempt { .. } | Effect::CancelChild { .. } | Effect::Telemetry(_) => {}
            Effect::Complete { .. } | Effect::Fail { .. } | Effect::Cancelled => {}
        }
    }

    fn next_event(&mut self) -> Option<EventKind> {
        while let Some(effect) = self.pending.pop_front() {
            match effect {
                Effect::Dispatch(dispatch) => return Some(self.answer(&dispatch)),
                Effect::StartChild(child) => {
                    let result = if child.detached {
                        Settled::Done(Value::Null)
                    } else {
                        self.world.child(&child)
                    };
                    return Some(EventKind::Child {
                        execution: child.execution,
                        child: child.child,
                        result,
                    });
                }
                Effect::Send(_)
                | Effect::InputSettled { .. }
                | Effect::CancelAttempt { .. }
                | Effect::CancelChild { .. }
                | Effect::Telemetry(_)
                | Effect::Complete { .. }
                | Effect::Fail { .. }
                | Effect::Cancelled => {}
            }
        }
        let status = self.run.state.status();
        if let Some((name, value)) = self.wanted_signal() {
            return Some(EventKind::Signal { name, value });
        }
        if let Some(wake) = self.run.state.next_wake() {
            self.now = self.now.max(wake);
            return Some(EventKind::Timer);
        }
        (status == Status::Idle).then_some(EventKind::Close)
    }

    fn answer(&mut self, dispatch: &Dispatch) -> EventKind {
        EventKind::Outcome(Box::new(Outcome {
            execution: Arc::clone(&dispatch.execution),
            attempt: dispatch.attempt,
            epoch: dispatch.epoch,
            result: self.world.attempt(dispatch),
            started_at: Some(self.now),
            worker: None,
            log: None,
        }))
    }

    fn wanted_signal(&mut self) -> Option<(Arc<str>, Value)> {
        let names: Vec<Arc<str>> = self.run.state.waiters.keys().map(Arc::clone).collect();
        names
            .into_iter()
            .find_map(|name| self.world.signal(&name).map(|value| (name, value)))
    }
}
