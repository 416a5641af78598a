//! Effects: what somebody outside must do because of an event. None may be done before the event is
//! durable (or as a checkpoint strategy allows).
//!
//! Timers are no effects: after every event `State::next_wake` says when the next `Timer` event is
//! due.

use std::sync::Arc;

use lope_definition::Recipient;
use lope_model::{Epoch, Failure, RunId, Timestamp, Value};

use super::event::Settled;
use super::handling::Handling;

/// Something to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Start an attempt.
    Dispatch(Box<Dispatch>),
    /// Stop an attempt; whatever it answers is ignored.
    CancelAttempt {
        execution: Arc<str>,
        attempt: u32,
        epoch: Epoch,
    },
    /// Admit a child run, in the commit of the event.
    StartChild(Box<StartChild>),
    /// Ask a child run to end.
    CancelChild {
        execution: Arc<str>,
        child: RunId,
    },
    /// Send a message or a signal, in the commit of the event. The execution makes it unique.
    Send(Box<Send>),
    /// An input has its result.
    InputSettled {
        input: Arc<str>,
        result: Settled,
    },
    /// The run has ended.
    Complete {
        result: Value,
    },
    Fail {
        failure: Failure,
    },
    Cancelled,
    /// For watchers only.
    Telemetry(Notice),
}

/// An attempt to be started.
#[derive(Clone, PartialEq, Debug)]
pub struct Dispatch {
    /// Its id in the run: names of steps and numbers of elements, as in `mail/3/send`.
    pub execution: Arc<str>,
    /// The path of its step in the definition, as in `mail/send`.
    pub step: Arc<str>,
    /// From 1.
    pub attempt: u32,
    pub epoch: Epoch,
    pub executor: Arc<str>,
    pub action: Arc<str>,
    pub with: Value,
    /// Is the run's heap an entry of `with`?
    pub heap: bool,
    pub handling: Arc<Handling>,
    pub idempotency_key: Option<Value>,
    /// At most so many at once among those with an equal key.
    pub concurrency: Option<(u32, Value)>,
    /// The input it works for.
    pub input: Arc<str>,
    /// A `Dispatched` event must be durable before it begins.
    pub announced: bool,
}

/// A child run to be admitted.
#[derive(Clone, PartialEq, Debug)]
pub struct StartChild {
    pub execution: Arc<str>,
    pub child: RunId,
    pub workflow: Arc<str>,
    pub input: Value,
    /// Nobody waits for it.
    pub detached: bool,
    pub handling: Arc<Handling>,
}

/// A message or signal to be sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Send {
    pub execution: Arc<str>,
    pub to: Recipient,
    pub target: Arc<str>,
    pub body: Value,
}

/// What watchers may like to know.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    Started,
    InputStarted {
        input: Arc<str>,
    },
    /// An attempt, or a child, has ended its step.
    StepSettled {
        execution: Arc<str>,
        step: Arc<str>,
        attempt: u32,
        failure: Option<Failure>,
    },
    /// An attempt failed and another will be made.
    Retrying {
        execution: Arc<str>,
        step: Arc<str>,
        failed: u32,
        at: Timestamp,
        failure: Failure,
    },
    /// The retries are spent and the fallback takes over.
    FellBack {
        execution: Arc<str>,
        step: Arc<str>,
        failure: Failure,
    },
    /// A signal came that nobody waits for, and too many wait already.
    SignalDropped {
        name: Arc<str>,
    },
}
