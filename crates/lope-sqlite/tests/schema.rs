//! The schema: golden, complete in every place that must know all tables, readable by people.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use lope_sqlite::{GOLDEN_SCHEMA, Options, SqliteStore};

/// Set to rewrite the golden file after a migration was added.
const BLESS: &str = "LOPE_BLESS";

async fn fresh_schema() -> String {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::new(folder.path().join("lope.db"))).unwrap();
    let schema = store.upkeep.schema().await.unwrap();
    store.upkeep.close().await.unwrap();
    schema
}

#[tokio::test]
async fn migrations_give_the_golden_schema() {
    let schema = fresh_schema().await;
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("schema.sql"), &schema).unwrap();
        return;
    }
    assert!(
        schema == GOLDEN_SCHEMA,
        "schema.sql differs; with {BLESS}=1 this test rewrites it. It should be:\n{schema}"
    );
}
