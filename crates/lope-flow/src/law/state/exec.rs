//! A step that takes time: work for others, waiting, or blocks of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use lope_definition::{Recipient, StepPolicy};
use lope_model::{Epoch, Failure, RunId, Timestamp, Value};
use serde::{Deserialize, Serialize};

use super::{End, ReadyKey};
use crate::law::arena::Key;

/// A timer: when it is due, and its number.
pub(crate) type Timer = (Timestamp, u64);

/// One execution that is not settled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Exec {
    #[serde(rename = "a")]
    pub(crate) act: Key,
    #[serde(rename = "s")]
    pub(crate) step: u32,
    /// Its id; made only for what others get to know.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<Arc<str>>,
    #[serde(rename = "w")]
    pub(crate) work: Work,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    Attempt(Box<Attempt>),
    Send(Box<Sending>),
    Sleep(Sleeping),
    Wait(Box<Waiting>),
    /// A `state` that waits for earlier inputs; its place in the order.
    Turn((u32, u64, u64)),
    /// One block: `if`, `switch`, `call`.
    Block(Key),
    Each(Box<EachWork>),
    While(Box<WhileWork>),
    #[serde(rename = "guard")]
    Try(Box<TryWork>),
    Race(Box<Branches>),
    All(Box<Branches>),
}

/// Work that is tried, again if need be: an action, or a child run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Attempt {
    #[serde(rename = "n")]
    pub(crate) number: u32,
    #[serde(rename = "p")]
    pub(crate) phase: Phase,
    #[serde(rename = "j")]
    pub(crate) job: Job,
    /// Failed attempts that count against the retries.
    #[serde(rename = "f")]
    pub(crate) failures: u32,
    /// Attempts lost with their runner.
    #[serde(rename = "l")]
    pub(crate) losses: u32,
    /// An owner that was lost may have begun it: from now on it is announced before it begins.
    #[serde(rename = "a", default, skip_serializing_if = "is_false")]
    pub(crate) announced: bool,
    #[serde(rename = "t")]
    pub(crate) first_at: Timestamp,
    #[serde(rename = "b")]
    pub(crate) fell_back: bool,
    /// Why the last attempt failed.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Box<Failure>>,
    /// The policy, if it is not the plan's because the input brought its own.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<Arc<StepPolicy>>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// May start when it is let through.
    Ready(ReadyKey),
    /// Started under this epoch; a child has an id and perhaps a timer for its timeout.
    InFlight {
        epoch: Epoch,
        child: Option<RunId>,
        timeout: Option<Timer>,
        #[serde(default, skip_serializing_if = "Begun::is_unknown")]
        begun: Begun,
    },
    /// Waits for its next attempt.
    Backoff(Timer),
    /// Was refused by a limit that many runs share.
    Refused { timer: Timer, reason: Arc<str> },
    /// Its run has failed elsewhere.
    Suspended,
}

/// Has an executor begun an attempt in flight?
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Begun {
    /// Nobody wrote it down.
    #[default]
    Unknown,
    /// It is announced before it begins, and was not yet; or its owner gave it back.
    No,
    Yes,
}

impl Begun {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
    const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Job {
    Worker(Box<WorkerJob>),
    Child {
        workflow: Arc<str>,
        input: Value,
        detached: bool,
    },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerJob {
    #[serde(rename = "x")]
    pub(crate) executor: Arc<str>,
    #[serde(rename = "a")]
    pub(crate) action: Arc<str>,
    #[serde(rename = "w")]
    pub(crate) with: Value,
    #[serde(
        rename = "i",
        default,
        skip_serializing_if = "Option::is_none",
        with = "held"
    )]
    pub(crate) idempotency_key: Option<Value>,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency: Option<(u32, Value)>,
    /// Does it work on the run's heap?
    #[serde(rename = "h", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) heap: bool,
}

/// A message that waits to be let through.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Sending {
    #[serde(rename = "t")]
    pub(crate) ready_key: ReadyKey,
    pub(crate) to: Recipient,
    #[serde(rename = "g")]
    pub(crate) target: Arc<str>,
    #[serde(rename = "b")]
    pub(crate) body: Value,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Sleeping {
    #[serde(rename = "u")]
    pub(crate) until: Timestamp,
    /// Absent while the run has failed elsewhere.
    #[serde(rename = "t")]
    pub(crate) timer: Option<Timer>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    #[serde(rename = "s")]
    pub(crate) signal: Arc<str>,
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Timestamp>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub(crate) timer: Option<Timer>,
}

/// An `each` at work.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct EachWork {
    #[serde(rename = "i")]
    pub(crate) items: Value,
    #[serde(rename = "n")]
    pub(crate) next: u64,
    #[serde(rename = "a")]
    pub(crate) acts: BTreeMap<u64, Key>,
    /// Absent if nobody wants them.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub(crate) results: Option<ElementResults>,
    /// Decided; waits for its open elements to be gone.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) ending: Option<End>,
}

/// Results in order: full chunks, the chunk being filled, and those that came early.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ElementResults {
    #[serde(rename = "c")]
    pub(crate) chunks: Vec<Value>,
    #[serde(rename = "t")]
    pub(crate) tail: Vec<Value>,
    #[serde(rename = "e")]
    pub(crate) early: BTreeMap<u64, Value>,
    #[serde(rename = "d")]
    pub(crate) done: u64,
    #[serde(rename = "w")]
    pub(crate) weight: usize,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct WhileWork {
    #[serde(rename = "n")]
    pub(crate) iterations: u64,
    #[serde(rename = "a")]
    pub(crate) act: Key,
}

/// A `try` at work.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct TryWork {
    #[serde(rename = "p")]
    pub(crate) phase: TryPhase,
    #[serde(rename = "a")]
    pub(crate) act: Key,
    /// How it will end when `finally` is through.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<End>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TryPhase {
    Body,
    Handler,
    Finally,
}

/// A `race` or `all` at work.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Branches {
    #[serde(rename = "a")]
    pub(crate) acts: BTreeMap<u64, Key>,
    #[serde(rename = "o")]
    pub(crate) outputs: BTreeMap<u64, Value>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) ending: Option<End>,
}

impl Attempt {
    pub(crate) fn new(job: Job, ready_key: ReadyKey, now: Timestamp) -> Self {
        Self {
            number: 1,
            phase: Phase::Ready(ready_key),
            job,
            failures: 0,
            losses: 0,
            announced: false,
            first_at: now,
            fell_back: false,
            last: None,
            policy: None,
        }
    }

    /// Does an attempt in flight take one of the run's slots?
    pub(crate) const fn takes_slot(&self) -> bool {
        matches!(self.job, Job::Worker(_))
    }

    /// What is known about an attempt in flight; of others nothing.
    pub(crate) const fn begun(&self) -> Begun {
        match self.phase {
            Phase::InFlight { begun, .. } => begun,
            Phase::Ready(_) | Phase::Backoff(_) | Phase::Refused { .. } | Phase::Suspended => {
                Begun::Unknown
            }
        }
    }

    pub(crate) const fn in_flight(&self) -> bool {
        matches!(self.phase, Phase::InFlight { .. })
    }

    /// The child on its way that nobody will wait for once it is there.
    pub(crate) const fn detached(&self) -> Option<RunId> {
        let detached = match &self.job {
            Job::Child { detached, .. } => *detached,
            Job::Worker(_) => false,
        };
        match &self.phase {
            Phase::InFlight { child, .. } if detached => *child,
            Phase::InFlight { .. }
            | Phase::Ready(_)
            | Phase::Backoff(_)
            | Phase::Refused { .. }
            | Phase::Suspended => None,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A value that is there, in a list of one: null is a value too.
mod held {
    use lope_model::Value;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::ref_option, reason = "serde hands the field over like this")]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Value>, D::Error> {
        Vec::deserialize(deserializer).map(|held| held.into_iter().next())
    }
}
