//! The schema: golden, complete in every place that must know all tables, readable by people.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use lope_sqlite::{GOLDEN_SCHEMA, SqliteOptions, SqliteStore};

/// Set to rewrite the golden file after a migration was added.
const BLESS: &str = "LOPE_BLESS";

async fn fresh_schema() -> String {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(folder.path().join("lope.db"))).unwrap();
    let schema = store.upkeep.schema().await.unwrap();
    store.upkeep.close().await.unwrap();
    schema
}

#[tokio::test]
async fn migrations_give_the_golden_schema() {
    let schema = fresh_schema().await;
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("schema.sql"),
            &schema,
        )
        .unwrap();
        return;
    }
    assert!(
        schema == GOLDEN_SCHEMA,
        "schema.sql differs; with {BLESS}=1 this test rewrites it. It should be:\n{schema}"
    );
}

/// Both SQL stores have the same columns, and the map explains each.
#[test]
fn every_column_stands_in_the_store_map() {
    let map = include_str!("../../../docs/store-map.md");
    let db = rusqlite::Connection::open_in_memory().unwrap();
    db.execute_batch(GOLDEN_SCHEMA).unwrap();
    let columns = "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
                   WHERE t.type = 'table'";
    let mut statement = db.prepare(columns).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let rows: Vec<(String, String)> = rows.unwrap().map(Result::unwrap).collect();
    assert!(rows.len() > 80, "{rows:?}");
    for (table, column) in rows {
        let explained = map.contains(&format!("| `{table}.{column}` |"));
        assert!(explained, "docs/store-map.md leaves out {table}.{column}");
    }
}
