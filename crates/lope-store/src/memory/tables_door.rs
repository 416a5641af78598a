//! The door *Tables* on the memory: take the lock, do the verb, ring the bell where something was written.

use async_trait::async_trait;

use super::handle::Handle;
use crate::error::StoreResult;
use crate::tables::{At, Batch, BatchReply, Manifest, Range, Row, Tables};
use crate::watch::Watch;

#[async_trait]
impl Tables for Handle {
    async fn open(&self, manifest: &Manifest) -> StoreResult<()> {
        self.tables()?.open(manifest)
    }

    async fn manifest(&self) -> StoreResult<Manifest> {
        Ok(self.tables()?.manifest.clone())
    }

    async fn get(&self, keys: &[At]) -> StoreResult<Vec<Option<Vec<u8>>>> {
        self.tables()?.get(keys)
    }

    async fn range(&self, range: Range) -> StoreResult<Vec<Row>> {
        self.tables()?.range(&range)
    }

    async fn count(&self, range: Range) -> StoreResult<u64> {
        self.tables()?.count(&range)
    }

    async fn scope_version(&self, scope: &At) -> StoreResult<u64> {
        self.tables()?.scope_version(scope)
    }

    async fn commit(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let replies = self.tables()?.commit(batches)?;
        if replies.iter().any(Result::is_ok) {
            self.home.tables_bell.ring();
        }
        Ok(replies)
    }

    fn watch(&self) -> Watch {
        self.home.tables_bell.watch()
    }
}
