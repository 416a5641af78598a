//! Opening a store on Postgres.

use std::sync::Arc;

use lope_store::{Store, StoreResult};

use crate::inner::{Handle, PostgresInner};
use crate::options::PostgresOptions;

/// The store on a Postgres server: several machines, one queue.
#[derive(Debug, Clone, Copy)]
pub struct PostgresStore;

impl PostgresStore {
    /// Open the store, creating it if that is allowed. Must be called within a tokio runtime, where
    /// its tasks then live.
    pub async fn open(options: PostgresOptions) -> StoreResult<Store> {
        let handle = Arc::new(Handle(Arc::new(PostgresInner::open(options).await?)));
        let (tables, runs, board) = (handle.clone(), handle.clone(), handle.clone());
        Ok(Store {
            tables,
            runs,
            board,
            upkeep: handle,
        })
    }
}
