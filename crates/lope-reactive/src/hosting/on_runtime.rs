//! Tables whose calls run on a runtime of their own choosing.
//!
//! Host threads have small runtimes that stand still while a script runs; a connection that was
//! made there would stand still with them, for everybody who shares it.

use std::sync::Arc;

use lope_store::door::DoorCall;
use lope_store::tables::{TablesAnswer, TablesRequest};
use lope_store::{StoreError, Tables, Watch};
use tokio::runtime::Handle;

/// `tables`, with every call made on `runtime`.
pub(super) struct OnRuntime {
    tables: Arc<dyn Tables>,
    runtime: Handle,
}

impl OnRuntime {
    pub(super) fn new(tables: Arc<dyn Tables>, runtime: Handle) -> Self {
        Self { tables, runtime }
    }
}

impl Tables for OnRuntime {
    fn call(&self, request: TablesRequest) -> DoorCall<'_, TablesAnswer> {
        let tables = Arc::clone(&self.tables);
        Box::pin(async move {
            let called = self
                .runtime
                .spawn(async move { tables.call(request).await });
            called.await.map_err(StoreError::unavailable)?
        })
    }

    fn watch(&self) -> Watch {
        self.tables.watch()
    }
}
