//! A handle on the memory: takes the lock of a door, unless the handle was closed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use lope_model::Clock;

use super::board::BoardState;
use super::state::RunState;
use super::tables::TableState;
use crate::error::{StoreError, StoreResult};
use crate::watch::Notifier;

/// What all handles share.
pub(super) struct MemoryInner {
    pub(super) clock: Arc<dyn Clock>,
    runs: Mutex<RunState>,
    pub(super) runs_notifier: Notifier,
    board: Mutex<BoardState>,
    tables: Mutex<TableState>,
    pub(super) tables_notifier: Notifier,
}

/// One opening of the memory: closing it leaves the others open.
pub(super) struct Handle {
    pub(super) inner: Arc<MemoryInner>,
    closed: AtomicBool,
}

impl MemoryInner {
    pub(super) fn new(clock: Arc<dyn Clock>, runs: RunState) -> Self {
        let (runs_notifier, tables_notifier) = (Notifier::default(), Notifier::default());
        Self {
            clock,
            runs: Mutex::new(runs),
            runs_notifier,
            board: Mutex::default(),
            tables: Mutex::default(),
            tables_notifier,
        }
    }
}

impl Handle {
    pub(super) fn on(inner: &Arc<MemoryInner>) -> Self {
        Self {
            inner: Arc::clone(inner),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn runs(&self) -> StoreResult<MutexGuard<'_, RunState>> {
        self.locked(&self.inner.runs)
    }

    pub(super) fn board(&self) -> StoreResult<MutexGuard<'_, BoardState>> {
        self.locked(&self.inner.board)
    }

    pub(super) fn tables(&self) -> StoreResult<MutexGuard<'_, TableState>> {
        self.locked(&self.inner.tables)
    }

    /// A verb that panicked may have stopped half-way; nobody reads what it left.
    fn locked<'a, T>(&self, state: &'a Mutex<T>) -> StoreResult<MutexGuard<'a, T>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        state
            .lock()
            .map_err(|_| StoreError::corrupt("a verb panicked while it held the memory"))
    }
}

impl fmt::Debug for MemoryInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryInner({:?})", self.clock)
    }
}
