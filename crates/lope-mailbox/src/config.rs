//! What a worker may be told: who it is, how much it takes at once, how it tries again, how long it
//! remembers.

use std::fmt;
use std::sync::Arc;

use lope_model::Span;
use lope_store::tables::marker::{Bootstrap, SchemaVersion};
use lope_store::tables::{Manifest, TableSpec};

use crate::key::WorkerId;
use crate::law::retry::Retry;
use crate::limit;
use crate::record::Owner;

/// Tells whether an owner of leases is known to be dead, so that nobody waits for its leases to
/// end.
pub type IsGone = Arc<dyn Fn(&Owner) -> bool + Send + Sync>;

#[derive(Clone)]
pub struct ConsumerConfig {
    pub worker: WorkerId,
    /// The name under which leases are held: unique among those that live, and kept over a restart
    /// if it is to claim again at once what it held.
    pub owner: Owner,
    /// Most messages of one tick, inbox and due timers together; at most `limit::BATCH_MAX`.
    pub max_batch: usize,
    /// How long a claim holds without being renewed.
    pub lease: Span,
    pub retry: Retry,
    /// How long a message that asked for it is remembered.
    pub dedupe_window: Span,
    /// Longest sleep of an idle worker.
    pub max_idle: Span,
    /// How long a handled message may wait for the commit while the next one is still being
    /// handled.
    pub group_wait: Span,
    pub boot: Boot,
    pub is_gone: Option<IsGone>,
}

/// Which tables a worker needs, and what guards them.
#[derive(Clone, Debug)]
pub struct Boot {
    pub tables: Vec<TableSpec>,
    pub schema: SchemaVersion,
    pub bootstrap: Bootstrap,
}

impl ConsumerConfig {
    pub fn new(worker: WorkerId, owner: Owner) -> Self {
        Self {
            worker,
            owner,
            max_batch: 64,
            lease: Span::from_secs(15),
            retry: Retry::default(),
            dedupe_window: Span::from_secs(24 * 60 * 60),
            max_idle: Span::from_secs(1),
            group_wait: Span::from_millis(5),
            boot: Boot::default(),
            is_gone: None,
        }
    }

    pub(crate) fn batch(&self) -> usize {
        self.max_batch.clamp(1, limit::BATCH_MAX)
    }
}

impl Default for Boot {
    fn default() -> Self {
        let tables = Manifest::standard().specs().to_vec();
        Self {
            tables,
            schema: SchemaVersion::CURRENT,
            bootstrap: Bootstrap::Create,
        }
    }
}

impl fmt::Debug for ConsumerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("worker", &self.worker)
            .field("owner", &self.owner)
            .field("max_batch", &self.max_batch)
            .finish_non_exhaustive()
    }
}
