//! What the threads and doors of one open store hold together: its files, limits, clock, notifiers,
//! locks of its runners, and what it knows of the log and the manifest.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, RwLock};

use lope_store::tables::Manifest;
use lope_store::watch::Notifier;

use crate::files::StoreFiles;
use crate::options::SqliteOptions;
use crate::prune_pace::PrunePace;
use crate::runner_locks::RunnerLocks;

/// The common ground of one open store.
#[derive(Debug)]
pub(crate) struct SqliteInner {
    pub(crate) files: StoreFiles,
    pub(crate) options: SqliteOptions,
    pub(crate) notifiers: Notifiers,
    pub(crate) runner_locks: RunnerLocks,
    pub(crate) log: WalState,
    /// The manifest as this process read it last; it only grows.
    pub(crate) manifest: RwLock<Option<Arc<Manifest>>>,
    /// How much pruning takes at a time.
    pub(crate) prune_pace: Mutex<PrunePace>,
    /// Schedules that were named because they are damaged.
    pub(crate) told_schedules: Mutex<BTreeSet<String>>,
}

/// One notifier for each door.
#[derive(Debug, Default)]
pub(crate) struct Notifiers {
    pub(crate) runs: Notifier,
    pub(crate) tables: Notifier,
}

/// What is known of the write-ahead log.
#[derive(Debug, Default)]
pub(crate) struct WalState {
    /// Its length in pages after this process's last commit.
    pub(crate) pages: AtomicU32,
    /// Nearly all of it is in the database: the next writer may start it over.
    pub(crate) spent: AtomicBool,
}

impl SqliteInner {
    pub(crate) fn new(files: StoreFiles, options: SqliteOptions) -> Self {
        let runner_locks = RunnerLocks::new(&files);
        Self {
            files,
            options,
            notifiers: Notifiers::default(),
            runner_locks,
            log: WalState::default(),
            manifest: RwLock::new(None),
            prune_pace: Mutex::default(),
            told_schedules: Mutex::default(),
        }
    }
}

impl Notifiers {
    pub(crate) fn notify_all_doors(&self) {
        self.runs.notify();
        self.tables.notify();
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.runs.is_watched() || self.tables.is_watched()
    }
}
