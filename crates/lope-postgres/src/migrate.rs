//! The schema's version: numbered SQL files, applied forward only, in one transaction, under a lock.
//!
//! A store of another version is never touched by accident: opening it is refused with the command that mends it.

use lope_store::{StoreError, StoreResult};

use crate::failure::{Sent, Worked};
use crate::link::Link;
use crate::options::{Create, Options};
use crate::partition;
use crate::pool::Connector;

/// Every migration, in order; its place is its number.
const MIGRATIONS: [&str; 3] = [
    include_str!("../migrations/0001_ground.sql"),
    include_str!("../migrations/0002_serves.sql"),
    include_str!("../migrations/0003_schedules.sql"),
];
/// The version this program works with.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;
/// The schema that all migrations together give, as `lope store schema` prints it for the schema `lope`.
pub const GOLDEN_SCHEMA: &str = include_str!("../schema.sql");

/// From which version to which a store was brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migrated {
    pub from: i64,
    pub to: i64,
}

/// What stands in the schema that a store would live in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Nothing,
    Store(i64),
    /// Tables of another program.
    Stranger,
}

/// Bring a store to this program's version. Refused while runners work on it, and for a newer store.
pub async fn migrate(options: &Options) -> StoreResult<Migrated> {
    let link = Connector::new(options.clone())?.connect().await?;
    let from = version(&link, options).await?;
    if from > SCHEMA_VERSION {
        return Err(other_version(from));
    }
    if from < SCHEMA_VERSION {
        refuse_runners(&link).await?;
        bring_up(&link, options).await?;
    }
    Ok(Migrated { from, to: SCHEMA_VERSION })
}

/// The schema version of a store.
pub async fn schema_version(options: &Options) -> StoreResult<i64> {
    let link = Connector::new(options.clone())?.connect().await?;
    version(&link, options).await
}

/// Is the store one that this program works with? An empty place becomes one if it may.
pub(crate) async fn check_version(connector: &Connector) -> StoreResult<()> {
    let options = &connector.options;
    let link = connector.connect().await?;
    match found(&link).await? {
        Found::Store(SCHEMA_VERSION) => Ok(()),
        Found::Store(version) => Err(other_version(version)),
        Found::Stranger => Err(stranger(options)),
        Found::Nothing if options.create == Create::Never => Err(missing(options)),
        Found::Nothing => Ok(bring_up(&link, options).await?),
    }
}

async fn version(link: &Link, options: &Options) -> StoreResult<i64> {
    match found(link).await? {
        Found::Store(version) => Ok(version),
        Found::Stranger => Err(stranger(options)),
        Found::Nothing => Err(missing(options)),
    }
}

async fn found(link: &Link) -> Worked<Found> {
    const LOOK: &str = "select to_regclass('{schema}.meta') is not null,
        exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = '{schema}')";
    let rows = link.read_once(LOOK, "", vec![]).await?;
    let (is_ours, is_used) = rows.first().map_or((false, false), |row| (row.get(0), row.get(1)));
    match (is_ours, is_used) {
        (true, _) => stored_version(link).await.map(Found::Store),
        (false, true) => Ok(Found::Stranger),
        (false, false) => Ok(Found::Nothing),
    }
}

async fn stored_version(link: &Link) -> Worked<i64> {
    const VERSION: &str = "select value from {schema}.meta where key = 'schema_version'";
    let rows = link.read_once(VERSION, "", vec![]).await?;
    let number = rows.first().and_then(|row| row.get::<_, &str>(0).parse().ok());
    number.ok_or_else(|| StoreError::corrupt("the schema version is missing or no number").into())
}

/// Apply what is missing. Of two processes that do so at once, the second finds nothing left.
async fn bring_up(link: &Link, options: &Options) -> Worked<()> {
    let begin = "begin isolation level read committed; set local statement_timeout = 0; set local lock_timeout = '30s';
                 select pg_advisory_xact_lock(hashtextextended('lope migrate {schema}', 0))";
    link.script(begin, Sent::Work).await?;
    let from = match found(link).await? {
        Found::Store(version) => version,
        Found::Nothing | Found::Stranger => 0,
    };
    if from == 0 {
        make_schema(link, options).await?;
    }
    for (number, migration) in (1..).zip(MIGRATIONS).filter(|(number, _)| *number > from) {
        link.script(migration, Sent::Work).await?;
        link.script(&record(number), Sent::Work).await?;
    }
    partition::make_ahead(link).await?;
    link.script("commit", Sent::Commit).await
}

/// Who may not make schemas may still use one that was made for them.
async fn make_schema(link: &Link, options: &Options) -> Worked<()> {
    const LOOK: &str = "select 1 from pg_namespace where nspname = $1";
    let rows = link.read_once(LOOK, "text", vec![&options.schema.as_str()]).await?;
    if rows.is_empty() {
        link.script("create schema {schema}", Sent::Work).await?;
    }
    Ok(())
}

fn record(number: i64) -> String {
    format!(
        "insert into {{schema}}.meta (key, value) values ('schema_version', '{number}'), ('created_at', {{now}}::text)
         on conflict (key) do update set value = excluded.value where excluded.key = 'schema_version'"
    )
}

async fn refuse_runners(link: &Link) -> Worked<()> {
    const LIVE: &str = "select count(*) from {schema}.runners where ended_at is null and expires > {now}";
    let rows = link.read_once(LIVE, "", vec![]).await?;
    let live: i64 = rows.first().map_or(0, |row| row.get(0));
    if live > 0 {
        return Err(StoreError::refused(format!("{live} runners work on the store: stop them first")).into());
    }
    Ok(())
}

fn other_version(found: i64) -> StoreError {
    let hint = if found > SCHEMA_VERSION {
        "the store was written by a newer lope: use that one, or a newer one still".to_owned()
    } else {
        "run `lope store migrate` to bring the store to this version".to_owned()
    };
    StoreError::Version { found, needed: SCHEMA_VERSION, hint }
}

fn missing(options: &Options) -> StoreError {
    StoreError::Missing { message: format!("{} has no schema '{}' of Lope's", options.describe(), options.schema) }
}

fn stranger(options: &Options) -> StoreError {
    let message = format!("schema '{}' in {} holds tables of another program", options.schema, options.describe());
    StoreError::Refused { message }
}
