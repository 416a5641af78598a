//! The client: a store that is opened to look at runs and to steer them, without working on them.
//!
//! One call for each thing that the command line can do with a store. Whoever also works has a
//! [`Runner`](crate::Runner), which gives its client. A client decides nothing about runs: it asks
//! the store, folds journals by the law and sends mail.

mod counts;
mod documents;
mod input;
mod mailbox;
mod prune;
mod runs;
mod schedules;
mod start;
mod steer;
mod store_check;
mod upkeep;
mod workflows;

use std::sync::Arc;

use lope_engine::QueueLimits;
use lope_engine::plans::Plans;
use lope_store::{Store, StoreResult};

use crate::error::{Error, Result};
use crate::stores::{self, CreateStore, StoreUrl};

pub use prune::{PruneChoice, PrunedRuns};
pub use runs::{JournalEntry, RECENT_ROWS, RecentHistory};
pub use schedules::FireError;
pub use start::PreparedRun;
pub use steer::Steering;
pub use workflows::DeployedWorkflow;

/// A store, opened to look and to steer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    store: Store,
    /// Plans that were asked for, for all copies.
    plans: Arc<Plans>,
    /// What queues say about runs that are started here.
    queue_limits: Arc<QueueLimits>,
    /// Somebody else's: it is not closed here.
    is_lent: bool,
}

impl Client {
    /// The store that a URL names: `memory:`, `sqlite:PATH`, `postgres://…`. It is made if it is
    /// missing.
    pub async fn open(url: &str) -> Result<Self> {
        let url: StoreUrl = url.parse().map_err(|error| Error::BadOption {
            option: "url",
            message: format!("{error}"),
        })?;
        Ok(Self::open_store(&url, CreateStore::IfMissing).await?)
    }

    /// The same, where one that is missing may be left alone.
    pub async fn open_store(url: &StoreUrl, create: CreateStore) -> StoreResult<Self> {
        stores::open(url, create).await.map(Self::new)
    }

    /// A client of a store that is open, whoever wrote it.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            plans: Arc::default(),
            queue_limits: Arc::default(),
            is_lent: false,
        }
    }

    /// The same with what settings say about queues: runs that are started without a priority get
    /// their queue's.
    #[must_use]
    pub fn with_queue_limits(mut self, limits: &QueueLimits) -> Self {
        self.queue_limits = Arc::new(limits.clone());
        self
    }

    pub fn queue_limits(&self) -> &QueueLimits {
        &self.queue_limits
    }

    /// The same for somebody who may use it and not end it: closing it closes nothing.
    pub fn lent(&self) -> Self {
        let is_lent = true;
        Self {
            is_lent,
            ..self.clone()
        }
    }

    /// The store behind it.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// End: what others hold of the store answers no more.
    pub async fn close(&self) -> StoreResult<()> {
        if self.is_lent {
            return Ok(());
        }
        self.store.upkeep.close().await
    }
}
