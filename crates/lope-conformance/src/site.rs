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

    /// Does a store lie where others get at it behind its back? Then its places can damage it and
    /// take it away; otherwise what is promised about that is left out, and the report says so.
    fn can_be_damaged(&self) -> bool {
        false
    }
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

    /// Make a run's record unreadable, behind the store's back.
    async fn damage(&self, _run: RunId) {}

    /// Take the store away under those who have it open.
    async fn take_away(&self) {}
}
