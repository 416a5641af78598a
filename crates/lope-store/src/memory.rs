//! The store kept in memory: the same promises as any other, inside one process, for as long as the
//! process lives.
//!
//! Three locks, one a door; a verb takes its lock once, so each is all or nothing. What a run's place
//! in the queue is lives in `place`, what is kept of a run in `entry`; every other file is a verb.
//! Clones and handles share one memory.

mod admit;
mod board;
mod board_door;
mod claim;
mod commit;
mod definition;
mod deliver;
mod handle;
mod heartbeat;
mod prune;
mod query;
mod queue_index;
mod run_entry;
mod runs_door;
mod schedule;
mod session;
mod state;
mod tables;
mod tables_door;
mod takeover;
mod upkeep;

use std::sync::Arc;

use lope_model::{Clock, limit};

use self::handle::{Handle, MemoryInner};
use self::state::RunState;
use crate::clock::SystemClock;
use crate::store::Store;

/// One memory, on which any number of handles may be opened.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    inner: Arc<MemoryInner>,
}

impl MemoryStore {
    /// A new, empty store on the machine's clock.
    pub fn open() -> Store {
        Self::with_clock(Arc::new(SystemClock::default()))
    }

    /// A new, empty store on this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Store {
        Self::new(clock).handle()
    }

    /// A new, empty store in which there is room for so much mail that anybody sends to a run, as if
    /// all the rest waited already: to see what becomes of a run whose mail is full.
    pub fn with_room(clock: Arc<dyn Clock>, room: u64) -> Store {
        let runs = RunState {
            mail_ahead: limit::MAIL_MAX.saturating_sub(room),
            ..RunState::default()
        };
        let inner = Arc::new(MemoryInner::new(clock, runs));
        Self { inner }.handle()
    }

    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            inner: Arc::new(MemoryInner::new(clock, RunState::default())),
        }
    }

    /// Another handle on the same memory, as another process would open a file.
    pub fn handle(&self) -> Store {
        let handle = Arc::new(Handle::on(&self.inner));
        Store {
            tables: handle.clone(),
            runs: handle.clone(),
            board: handle.clone(),
            upkeep: handle,
        }
    }
}
