//! Tests: a store of an older, made-up schema keeps what it holds when it is migrated, or stays as
//! it was.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::*;

/// A store of long ago, and what a later program makes of it.
const OLD: [&str; 1] = [
    "create table {schema}.meta (key text not null primary key, value text not null);
     create table {schema}.notes (id int primary key, text text not null)",
];
const GROWN: [&str; 3] = [
    OLD[0],
    "alter table {schema}.notes add column words int not null default 0;
     update {schema}.notes set words = cardinality(string_to_array(text, ' '))",
    "alter table {schema}.notes rename to remarks",
];

/// A schema with an older store in it; nothing if the caller chose to go without Postgres.
async fn old_store(name: &str) -> Option<(PostgresOptions, DbConnection)> {
    if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
        println!("left out: LOPE_TEST_NO_POSTGRES is set");
        return None;
    }
    let url =
        std::env::var("LOPE_TEST_POSTGRES").expect("LOPE_TEST_POSTGRES: run `cargo xtask test`");
    let schema = format!("lope_{name}_{}", std::process::id());
    let options = PostgresOptions::new(&url)
        .unwrap()
        .in_schema(&schema)
        .unwrap();
    let db = Connector::new(options.clone())
        .unwrap()
        .connect()
        .await
        .unwrap();
    migrate_to(&db, &options, &OLD).await.unwrap();
    let rows = "insert into {schema}.notes values (1, 'one'), (2, 'two words')";
    db.script(rows, Sent::Work).await.unwrap();
    Some((options, db))
}

async fn migrate_to(
    db: &DbConnection,
    options: &PostgresOptions,
    migrations: &[&str],
) -> Worked<()> {
    begin(db).await?;
    apply(db, options, migrations).await?;
    db.script("commit", Sent::Commit).await
}

async fn erase(db: &DbConnection) {
    let erased = db.script("drop schema {schema} cascade", Sent::Work);
    erased.await.unwrap();
}

#[tokio::test]
async fn an_older_store_keeps_what_it_holds() {
    let Some((options, db)) = old_store("grown").await else {
        return;
    };
    assert_eq!(version(&db, &options).await.unwrap(), 1);
    migrate_to(&db, &options, &GROWN).await.unwrap();
    migrate_to(&db, &options, &GROWN).await.unwrap();
    assert_eq!(version(&db, &options).await.unwrap(), 3);
    let rows = "select text, words from {schema}.remarks order by id";
    let rows = db.read_once(rows, "", vec![]).await.unwrap();
    let rows: Vec<(&str, i32)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rows, [("one", 1), ("two words", 2)]);
    erase(&db).await;
}

#[tokio::test]
async fn a_migration_that_fails_leaves_the_older_store_as_it_was() {
    let Some((options, db)) = old_store("broken").await else {
        return;
    };
    let broken = [GROWN[0], GROWN[1], "alter table {schema}.nothing add x int"];
    assert!(migrate_to(&db, &options, &broken).await.is_err());
    db.script("rollback", Sent::Work).await.unwrap();
    assert_eq!(version(&db, &options).await.unwrap(), 1);
    let rows = "select * from {schema}.notes";
    let rows = db.read_once(rows, "", vec![]).await.unwrap();
    assert_eq!((rows.len(), rows[0].len()), (2, 2));
    erase(&db).await;
}

/// An answer that is late by the measure of ordinary statements is waited for.
#[tokio::test]
async fn a_migration_may_take_longer_than_other_statements() {
    let Some((options, db)) = old_store("slow").await else {
        return;
    };
    let hasty = PostgresOptions {
        statement_timeout: Duration::ZERO,
        ..options.clone()
    };
    let slow = [OLD[0], "select pg_sleep(6)"];
    assert!(hasty.answer_timeout() < Duration::from_secs(6));
    let connect = async |options: &PostgresOptions| {
        let connector = Connector::new(options.clone()).unwrap();
        connector.connect().await.unwrap()
    };
    let (lost, patient) = (connect(&hasty).await, connect(&patient(&hasty)).await);
    assert!(migrate_to(&lost, &hasty, &slow).await.is_err());
    drop(lost);
    migrate_to(&patient, &hasty, &slow).await.unwrap();
    assert_eq!(version(&db, &options).await.unwrap(), 2);
    erase(&db).await;
}
