//! The door *Tables* with a hook before it.

use async_trait::async_trait;

use super::{Door, Faulty};
use crate::error::StoreResult;
use crate::tables::{At, Batch, BatchReply, Manifest, Range, Row, Tables};
use crate::watch::Watch;

const DOOR: Door = Door::Tables;

#[async_trait]
impl Tables for Faulty {
    async fn open(&self, manifest: &Manifest) -> StoreResult<()> {
        self.through(DOOR, "open", self.store.tables.open(manifest)).await
    }

    async fn manifest(&self) -> StoreResult<Manifest> {
        self.through(DOOR, "manifest", self.store.tables.manifest()).await
    }

    async fn get(&self, keys: &[At]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        self.through(DOOR, "get", self.store.tables.get(keys)).await
    }

    async fn range(&self, range: Range) -> StoreResult<Vec<Row>> {
        self.through(DOOR, "range", self.store.tables.range(range)).await
    }

    async fn count(&self, range: Range) -> StoreResult<u64> {
        self.through(DOOR, "count", self.store.tables.count(range)).await
    }

    async fn scope_version(&self, scope: &At) -> StoreResult<u64> {
        self.through(DOOR, "scope_version", self.store.tables.scope_version(scope)).await
    }

    async fn commit(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        self.through(DOOR, "commit", self.store.tables.commit(batches)).await
    }

    fn watch(&self) -> Watch {
        self.store.tables.watch()
    }
}
