//! One store as the rooms above hold it: its doors, and its upkeep.
//!
//! Which backend stands behind them is known only to whoever opened it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Reading;
use crate::error::StoreResult;
use crate::moving::Moving;
use crate::runs::Runs;
use crate::tables::Tables;

/// A store: the doors that rooms use, cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub tables: Arc<dyn Tables>,
    pub runs: Arc<dyn Runs>,
    pub upkeep: Arc<dyn Upkeep>,
}

/// What `lope store check` found: nothing, in a sound store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which rule is broken: `schema`, `marker`, `journal`, `lease`, `mail`, `runs`, `schedules`,
    /// `tables`, `file`.
    pub rule: &'static str,
    pub message: String,
    pub hint: String,
}

/// Looking after a store from the command line.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// What kind of store this is and where, without secrets: `sqlite:/path`, `postgres://user@host/db`, `memory:`.
    fn describe(&self) -> String;
    /// What the clock that judges leases says. It is one for all processes that share the store.
    async fn reading(&self) -> StoreResult<Reading>;
    /// Prove the store sound: schema, marker, journal gaps, orphaned leases, file integrity.
    async fn check(&self) -> StoreResult<Vec<Finding>>;
    /// The schema as SQL text, as it is in the store now.
    async fn schema(&self) -> StoreResult<String>;
    /// Copy the store, online, into a new file. Stores that have tools of their own for it refuse and name them.
    async fn backup(&self, to: PathBuf) -> StoreResult<()>;
    /// The door through which the store is moved as a whole; none for stores that live no longer than their process.
    fn moving(&self) -> Option<&dyn Moving> {
        None
    }
    /// Finish what is under way and let go of files, threads and connections.
    async fn close(&self) -> StoreResult<()>;
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.upkeep.describe())
    }
}
