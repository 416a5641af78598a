//! The store on Postgres keeps every promise. Each place is a schema of its own in one database;
//! the clock is the server's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::sync::Arc;

use async_trait::async_trait;
use lope_conformance::{Harness, StoreSite};
use lope_model::RunId;
use lope_store::Store;

use fixture::{Schema, connect};

struct Schemas(String);

#[async_trait]
impl Harness for Schemas {
    async fn fresh(&self) -> Arc<dyn StoreSite> {
        Arc::new(OneSchema(Schema::new(&self.0)))
    }

    fn can_be_damaged(&self) -> bool {
        true
    }
}

struct OneSchema(Schema);

#[async_trait]
impl StoreSite for OneSchema {
    async fn open(&self) -> Store {
        self.0.open().await
    }

    async fn damage(&self, run: RunId) {
        let by_hand = connect(&self.0.url).await;
        let damage = format!(
            "update {}.runs set version = '\\x00' where run_id = '{run}'",
            self.0.name
        );
        assert_eq!(by_hand.execute(&damage, &[]).await.unwrap(), 1);
    }

    async fn take_away(&self) {
        let by_hand = connect(&self.0.url).await;
        let text = format!("drop schema {} cascade", self.0.name);
        by_hand.batch_execute(&text).await.unwrap();
    }
}

/// "the same suite runs for memory, SQLite, Postgres;"
#[test]
fn postgres_keeps_every_promise() {
    let Some(url) = fixture::server() else { return };
    let part = std::env::var("LOPE_TEST_ONLY").unwrap_or_default();
    assert_eq!(
        lope_conformance::run_only(Schemas(url), &part).left_out,
        [""; 0]
    );
}
