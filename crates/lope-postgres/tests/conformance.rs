//! The store on Postgres keeps every promise. Each place is a schema of its own in one database; the clock is the server's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fixture;

use std::sync::Arc;

use async_trait::async_trait;
use lope_store::Store;
use lope_store::conformance::{self, Harness, Place};

use fixture::Schema;

struct Schemas(String);

#[async_trait]
impl Harness for Schemas {
    async fn fresh(&self) -> Arc<dyn Place> {
        Arc::new(OneSchema(Schema::new(&self.0)))
    }
}

struct OneSchema(Schema);

#[async_trait]
impl Place for OneSchema {
    async fn open(&self) -> Store {
        self.0.open().await
    }
}

/// "the same suite runs for memory, SQLite, Postgres;"
#[test]
fn postgres_keeps_every_promise() {
    let Some(url) = fixture::server() else { return };
    let part = std::env::var("LOPE_TEST_ONLY").unwrap_or_default();
    conformance::run_only(Schemas(url), &part);
}
