//! A handle on the memory: takes the lock of a door, unless the handle was closed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use lope_model::Clock;

use super::state::RunState;
use super::tables::TableState;
use crate::error::{StoreError, StoreResult};
use crate::watch::Bell;

/// What all handles share.
pub(super) struct Home {
    pub(super) clock: Arc<dyn Clock>,
    runs: Mutex<RunState>,
    pub(super) runs_bell: Bell,
    tables: Mutex<TableState>,
    pub(super) tables_bell: Bell,
}

/// One opening of the memory: closing it leaves the others open.
pub(super) struct Handle {
    pub(super) home: Arc<Home>,
    closed: AtomicBool,
}

impl Home {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let (runs_bell, tables_bell) = (Bell::default(), Bell::default());
        Self { clock, runs: Mutex::default(), runs_bell, tables: Mutex::default(), tables_bell }
    }
}

impl Handle {
    pub(super) fn on(home: &Arc<Home>) -> Self {
        Self { home: Arc::clone(home), closed: AtomicBool::new(false) }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn runs(&self) -> StoreResult<MutexGuard<'_, RunState>> {
        self.locked(&self.home.runs)
    }

    pub(super) fn tables(&self) -> StoreResult<MutexGuard<'_, TableState>> {
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
