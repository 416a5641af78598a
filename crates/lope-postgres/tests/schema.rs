//! The schema: golden, the same under any name, and watched over by `check`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::path::Path;

use fixture::{Schema, connect, server};
use lope_postgres::{DEFAULT_SCHEMA, GOLDEN_SCHEMA, PostgresOptions, PostgresStore};

/// Set to rewrite the golden file after a migration was added.
const BLESS: &str = "LOPE_BLESS";

#[tokio::test]
async fn migrations_give_the_golden_schema() {
    let Some(url) = server() else { return };
    let url = fixture::database(&url).await;
    let store = PostgresStore::open(PostgresOptions::new(&url).unwrap())
        .await
        .unwrap();
    let schema = store.upkeep.schema().await.unwrap();
    store.upkeep.close().await.unwrap();
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

#[tokio::test]
async fn the_golden_schema_holds_every_table_of_the_migrations() {
    let migrations = include_str!("../migrations/0001_ground.sql");
    let made = migrations
        .lines()
        .filter_map(|line| line.strip_prefix("create table {schema}."));
    for name in made.map(|rest| rest.split(' ').next().unwrap()) {
        assert!(
            GOLDEN_SCHEMA.contains(&format!("create table {DEFAULT_SCHEMA}.{name} ")),
            "{name}"
        );
    }
}

/// Every table of the golden schema with its columns. Partitions have those of their table.
fn tables() -> Vec<(&'static str, Vec<&'static str>)> {
    let whole = GOLDEN_SCHEMA.split("create table lope.").skip(1);
    let whole = whole.filter(|text| text.lines().next().is_some_and(|line| line.ends_with('(')));
    whole
        .map(|text| {
            let name = text.split(' ').next().unwrap();
            let lines = text
                .lines()
                .skip(1)
                .take_while(|line| line.starts_with("    "));
            let columns = lines.map(|line| line.trim().split(' ').next().unwrap());
            let keys = ["primary", "unique", "check", "foreign"];
            (name, columns.filter(|word| !keys.contains(word)).collect())
        })
        .collect()
}

#[test]
fn every_table_and_column_has_a_comment_and_stands_in_the_store_map() {
    let map = include_str!("../../../docs/store-map.md");
    assert!(tables().len() >= 15, "{:?}", tables());
    for (table, columns) in tables() {
        let comment = format!("comment on table {DEFAULT_SCHEMA}.{table} is");
        assert!(GOLDEN_SCHEMA.contains(&comment), "{table} has no comment");
        assert!(map.contains(&format!("| `{table}` |")), "{table}");
        for column in columns {
            let comment = format!("comment on column {DEFAULT_SCHEMA}.{table}.{column} is");
            assert!(GOLDEN_SCHEMA.contains(&comment), "{table}.{column}");
            let explained = map.contains(&format!("| `{table}.{column}` |"));
            assert!(explained, "docs/store-map.md leaves out {table}.{column}");
        }
    }
}

#[tokio::test]
async fn a_changed_schema_is_found() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
    let by_hand = format!(
        "drop index {0}.queue_claim; alter table {0}.meta add column extra int",
        place.name
    );
    connect(&url).await.batch_execute(&by_hand).await.unwrap();
    let findings = store.upkeep.check().await.unwrap();
    assert!(
        findings.iter().all(|finding| finding.rule == "schema"),
        "{findings:?}"
    );
    let told: Vec<&str> = findings
        .iter()
        .map(|finding| finding.message.as_str())
        .collect();
    assert!(
        told.iter().any(|message| message.contains("queue_claim")),
        "{told:?}"
    );
    assert!(
        told.iter().any(|message| message.contains(".meta (")),
        "{told:?}"
    );
}

/// What each rule of `check` finds, when somebody breaks it by hand.
#[tokio::test]
async fn damage_is_found() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    let by_hand = connect(&url).await;
    let run = "00000000-0000-7000-8000-000000000001";
    let damages = [
        (
            "journal",
            format!(
                "insert into {}.journal values ('{run}', 3, 0, 'x', '')",
                place.name
            ),
        ),
        (
            "queue",
            format!(
                "insert into {}.queue values ('{run}', null, 0, 0, 0, 0, 0, 0, 1, 1, 4, 'default', 'default', 'queued')",
                place.name
            ),
        ),
        (
            "lease",
            format!("update {}.queue set owner = '{run}'", place.name),
        ),
        ("mail", format!("update {}.queue set mail = 2", place.name)),
        (
            "schedules",
            format!(
                "insert into {}.schedules values ('nightly', '{run}', null, null, 1, '')",
                place.name
            ),
        ),
        (
            "marker",
            format!(
                "insert into {}.table_rows values (0, 'runner.schema.version', 'RSV')",
                place.name
            ),
        ),
    ];
    for (rule, damage) in damages {
        by_hand.batch_execute(&damage).await.unwrap();
        let findings = store.upkeep.check().await.unwrap();
        assert!(
            findings.iter().any(|finding| finding.rule == rule),
            "{rule}: {findings:?}"
        );
    }
}

/// "The seed's example query on `runners` works as written": as whoever has the schema before them.
#[tokio::test]
async fn the_runners_of_agents_can_be_queried_as_the_seed_does() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    store.upkeep.close().await.unwrap();
    let by_hand = connect(&url).await;
    let rows = "insert into runners (id, revision, status, pid, pid_started, boot_id, host, project_path, place, \
         started_at, heartbeat_at, beat, awake) values
         ('r', 1, 'running', 7, '', '', 'here', '/p', 1, '2026-11-17T00:10:00.000Z', '2026-11-17T00:10:30.250Z', 0, 0),
         ('s', 1, 'failed', 8, '', '', 'here', '/p', 2, '2026-11-17T00:10:00.000Z', '2026-11-17T00:10:30.250Z', 0, 0)";
    let script = format!("set search_path = {}; {rows}", place.name);
    by_hand.batch_execute(&script).await.unwrap();
    let query = "SELECT id, status, project_path, current_task_id,
       datetime(heartbeat_at) as last_heartbeat
FROM runners
WHERE status = 'running';";
    let found = by_hand.query(query, &[]).await.unwrap();
    let row = |index: usize| found[0].get::<_, Option<String>>(index);
    assert_eq!(found.len(), 1);
    let expected = [
        Some("r"),
        Some("running"),
        Some("/p"),
        None,
        Some("2026-11-17 00:10:30"),
    ];
    assert_eq!(
        [0, 1, 2, 3, 4].map(row),
        expected.map(|it| it.map(str::to_owned))
    );
}
