//! The door *Tables* on the memory: take the lock, do the verb, notify watchers where something was
//! written.

use super::handle::Handle;
use crate::error::StoreResult;
use crate::tables::{At, Batch, BatchReply, Manifest, Range, Row, TablesVerbs};
use crate::watch::Watch;

impl TablesVerbs for Handle {
    async fn open(&self, manifest: Manifest) -> StoreResult<()> {
        self.tables()?.open(&manifest)
    }

    async fn manifest(&self) -> StoreResult<Manifest> {
        Ok(self.tables()?.manifest.clone())
    }

    async fn get(&self, keys: Vec<At>) -> StoreResult<Vec<Option<Vec<u8>>>> {
        self.tables()?.get(&keys)
    }

    async fn range(&self, range: Range) -> StoreResult<Vec<Row>> {
        self.tables()?.range(&range)
    }

    async fn timers_of(&self, worker: Vec<u8>, range: Range) -> StoreResult<Vec<Row>> {
        self.tables()?.timers_of(&worker, &range)
    }

    async fn count(&self, range: Range) -> StoreResult<u64> {
        self.tables()?.count(&range)
    }

    async fn scope_version(&self, scope: At) -> StoreResult<u64> {
        self.tables()?.scope_version(&scope)
    }

    async fn commit(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        let replies = self.tables()?.commit(batches)?;
        if replies.iter().any(Result::is_ok) {
            self.inner.tables_notifier.notify();
        }
        Ok(replies)
    }

    async fn commit_unflushed(&self, batches: Vec<Batch>) -> StoreResult<Vec<BatchReply>> {
        self.commit(batches).await
    }

    fn watch(&self) -> Watch {
        self.inner.tables_notifier.watch()
    }
}
