//! What a backend brings to the suite: places for stores.

use std::sync::Arc;

use async_trait::async_trait;
use lope_model::{RunId, Span};

use lope_store::store::Store;

/// How a backend makes places for stores.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// A place without a store: a new folder, database or schema. It is removed when the place is
    /// dropped.
    async fn fresh(&self) -> Arc<dyn StoreSite>;
}

/// Where one store lives.
#[async_trait]
pub trait StoreSite: Send + Sync + 'static {
    /// Open the store here, as a process of its own would; the first call finds nothing and creates
    /// it.
    async fn open(&self) -> Store;

    /// Let the store's clock go on by `span`: a clock moved by hand moves, any other is waited for.
    async fn pass(&self, span: Span) {
        tokio::time::sleep(span.to_duration()).await;
    }

    /// Make a run's record unreadable, behind the store's back. False: here nobody can.
    async fn damage(&self, _run: RunId) -> bool {
        false
    }

    /// Take the store away under those who have it open. False: here nobody can.
    async fn take_away(&self) -> bool {
        false
    }
}
