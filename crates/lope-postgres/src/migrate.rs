//! The schema's version: numbered SQL files, applied forward only, in one transaction, under a
//! lock.
//!
//! A store of another version is never touched by accident: opening it is refused with the command
//! that mends it.

use std::time::Duration;

use lope_store::{Migrated, StoreError, StoreResult};

use crate::connection::DbConnection;
use crate::failure::{Sent, Worked};
use crate::options::{CreateSchema, PostgresOptions};
use crate::partition;
use crate::pool::Connector;

/// Every migration, in order; its place is its number.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_ground.sql")];
/// The version this program works with.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;
/// The schema that all migrations together give, as `lope store schema` prints it for the schema
/// `lope`.
pub const GOLDEN_SCHEMA: &str = include_str!("../schema.sql");

/// How long one migration may take.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// What stands in the schema that a store would live in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FoundSchema {
    Nothing,
    Store(i64),
    /// Tables of another program.
    Stranger,
}

/// Bring a store to this program's version. Refused while runners work on it, and for a newer
/// store.
pub async fn migrate(options: &PostgresOptions) -> StoreResult<Migrated> {
    let options = &patient(options);
    let (_, db) = Connector::reach(options).await?;
    let from = version(&db, options).await?;
    if from > SCHEMA_VERSION {
        return Err(other_version(from));
    }
    if from < SCHEMA_VERSION {
        refuse_runners(&db).await?;
        bring_up(&db, options).await?;
    }
    Ok(Migrated {
        from,
        to: SCHEMA_VERSION,
    })
}

/// A migration may rewrite large tables: its answer is waited for, however long that takes.
fn patient(options: &PostgresOptions) -> PostgresOptions {
    PostgresOptions {
        statement_timeout: MIGRATION_TIMEOUT,
        ..options.clone()
    }
}

/// The schema version of a store.
pub async fn schema_version(options: &PostgresOptions) -> StoreResult<i64> {
    let (_, db) = Connector::reach(options).await?;
    version(&db, options).await
}

/// Is the store one that this program works with? An empty place becomes one if it may.
pub(crate) async fn check_version(options: &PostgresOptions, db: &DbConnection) -> StoreResult<()> {
    match found(db).await? {
        FoundSchema::Store(SCHEMA_VERSION) => Ok(()),
        FoundSchema::Store(version) => Err(other_version(version)),
        FoundSchema::Stranger => Err(stranger(options)),
        FoundSchema::Nothing if options.create == CreateSchema::Never => Err(missing(options)),
        FoundSchema::Nothing => Ok(bring_up(db, options).await?),
    }
}

async fn version(db: &DbConnection, options: &PostgresOptions) -> StoreResult<i64> {
    match found(db).await? {
        FoundSchema::Store(version) => Ok(version),
        FoundSchema::Stranger => Err(stranger(options)),
        FoundSchema::Nothing => Err(missing(options)),
    }
}

async fn found(db: &DbConnection) -> Worked<FoundSchema> {
    const EXISTS: &str = "select to_regclass('{schema}.meta') is not null,
        exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = '{schema}')";
    let rows = db.read_once(EXISTS, "", vec![]).await?;
    let (is_ours, is_used) = rows
        .first()
        .map_or((false, false), |row| (row.get(0), row.get(1)));
    match (is_ours, is_used) {
        (true, _) => stored_version(db).await.map(FoundSchema::Store),
        (false, true) => Ok(FoundSchema::Stranger),
        (false, false) => Ok(FoundSchema::Nothing),
    }
}

async fn stored_version(db: &DbConnection) -> Worked<i64> {
    const VERSION: &str = "select value from {schema}.meta where key = 'schema_version'";
    let rows = db.read_once(VERSION, "", vec![]).await?;
    let number = rows
        .first()
        .and_then(|row| row.get::<_, &str>(0).parse().ok());
    number.ok_or_else(|| StoreError::corrupt("the schema version is missing or no number").into())
}

/// Apply what is missing. Of two processes that do so at once, the second finds nothing left.
async fn bring_up(db: &DbConnection, options: &PostgresOptions) -> Worked<()> {
    begin(db).await?;
    apply(db, options, &MIGRATIONS).await?;
    partition::make_ahead(db).await?;
    db.script("commit", Sent::Commit).await
}

async fn begin(db: &DbConnection) -> Worked<()> {
    let begin = "begin isolation level read committed; set local statement_timeout = 0; set local lock_timeout = '30s';
                 select pg_advisory_xact_lock(hashtextextended('lope migrate {schema}', 0))";
    db.script(begin, Sent::Work).await
}

/// Within a transaction that nobody else migrates in.
async fn apply(db: &DbConnection, options: &PostgresOptions, migrations: &[&str]) -> Worked<()> {
    let from = match found(db).await? {
        FoundSchema::Store(version) => version,
        FoundSchema::Nothing | FoundSchema::Stranger => 0,
    };
    if from == 0 {
        make_schema(db, options).await?;
    }
    for (number, migration) in (1..).zip(migrations).filter(|(number, _)| *number > from) {
        db.script(migration, Sent::Work).await?;
        db.script(&record(number), Sent::Work).await?;
    }
    Ok(())
}

/// Who may not make schemas may still use one that was made for them.
async fn make_schema(db: &DbConnection, options: &PostgresOptions) -> Worked<()> {
    const EXISTS: &str = "select 1 from pg_namespace where nspname = $1";
    let rows = db
        .read_once(EXISTS, "text", vec![&options.schema.as_str()])
        .await?;
    if rows.is_empty() {
        db.script("create schema {schema}", Sent::Work).await?;
    }
    Ok(())
}

fn record(number: i64) -> String {
    format!(
        "insert into {{schema}}.meta (key, value) values ('schema_version', '{number}'), ('created_at', {{now}}::text)
         on conflict (key) do update set value = excluded.value where excluded.key = 'schema_version'"
    )
}

async fn refuse_runners(db: &DbConnection) -> Worked<()> {
    const LIVE: &str =
        "select count(*) from {schema}.sessions where ended_at is null and expires > {now}";
    let rows = db.read_once(LIVE, "", vec![]).await?;
    let live: i64 = rows.first().map_or(0, |row| row.get(0));
    if live > 0 {
        return Err(StoreError::refused(format!(
            "{live} runners work on the store: stop them first"
        ))
        .into());
    }
    Ok(())
}

fn other_version(found: i64) -> StoreError {
    StoreError::other_version(found, SCHEMA_VERSION)
}

fn missing(options: &PostgresOptions) -> StoreError {
    StoreError::Missing {
        message: format!(
            "{} has no schema '{}' of Lope's",
            options.describe(),
            options.schema
        ),
    }
}

fn stranger(options: &PostgresOptions) -> StoreError {
    let message = format!(
        "schema '{}' in {} holds tables of another program",
        options.schema,
        options.describe()
    );
    StoreError::Refused { message }
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
