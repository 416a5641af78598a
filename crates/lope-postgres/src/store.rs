//! Opening a store on Postgres.

use std::sync::Arc;

use lope_store::{Store, StoreResult};

use crate::inner::{Handle, Inner};
use crate::options::Options;

/// The store on a Postgres server: several machines, one queue.
#[derive(Debug, Clone, Copy)]
pub struct PostgresStore;

impl PostgresStore {
    /// Open the store, creating it if that is allowed. Must be called within a tokio runtime, where its tasks then live.
    pub async fn open(options: Options) -> StoreResult<Store> {
        let handle = Arc::new(Handle(Arc::new(Inner::open(options).await?)));
        let (tables, runs) = (Arc::clone(&handle), Arc::clone(&handle));
        Ok(Store { tables, runs, upkeep: handle })
    }
}
