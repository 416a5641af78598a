//! The promises hold through a transaction pooler that changes the connection after every
//! transaction: a part of them here, all of them under `LOPE_CHAOS=full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use fixture::Schema;
use fixture::pooler::TransactionPooler;
use lope_conformance::{Harness, StoreSite};
use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::Store;

struct Pooled {
    url: String,
    pooler: OnceLock<TransactionPooler>,
}

#[async_trait]
impl Harness for Pooled {
    async fn fresh(&self) -> Arc<dyn StoreSite> {
        let pooler = self
            .pooler
            .get_or_init(|| TransactionPooler::start(&self.url));
        let behind = format!("{}&pooler=transaction", pooler.url(&self.url));
        Arc::new(OneSchema {
            schema: Schema::new(&self.url),
            behind,
        })
    }
}

struct OneSchema {
    schema: Schema,
    behind: String,
}

#[async_trait]
impl StoreSite for OneSchema {
    async fn open(&self) -> Store {
        let options = PostgresOptions::new(&self.behind)
            .unwrap()
            .in_schema(&self.schema.name)
            .unwrap();
        PostgresStore::open(options).await.unwrap()
    }
}

#[test]
fn promises_hold_through_a_transaction_pooler() {
    let Some(url) = fixture::server() else { return };
    let parts: &[&str] = if fixture::full() {
        &[""]
    } else {
        &["release::", "batch::"]
    };
    for part in parts {
        lope_conformance::run_only(
            Pooled {
                url: url.clone(),
                pooler: OnceLock::new(),
            },
            part,
        );
    }
}
