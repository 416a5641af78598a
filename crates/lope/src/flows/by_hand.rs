//! A flow advanced by hand: the pure law, with this program's functions for workers, in memory, one
//! attempt after the other.
//!
//! No runner, no store, no clock (a sleep is over when nothing else is to do), and so no telemetry.

use std::collections::VecDeque;
use std::sync::Arc;

use lope_engine::client;
use lope_flow::law::{
    Effect, Event, EventKind, Fed, Outcome, Progress, Settled, Start, StartChild, State, Status,
    fold,
};
use lope_model::{Digest, Epoch, Failure, RunId, Timestamp, Value, failure};
use serde::Serialize;
use uuid::Uuid;

use super::Flow;
use crate::convert::to_value;
use crate::error::{Error, Result};

/// A run of a flow that nobody but its holder advances.
#[derive(Debug)]
pub struct ByHand {
    flow: Flow,
    state: State,
    now: Timestamp,
    /// Attempts and children that were not made yet, in order.
    ready: VecDeque<Effect>,
    results: Vec<(Arc<str>, Settled)>,
    journal: Vec<Event>,
    fed: u64,
}

impl ByHand {
    pub(super) fn new(flow: Flow) -> Self {
        let run = RunId::from_uuid(Uuid::now_v7());
        let state = State::new(flow.plan());
        let ready = VecDeque::new();
        let results = Vec::new();
        let journal = Vec::new();
        let mut hand = Self {
            flow,
            state,
            now: Timestamp::EPOCH,
            ready,
            results,
            journal,
            fed: 0,
        };
        let seed = Digest::of(run.as_bytes()).short();
        let start = Start {
            run,
            law: lope_flow::LAW,
            seed,
            epoch: Epoch(1),
            open: true,
            env: Value::Null,
            input: None,
        };
        hand.event(EventKind::Start(Box::new(start)));
        hand
    }

    /// Take an input in; nothing runs yet.
    pub fn feed<T: Serialize>(&mut self, input: T) -> Result<()> {
        let value = to_value(&input).map_err(|message| Error::bad_value("the input", message))?;
        self.fed += 1;
        self.event(EventKind::Input(Box::new(Fed::new(
            &self.fed.to_string(),
            value,
        ))));
        Ok(())
    }

    /// Give a signal that the run may wait for.
    pub fn signal<T: Serialize>(&mut self, name: &str, value: T) -> Result<()> {
        let value = to_value(&value).map_err(|message| Error::bad_value("the signal", message))?;
        self.event(EventKind::Signal {
            name: name.into(),
            value,
        });
        Ok(())
    }

    /// Which executions could be made now, in order.
    pub fn ready(&self) -> Vec<Arc<str>> {
        self.ready.iter().filter_map(begun).cloned().collect()
    }

    /// Make the next attempt and take its outcome in. False: there is nothing to do.
    pub async fn step(&mut self) -> bool {
        if let Some(effect) = self.ready.pop_front() {
            let kind = self.perform(effect).await;
            kind.into_iter().for_each(|kind| self.event(kind));
            return true;
        }
        let Some(due) = self.state.next_wake() else {
            return false;
        };
        self.now = self.now.max(due);
        self.event(EventKind::Timer);
        true
    }

    /// Go on until there is nothing to do.
    pub async fn run(&mut self) -> &mut Self {
        while self.step().await {}
        self
    }

    pub fn status(&self) -> Status {
        self.state.status()
    }

    /// The result of every input that has one, in the order in which they settled.
    pub fn results(&self) -> &[(Arc<str>, Settled)] {
        &self.results
    }

    /// The values of the inputs that have one.
    pub fn values(&self) -> Vec<Value> {
        let values = self.results.iter().filter_map(|(_, result)| match result {
            Settled::Done(value) => Some(value.clone()),
            Settled::Failed(_) | Settled::Cancelled => None,
        });
        values.collect()
    }

    /// Everything that happened.
    pub fn journal(&self) -> &[Event] {
        &self.journal
    }

    fn event(&mut self, kind: EventKind) {
        let event = Event::new(self.now, kind);
        let mut effects = Vec::new();
        if fold(
            self.flow.plan(),
            &mut self.state,
            event.clone(),
            &mut effects,
        ) != Progress::Ignored
        {
            self.journal.push(event);
        }
        for effect in effects {
            match effect {
                Effect::Dispatch(_) | Effect::StartChild(_) => self.ready.push_back(effect),
                Effect::CancelAttempt { execution, .. } | Effect::CancelChild { execution, .. } => {
                    self.ready
                        .retain(|waiting| begun(waiting) != Some(&execution));
                }
                Effect::InputSettled { input, result } => self.results.push((input, result)),
                Effect::Send(_) | Effect::Telemetry(_) => {}
                Effect::Complete { .. } | Effect::Fail { .. } | Effect::Cancelled => {}
            }
        }
    }

    async fn perform(&mut self, effect: Effect) -> Option<EventKind> {
        match effect {
            Effect::Dispatch(dispatch) => {
                let function = self.flow.function(&dispatch.action);
                let result = match function {
                    Some(function) => function(dispatch.with).await,
                    None => Err(Failure::new(
                        failure::kind::UNKNOWN_ACTION,
                        &*dispatch.action,
                    )),
                };
                let result = result.map_or_else(Settled::failed, Settled::Done);
                let (execution, attempt, epoch) =
                    (dispatch.execution, dispatch.attempt, dispatch.epoch);
                let started_at = Some(self.now);
                let worker = None;
                let log = None;
                let outcome = Outcome {
                    execution,
                    attempt,
                    epoch,
                    result,
                    started_at,
                    worker,
                    log,
                };
                Some(EventKind::Outcome(Box::new(outcome)))
            }
            Effect::StartChild(child) => {
                let execution = Arc::clone(&child.execution);
                let id = child.child;
                Some(EventKind::Child {
                    execution,
                    child: id,
                    result: self.child(*child).await,
                })
            }
            Effect::CancelAttempt { .. }
            | Effect::CancelChild { .. }
            | Effect::Send(_)
            | Effect::InputSettled { .. }
            | Effect::Complete { .. }
            | Effect::Fail { .. }
            | Effect::Cancelled
            | Effect::Telemetry(_) => None,
        }
    }

    /// How a child ends; of a detached one only that it is there.
    async fn child(&self, child: StartChild) -> Settled {
        let Some(flow) = self
            .flow
            .children()
            .iter()
            .find(|flow| flow.name() == &*child.workflow)
        else {
            return Settled::failed(Failure::new(
                failure::kind::UNKNOWN_WORKFLOW,
                &*child.workflow,
            ));
        };
        let schema = &flow.definition().input;
        if let Err(unfit) = client::validate_input(flow.name(), schema, &child.input) {
            return Settled::failed(Failure::new(failure::kind::BAD_INPUT, unfit.to_string()));
        }
        let mut hand = flow.by_hand();
        hand.event(EventKind::Input(Box::new(Fed::new("child", child.input))));
        Box::pin(hand.run()).await;
        let result = hand
            .results
            .pop()
            .map_or(Settled::Cancelled, |(_, result)| result);
        if child.detached {
            Settled::Done(Value::Null)
        } else {
            result
        }
    }
}

/// The execution that an effect begins.
fn begun(effect: &Effect) -> Option<&Arc<str>> {
    match effect {
        Effect::Dispatch(dispatch) => Some(&dispatch.execution),
        Effect::StartChild(child) => Some(&child.execution),
        Effect::CancelAttempt { .. }
        | Effect::CancelChild { .. }
        | Effect::Send(_)
        | Effect::InputSettled { .. }
        | Effect::Complete { .. }
        | Effect::Fail { .. }
        | Effect::Cancelled
        | Effect::Telemetry(_) => None,
    }
}
