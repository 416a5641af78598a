//! Events: what comes to a run from outside. Each is one journal row, and the rows alone decide
//! what a run is.
//!
//! Field names are short because every row is stored; `law::codec` says how. Nothing here says what
//! an event leads to.

use std::sync::Arc;

use lope_definition::Rule;
use lope_model::{Epoch, Failure, RunId, Timestamp, Value};
use serde::{Deserialize, Serialize};

/// Something that happened, and when. Times never go back: an event that comes with an earlier time
/// than the last counts as happening with it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    pub at: Timestamp,
    #[serde(rename = "k")]
    pub kind: EventKind,
    /// The short digest of the state that it met: a replay that comes to another one has diverged.
    /// Absent in rows that were written before there was a state.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub met: Option<u32>,
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The run was admitted. Always the first event.
    Start(Box<Start>),
    /// An input was fed to the run.
    Input(Box<Fed>),
    /// An attempt ended.
    Outcome(Box<Outcome>),
    /// Time has passed: all timers due by now fire.
    Timer,
    /// A signal arrived.
    Signal {
        #[serde(rename = "n")]
        name: Arc<str>,
        #[serde(rename = "v", default, skip_serializing_if = "Value::is_null")]
        value: Value,
    },
    /// A child run ended.
    Child {
        #[serde(rename = "x")]
        execution: Arc<str>,
        #[serde(rename = "c")]
        child: RunId,
        #[serde(rename = "r")]
        result: Settled,
    },
    /// The run shall end. `finally` blocks still run, unless it is forced (or asked for twice).
    Cancel {
        #[serde(rename = "f", default, skip_serializing_if = "is_false")]
        force: bool,
    },
    /// Nothing more shall be dispatched.
    Pause {
        #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
    Resume,
    /// A new owner found open attempts: they are lost, new ones are opened under this epoch.
    Adopted {
        #[serde(rename = "e")]
        epoch: Epoch,
        /// How often an execution may be lost where its policy does not say; absent: as the law
        /// says.
        #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
        budget: Option<u32>,
    },
    /// A limit that many runs share did not let an attempt start before this time.
    Refused {
        #[serde(rename = "x")]
        execution: Arc<str>,
        #[serde(rename = "n")]
        attempt: u32,
        #[serde(rename = "e")]
        epoch: Epoch,
        #[serde(rename = "u")]
        until: Timestamp,
        #[serde(rename = "r")]
        reason: Arc<str>,
    },
    /// An attempt that is announced has its slot and is about to start.
    Dispatched {
        #[serde(rename = "x")]
        execution: Arc<str>,
        #[serde(rename = "n")]
        attempt: u32,
        #[serde(rename = "e")]
        epoch: Epoch,
    },
    /// An attempt has not begun and will not under this owner, which lets the run go.
    Returned {
        #[serde(rename = "x")]
        execution: Arc<str>,
        #[serde(rename = "n")]
        attempt: u32,
        #[serde(rename = "e")]
        epoch: Epoch,
    },
    /// A failed run goes on where it failed.
    Retry {
        #[serde(rename = "e")]
        epoch: Epoch,
    },
    /// An open run takes no more inputs and ends with those it has.
    Close,
    /// This run is a copy of another one's state: open attempts and children are started anew.
    Forked {
        run: RunId,
        #[serde(rename = "e")]
        epoch: Epoch,
    },
}

/// How a run begins.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Start {
    pub run: RunId,
    /// The law that the run is under, from its first row to its last; those of the first law do not
    /// say it.
    #[serde(
        rename = "l",
        default = "first_law",
        skip_serializing_if = "is_first_law"
    )]
    pub law: u32,
    /// What jitter is derived from.
    pub seed: u64,
    #[serde(rename = "e", default)]
    pub epoch: Epoch,
    /// Does it stay open for more inputs?
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
    /// What expressions see as `env`: a map of names that were allowed, captured at admission.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub env: Value,
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Fed>,
}

/// An input.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fed {
    /// An input with the id of one that is still at work is a duplicate.
    pub id: Arc<str>,
    #[serde(rename = "v", default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
    /// Policies for this input alone; they win over the workflow's.
    #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Rule>,
}

/// How an attempt ended, and where it ran.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(rename = "x")]
    pub execution: Arc<str>,
    #[serde(rename = "n")]
    pub attempt: u32,
    #[serde(rename = "e")]
    pub epoch: Epoch,
    #[serde(rename = "r")]
    pub result: Settled,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Arc<str>>,
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Arc<str>>,
}

/// A value, or why there is none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    Done(Value),
    Failed(Box<Failure>),
    /// Only of children and inputs: it was cancelled.
    Cancelled,
}

impl Event {
    pub const fn new(at: Timestamp, kind: EventKind) -> Self {
        Self {
            at,
            kind,
            met: None,
        }
    }
}

impl EventKind {
    /// The word for it in journals that people read.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::Input(_) => "input",
            Self::Outcome(_) => "outcome",
            Self::Timer => "timer",
            Self::Signal { .. } => "signal",
            Self::Child { .. } => "child",
            Self::Cancel { .. } => "cancel",
            Self::Pause { .. } => "pause",
            Self::Resume => "resume",
            Self::Adopted { .. } => "adopted",
            Self::Refused { .. } => "refused",
            Self::Dispatched { .. } => "dispatched",
            Self::Returned { .. } => "returned",
            Self::Retry { .. } => "retry",
            Self::Close => "close",
            Self::Forked { .. } => "forked",
        }
    }

    /// The execution it speaks about, and its attempt.
    pub fn execution(&self) -> Option<(&Arc<str>, Option<u32>)> {
        match self {
            Self::Outcome(outcome) => Some((&outcome.execution, Some(outcome.attempt))),
            Self::Refused {
                execution, attempt, ..
            }
            | Self::Dispatched {
                execution, attempt, ..
            }
            | Self::Returned {
                execution, attempt, ..
            } => Some((execution, Some(*attempt))),
            Self::Child { execution, .. } => Some((execution, None)),
            Self::Start(_)
            | Self::Input(_)
            | Self::Timer
            | Self::Signal { .. }
            | Self::Cancel { .. } => None,
            Self::Pause { .. } | Self::Resume | Self::Adopted { .. } | Self::Retry { .. } => None,
            Self::Close | Self::Forked { .. } => None,
        }
    }
}

impl Fed {
    pub fn new(id: &str, value: Value) -> Self {
        Self {
            id: id.into(),
            value,
            policies: Vec::new(),
        }
    }
}

impl Settled {
    pub fn failed(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

const fn first_law() -> u32 {
    1
}

const fn is_first_law(law: &u32) -> bool {
    *law == first_law()
}

fn is_false(flag: &bool) -> bool {
    !*flag
}
