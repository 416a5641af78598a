//! Schedules: what starts runs again and again. Here is what a user says of one, what is known of
//! it, and how both are kept.
//!
//! `timing` says when its ticks are, `ticks` which of them have come, `decide` what becomes of
//! them: all pure, time comes in. `store` writes schedules into a store. Runs are started by the
//! engine (`fire`), since it knows how one begins.

pub mod decide;
pub mod store;
mod ticks;
pub mod timing;
pub mod validate;

use std::collections::{BTreeMap, VecDeque};

use lope_model::{Priority, QueueName, Span, Timestamp, Value};
use lope_store::runs::StoredSchedule;
use lope_store::{StoreError, StoreResult};
use serde::{Deserialize, Serialize};

use crate::timing::Timing;

/// The tag by which the runs of a schedule are found: its name.
pub const TAG: &str = "schedule";
/// The tag that says for which tick a run was started.
pub const TICK_TAG: &str = "tick";

/// What a user says of a schedule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Schedule {
    pub name: String,
    /// By name: a tick starts the version that was deployed last when it came.
    pub workflow: String,
    #[serde(default)]
    pub input: Value,
    pub timing: Timing,
    /// Ticks start up to so much later, each by an amount of its own that every runner computes
    /// alike.
    #[serde(default)]
    pub jitter: Span,
    /// No tick before this time,
    #[serde(default)]
    pub from: Option<Timestamp>,
    /// and none after this one.
    #[serde(default)]
    pub until: Option<Timestamp>,
    #[serde(default)]
    pub overlap: Overlap,
    #[serde(default)]
    pub catch_up: CatchUp,
    #[serde(default)]
    pub queue: QueueName,
    #[serde(default)]
    pub priority: Priority,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// What expressions see as `env`.
    #[serde(default)]
    pub env: Value,
    #[serde(default)]
    pub paused: bool,
    pub added_at: Timestamp,
}

/// What becomes of a tick that comes while the schedule's last run is still going.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// It starts nothing.
    #[default]
    Skip,
    /// It waits until that run has ended.
    Queue,
    /// That run is cancelled, and the tick starts its own.
    CancelOther,
    /// It starts its run beside the other.
    Allow,
}

/// What becomes of ticks that came while nobody was there to start them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CatchUp {
    /// They are given up.
    None,
    /// The last of them starts its run, late.
    #[default]
    Last,
    /// Each starts its run, in order; of very many the last `limit::CATCH_UP_MAX`.
    All,
}

/// What is known of a schedule.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ScheduleState {
    /// The next tick that nothing has become of yet; absent: there is none.
    #[serde(default)]
    pub next: Option<Timestamp>,
    /// Ticks that wait for the last run to end.
    #[serde(default)]
    pub waiting: VecDeque<Timestamp>,
    /// The last tick that started a run.
    #[serde(default)]
    pub last_tick: Option<Timestamp>,
    #[serde(default)]
    pub counts: TickCounts,
    /// The last tick that could not start its run.
    #[serde(default)]
    pub trouble: Option<Trouble>,
}

/// What became of a schedule's ticks so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TickCounts {
    /// Started a run.
    pub fired: u64,
    /// Started none because another run was still going.
    pub skipped: u64,
    /// Came while nobody was there, and were given up. Of very many not all are counted.
    pub missed: u64,
    /// Could not start their run.
    pub failed: u64,
}

/// Why a tick started no run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trouble {
    pub tick: Timestamp,
    pub at: Timestamp,
    pub message: String,
}

/// A schedule and its standing, as they are kept together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ScheduleEntry {
    pub schedule: Schedule,
    pub standing: ScheduleState,
}

impl Schedule {
    /// A schedule that says when, and nothing else.
    pub fn new(name: &str, workflow: &str, timing: Timing, added_at: Timestamp) -> Self {
        Self {
            name: name.to_owned(),
            workflow: workflow.to_owned(),
            input: Value::Null,
            timing,
            jitter: Span::ZERO,
            from: None,
            until: None,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            queue: QueueName::default(),
            priority: Priority::default(),
            tags: BTreeMap::new(),
            env: Value::Null,
            paused: false,
            added_at,
        }
    }
}

impl Overlap {
    pub const ALL: [Self; 4] = [Self::Skip, Self::Queue, Self::CancelOther, Self::Allow];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Queue => "queue",
            Self::CancelOther => "cancel-other",
            Self::Allow => "allow",
        }
    }
}

impl CatchUp {
    pub const ALL: [Self; 3] = [Self::None, Self::Last, Self::All];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Last => "last",
            Self::All => "all",
        }
    }
}

impl ScheduleEntry {
    /// A schedule that begins now.
    pub fn new(schedule: Schedule, now: Timestamp) -> Self {
        let mut entry = Self {
            schedule,
            standing: ScheduleState::default(),
        };
        entry.begin(now);
        entry
    }

    /// When it must be looked at.
    pub fn due(&self) -> Option<Timestamp> {
        let next = self.standing.next.filter(|_| !self.schedule.paused)?;
        Some(self.schedule.start_of(next))
    }

    /// Must it be looked at when its last run has ended?
    pub fn waits(&self) -> bool {
        !self.schedule.paused && !self.standing.waiting.is_empty()
    }

    pub fn encode(&self) -> Vec<u8> {
        rmp_serde::to_vec_named(self).expect("every schedule has a MessagePack form")
    }

    pub fn decode(stored: &StoredSchedule) -> StoreResult<Self> {
        let StoredSchedule { name, body, .. } = stored;
        let why = match rmp_serde::from_slice(body) {
            Ok(entry) => return Ok(entry),
            Err(_) if body.is_empty() => "its row is damaged".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(StoreError::corrupt(format!(
            "schedule '{name}' cannot be read: {why}; take it away: `lope schedules remove {name}`"
        )))
    }
}
