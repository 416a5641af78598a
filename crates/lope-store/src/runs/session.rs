//! Sessions: a runner's place in the registry. One heartbeat extends every lease it holds.

use lope_model::{Moment, RunnerId, Span, Timestamp};
use thiserror::Error;

use super::serves::Serves;

/// A runner enters the registry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    pub runner: RunnerId,
    pub name: String,
    pub host: String,
    pub pid: u32,
    /// What names its process among all that ever were; empty: nobody can tell when it is gone.
    pub process: String,
    /// The program's version, for people.
    pub program: String,
    /// What it claims; nothing, if it works on its own runs alone.
    pub serves: Serves,
    /// How long a session lives without a heartbeat.
    pub lease: Span,
}

/// The session was held at this reading of the store's clock, and is until `expires` on the same
/// clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beat {
    pub now: Timestamp,
    pub moment: Moment,
    pub expires: Moment,
}

/// The session has ended: everything the runner owned may belong to others. It must stop its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the runner's session has ended; its runs may belong to others")]
pub struct SessionLost;

/// An answer that only a held session gets: registered, not ended, not expired by the store's
/// clock. One that has expired cannot be revived, whether anybody has taken over yet or not; the
/// process registers as a new runner.
pub type SessionResult<T> = Result<T, SessionLost>;

/// Look for dead sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Takeover {
    /// Most runs to put back at a time.
    pub limit: usize,
}

/// What a takeover did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TakenOver {
    /// Sessions that were ended.
    pub ended: Vec<RunnerId>,
    /// Runs put back into the queue.
    pub runs: u64,
    /// Is there more to put back?
    pub more: bool,
}

/// A runner as the registry knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunnerRecord {
    pub runner: RunnerId,
    pub name: String,
    pub host: String,
    pub pid: u32,
    pub process: String,
    pub program: String,
    pub serves: Serves,
    pub started_at: Timestamp,
    pub heartbeat_at: Timestamp,
    /// Does its session live, by the store's clock?
    pub live: bool,
    /// When its session ended, if it did.
    pub ended_at: Option<Timestamp>,
    /// How many runs it owns.
    pub owns: u64,
}
