//! How a store file is opened: where it is, what may be done to it, and the limits it works under.
//!
//! Every limit has a default that suits one machine; whoever opens the store may change it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lope_model::Clock;
pub use lope_store::Access;

use crate::clock::{BootClock, boot_id};

/// Most jobs that wait for the writer; further callers wait before they are let in.
pub(crate) const WRITER_QUEUE_MAX: usize = 4_096;
/// Most reads that wait for a reader.
pub(crate) const READER_QUEUE_MAX: usize = 4_096;
/// How large a database may grow unless told otherwise: 4 TB.
const PAGES_MAX: u32 = 1 << 30;
/// How often the file is looked at for changes by other processes, while somebody watches.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(250);
/// How long an ended runner stays in the registry.
pub(crate) const RUNNER_MEMORY: lope_model::Span = lope_model::Span::from_secs(30 * 24 * 3_600);

/// What may happen to a file that does not exist yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateFile {
    IfMissing,
    Never,
}

/// Where one transaction of the writer ends, so that other processes get their turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransactionLimits {
    /// No further job joins a group that holds this many rows.
    pub rows: usize,
    /// No further job joins a group that has been open this long.
    pub time: Duration,
}

/// How large the write-ahead log may grow, in pages of 4 kB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalLimits {
    /// From here the elected checkpointer copies pages back, beside the writers.
    pub checkpoint: u32,
    /// From here writers wait for it between two groups.
    pub pressure: u32,
    /// From here writers are refused (`Unavailable`): somebody keeps an old snapshot open.
    pub stop: u32,
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub path: PathBuf,
    pub create: CreateFile,
    pub access: Access,
    /// Reading connections, each with a thread of its own.
    pub readers: usize,
    pub group: TransactionLimits,
    pub wal: WalLimits,
    /// How large the database may grow, in pages of 4 kB; beyond, writes answer `Full`.
    pub pages_max: u32,
    /// How long to wait for locks of other processes before a caller is told `Unavailable`.
    pub patience: Duration,
    /// How much longer every flush takes than the disk's own: nothing, but where a slower disk is
    /// to be measured.
    pub slower_flush: Duration,
    /// What time it is, and the moment that judges leases.
    pub clock: Arc<dyn Clock>,
    /// Which boot the clock's moments belong to.
    pub boot_id: String,
}

impl SqliteOptions {
    /// The store at `path`, created if it is missing, with the limits that suit one machine.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            create: CreateFile::IfMissing,
            access: Access::ReadWrite,
            readers: 2,
            group: TransactionLimits::default(),
            wal: WalLimits::default(),
            pages_max: PAGES_MAX,
            patience: Duration::from_secs(30),
            slower_flush: Duration::ZERO,
            clock: Arc::new(BootClock),
            boot_id: boot_id(),
        }
    }

    /// For looking only: the file must exist and is never written.
    pub fn read_only(path: impl Into<PathBuf>) -> Self {
        Self {
            create: CreateFile::Never,
            access: Access::ReadOnly,
            ..Self::new(path)
        }
    }

    /// The store at `path`, which must exist.
    pub fn existing(path: impl Into<PathBuf>) -> Self {
        Self {
            create: CreateFile::Never,
            ..Self::new(path)
        }
    }
}

impl Default for TransactionLimits {
    fn default() -> Self {
        Self {
            rows: 10_000,
            time: Duration::from_millis(20),
        }
    }
}

impl Default for WalLimits {
    fn default() -> Self {
        Self {
            checkpoint: 4_096,
            pressure: 32_768,
            stop: 262_144,
        }
    }
}
