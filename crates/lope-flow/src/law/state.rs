//! The state of a run: what is alive, and nothing of what is over.
//!
//! Blocks that are open (`Act`) and steps that take time (`Exec`) live in two arenas and refer to
//! each other by key, so that no nesting is ever recursed into. Everything else is small: inputs,
//! timers, signals nobody wanted yet, accumulators.

mod act;
mod exec;
mod heap;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use foldhash::HashMap;
use lope_model::{Epoch, Failure, Priority, RunId, Timestamp, Value, VersionId};
use serde::{Deserialize, Serialize};

pub(crate) use act::{Act, BlockStepState};
pub(crate) use exec::{
    Attempt, Begun, Branches, EachWork, ElementResults, Exec, Job, Phase, Sending, Sleeping, Timer,
    TryPhase, TryWork, Waiting, WhileWork, Work, WorkerJob,
};
pub(crate) use heap::Heap;

use super::arena::{Arena, Key};
use super::event::Fed;
use super::plan::Plan;

/// The state of a run. Made by folding events with `advance`; only the law looks inside.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct State {
    pub(crate) law: u32,
    pub(crate) version: VersionId,
    pub(crate) at: Timestamp,
    pub(crate) life: Life,
    #[serde(default)]
    pub(crate) run: Option<Identity>,
    pub(crate) epoch: Epoch,
    #[serde(default)]
    pub(crate) paused: Option<Arc<str>>,
    /// Were all inputs announced? Then the run ends with the last of them.
    pub(crate) closed: bool,

    pub(crate) acts: Arena<Act>,
    pub(crate) execs: Arena<Exec>,
    /// Boxed: the nodes of a tree are made for eleven.
    pub(crate) inputs: BTreeMap<u64, Box<Input>>,
    pub(crate) queue: VecDeque<Fed>,
    pub(crate) next_input: u64,

    /// Attempts that may start as soon as there is a slot, in order.
    pub(crate) ready: BTreeMap<ReadyKey, Key>,
    /// Children and messages that may go as soon as the run is not paused, in order.
    #[serde(rename = "posts")]
    pub(crate) outgoing: BTreeMap<ReadyKey, Key>,
    pub(crate) in_flight: u32,
    pub(crate) timers: BTreeMap<Timer, Alarm>,
    /// Signals that nobody wanted yet.
    pub(crate) signals: BTreeMap<Arc<str>, VecDeque<Value>>,
    pub(crate) buffered: usize,
    /// Steps that wait for a signal.
    pub(crate) waiters: BTreeMap<Arc<str>, VecDeque<Key>>,
    /// `state` steps that wait for earlier inputs, by the step of the root that holds them and by
    /// input.
    pub(crate) turns: BTreeMap<(u32, u64, u64), Key>,
    pub(crate) totals: BTreeMap<u32, Value>,
    /// What code in Python holds between its awaits; there with the first region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heap: Option<Box<Heap>>,
    /// Numbers given to ready steps and timers.
    pub(crate) counter: u64,
    /// Live `try` steps with a `finally` that has not ended.
    pub(crate) guards: u32,
    /// Child runs that somebody waits for.
    pub(crate) children: u32,
    #[serde(default)]
    pub(crate) halted: Option<Halted>,
    /// A step that is opened again, and how many attempts it had.
    #[serde(default)]
    pub(crate) resumed: Option<(Key, u32, u32)>,

    /// What is left to do for the event at hand; empty between events.
    pub(crate) tasks: VecDeque<WorkItem>,
    pub(crate) busy: bool,
    /// Fuel used by the event at hand, and whether a step has failed for it.
    pub(crate) spent: u64,
    pub(crate) warned: bool,
    /// Fuel used by all events so far.
    pub(crate) fuel: u64,
    pub(crate) digest: u64,

    /// Live attempts and children by the id of their execution.
    #[serde(skip)]
    pub(crate) index: HashMap<Arc<str>, Key>,
    /// What expressions see as `run`, made when the first one asks for it.
    #[serde(skip)]
    run_value: Derived,
}

/// A value that follows from the rest of a state: two states are equal whether it was asked for or
/// not.
#[derive(Clone, Debug, Default)]
struct Derived(OnceLock<Value>);

impl PartialEq for Derived {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Where a run is in its life.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Life {
    /// Not started.
    Fresh,
    Live,
    /// Was told to end; `finally` blocks run.
    Cancelling,
    Completed,
    Failed(Box<Failure>),
    Cancelled,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) id: RunId,
    pub(crate) seed: u64,
    pub(crate) open: bool,
    pub(crate) started_at: Timestamp,
    /// How often it was retried, from 1.
    pub(crate) attempt: u32,
    pub(crate) env: Value,
}

/// An input at work.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Input {
    #[serde(rename = "f")]
    pub(crate) fed: Fed,
    #[serde(rename = "r")]
    pub(crate) root: Key,
}

/// The place of something ready: higher priority first, then first come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct ReadyKey(u8, u64);

/// Whom a timer wakes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Alarm {
    Exec(Key),
    /// The grace of a cancel is over.
    Grace,
}

/// The step at which a run failed, kept so that it can go on from there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Halted {
    /// The step, unless it was the input as a whole.
    pub(crate) step: Option<(Key, u32)>,
    /// Attempts that it had.
    pub(crate) attempts: u32,
    /// What was still to be done when it failed.
    pub(crate) tasks: VecDeque<WorkItem>,
    /// The input to begin again with, where no step can go on.
    pub(crate) fed: Option<Fed>,
}

/// One thing to do for the event at hand.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkItem {
    /// A step's needs are settled.
    Open { act: Key, step: u32 },
    /// A block has ended; tell whoever holds it.
    Ended { exec: Key, lane: u64, end: End },
    /// The root block of an input has ended.
    InputEnded { input: u64, end: End },
    /// A block shall be left.
    Leave { act: Key, exit: Exit },
    /// An `each` may open more elements.
    Fill { exec: Key },
    /// The next timer that is due fires.
    Timers,
    /// The next `state` under a step of the root may have its turn.
    Turns { top: u32 },
    /// A child or a message was let through.
    #[serde(rename = "post")]
    Outgoing { exec: Key },
}

/// How a block ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Done(Value),
    Exit(Exit),
}

/// Why a block is left before its steps are settled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exit {
    Failed(Box<Failure>),
    Return(Value),
    Break,
    Continue,
    /// Somebody around it decided so.
    Cancelled,
}

impl ReadyKey {
    pub(crate) fn new(priority: Priority, number: u64) -> Self {
        Self(Priority::HIGHEST.level() - priority.level(), number)
    }
}

impl State {
    /// The state of a run of which nothing is known yet; the first event must be `Start`.
    pub fn new(plan: &Plan) -> Self {
        Self {
            law: crate::LAW,
            version: plan.version(),
            at: Timestamp::from_millis(i64::MIN),
            life: Life::Fresh,
            run: None,
            epoch: Epoch::default(),
            paused: None,
            closed: false,
            acts: Arena::default(),
            execs: Arena::default(),
            inputs: BTreeMap::new(),
            queue: VecDeque::new(),
            next_input: 0,
            ready: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            in_flight: 0,
            timers: BTreeMap::new(),
            signals: BTreeMap::new(),
            buffered: 0,
            waiters: BTreeMap::new(),
            turns: BTreeMap::new(),
            totals: BTreeMap::new(),
            heap: None,
            counter: 0,
            guards: 0,
            children: 0,
            halted: None,
            resumed: None,
            tasks: VecDeque::new(),
            busy: false,
            spent: 0,
            warned: false,
            fuel: 0,
            digest: 0,
            index: HashMap::default(),
            run_value: Derived::default(),
        }
    }

    /// The law its journal is written under.
    pub const fn law(&self) -> u32 {
        self.law
    }

    pub const fn version(&self) -> VersionId {
        self.version
    }

    /// The time of the last event.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The epoch of the attempts opened last.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The part of the digest that goes with every row.
    pub const fn short_digest(&self) -> u32 {
        (self.digest ^ (self.digest >> 32)) as u32
    }

    /// A short digest of everything that happened so far and what it led to. A replay that gives
    /// another has diverged.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// How much work all events so far took. What the rows behind a snapshot cost to fold again is
    /// the difference.
    pub const fn fuel(&self) -> u64 {
        self.fuel
    }

    /// Is an event half done? Then `resume_slice` must be called until it is not.
    pub const fn is_busy(&self) -> bool {
        self.busy
    }

    /// How many blocks and steps are alive: what the size of the state depends on.
    pub fn live(&self) -> usize {
        self.acts.len() + self.execs.len()
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Fills in what is derived from the rest.
    pub(crate) fn rebuild(&mut self) {
        self.index = self
            .execs
            .iter()
            .filter_map(|(key, exec)| exec.path.as_ref().map(|path| (Arc::clone(path), key)))
            .collect();
        self.run_value = Derived::default();
    }

    pub(crate) fn run_value(&self) -> &Value {
        self.run_value
            .0
            .get_or_init(|| self.run.as_ref().map_or(Value::Null, Identity::to_value))
    }
}

impl Identity {
    pub(crate) fn to_value(&self) -> Value {
        Value::map([
            ("id", Value::str(self.id.to_string())),
            ("attempt", Value::Int(self.attempt.into())),
            ("started_at", Value::str(self.started_at.to_string())),
        ])
    }
}
