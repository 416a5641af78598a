//! The store kept in memory: the same promises as any other, inside one process, for as long as the process lives.
//!
//! Two locks, one a door; a verb takes its lock once, so each is all or nothing. What a run's place in the queue is lives in
//! `place`, what is kept of a run in `entry`; every other file is a verb. Clones and handles share one memory.

mod admit;
mod claim;
mod commit;
mod definition;
mod deliver;
mod door;
mod entry;
mod place;
mod prune;
mod query;
mod session;
mod state;
mod tables;
mod upkeep;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use lope_model::Clock;

use self::state::RunState;
use self::tables::TableState;
use crate::clock::SystemClock;
use crate::error::{StoreError, StoreResult};
use crate::store::Store;
use crate::watch::Bell;

/// One memory, on which any number of handles may be opened.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    home: Arc<Home>,
}

/// What all handles share.
struct Home {
    clock: Arc<dyn Clock>,
    runs: Mutex<RunState>,
    runs_bell: Bell,
    tables: Mutex<TableState>,
    tables_bell: Bell,
}

/// One opening of the memory: closing it leaves the others open.
struct Handle {
    home: Arc<Home>,
    closed: AtomicBool,
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

    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let home = Home {
            clock,
            runs: Mutex::default(),
            runs_bell: Bell::default(),
            tables: Mutex::default(),
            tables_bell: Bell::default(),
        };
        Self { home: Arc::new(home) }
    }

    /// Another handle on the same memory, as another process would open a file.
    pub fn handle(&self) -> Store {
        let handle = Arc::new(Handle { home: Arc::clone(&self.home), closed: AtomicBool::new(false) });
        Store { tables: handle.clone(), runs: handle.clone(), upkeep: handle }
    }
}

impl Handle {
    fn runs(&self) -> StoreResult<MutexGuard<'_, RunState>> {
        self.locked(&self.home.runs)
    }

    fn tables(&self) -> StoreResult<MutexGuard<'_, TableState>> {
        self.locked(&self.home.tables)
    }

    /// A verb that panicked may have stopped half-way; nobody reads what it left.
    fn locked<'a, T>(&self, state: &'a Mutex<T>) -> StoreResult<MutexGuard<'a, T>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        state.lock().map_err(|_| StoreError::corrupt("a verb panicked while it held the memory"))
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Home({:?})", self.clock)
    }
}
