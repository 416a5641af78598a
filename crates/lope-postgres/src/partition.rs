//! Partitions of the large tables (journal, snapshots, blobs): the runs of a week each, by the time
//! in their ids.
//!
//! A deleted row leaves a hole that only rows of the same table can fill, and a run's rows never
//! move; so the space of pruned runs is given back by dropping their week. What little is still
//! alive in a past week moves to the partition `_rest`, which also takes ids of any other time:
//! nothing ever depends on a partition being there. Making and retiring are attempts: whoever finds
//! the tables busy leaves it to the next one.

use uuid::Uuid;

use crate::connection::DbConnection;
use crate::failure::{Sent, Worked};

/// The tables that are partitioned, each by `run_id`.
pub(crate) const TABLES: [&str; 3] = ["journal", "snapshots", "blobs"];
/// How many weeks are there before they are needed.
const WEEKS_AHEAD: i64 = 2;

/// A week for which a partition is missing, as the server names and bounds it.
const MISSING: &str = include_str!("partition_missing.sql");

/// Make the partitions of this week and the next ones. Runs inside the caller's transaction.
pub(crate) async fn make_ahead(db: &DbConnection) -> Worked<()> {
    let weeks = db.read_once(MISSING, "int", vec![&WEEKS_AHEAD]).await?;
    for week in weeks {
        let (name, from, to): (&str, &str, &str) = (week.get(0), week.get(1), week.get(2));
        let script: String = TABLES
            .iter()
            .map(|table| attach(table, name, from, to))
            .collect();
        db.script(&script, Sent::Work).await?;
    }
    Ok(())
}

/// A table of its own first, attached then: that way the parent stays open for others.
fn attach(table: &str, name: &str, from: &str, to: &str) -> String {
    format!(
        "create table {{schema}}.{table}_{name} (like {{schema}}.{table} including all excluding comments);
         alter table {{schema}}.{table} attach partition {{schema}}.{table}_{name} for values from ('{from}') to ('{to}');"
    )
}

/// Past weeks, the oldest first: name, first id, first id behind.
const PAST: &str = include_str!("partition_past.sql");
/// How much lives on in a week: runs and journal rows, counted no further than needed.
const ALIVE: &str = include_str!("partition_alive.sql");

/// Most that moves to `_rest` when a week is retired: the tables are locked meanwhile.
const RUNS_MOVED_MAX: i64 = 1_000;
const ROWS_MOVED_MAX: i64 = 50_000;

/// Give back the space of the oldest week in which next to nothing lives, if there is one and the
/// tables are free.
pub(crate) async fn retire_one(db: &DbConnection) {
    if let Err(fault) = try_retire(db).await {
        tracing::debug!(error = %fault.error, "no partition was retired; the next prune tries again");
    }
}

async fn try_retire(db: &DbConnection) -> Worked<()> {
    for week in db.read_once(PAST, "", vec![]).await? {
        let (name, from, to): (&str, Uuid, Uuid) = (week.get(0), week.get(1), week.get(2));
        let most = RUNS_MOVED_MAX + 1;
        let alive = db
            .read_once(ALIVE, "uuid uuid int", vec![&from, &to, &most])
            .await?;
        let (runs, rows) = alive
            .first()
            .map_or((0, 0), |row| (row.get::<_, i64>(0), row.get::<_, i64>(1)));
        if runs <= RUNS_MOVED_MAX && rows <= ROWS_MOVED_MAX {
            let moves: String = TABLES.iter().map(|table| retire(table, name)).collect();
            return in_passing(db, &moves).await;
        }
    }
    Ok(())
}

/// What still belongs to a run moves to where ids without a partition live.
fn retire(table: &str, name: &str) -> String {
    format!(
        "alter table {{schema}}.{table} detach partition {{schema}}.{table}_{name};
         insert into {{schema}}.{table} select p.* from {{schema}}.{table}_{name} p
             where exists (select from {{schema}}.runs r where r.run_id = p.run_id);
         drop table {{schema}}.{table}_{name};"
    )
}

/// Make the partitions that are missing, if the tables are free; one process at a time.
pub(crate) async fn keep_ahead(db: &DbConnection) -> Worked<()> {
    if db
        .read_once(MISSING, "int", vec![&WEEKS_AHEAD])
        .await?
        .is_empty()
    {
        return Ok(());
    }
    db.begin_script(PASSING).await?;
    make_ahead(db).await?;
    db.end_script("commit").await
}

/// Change tables without making others wait for long.
async fn in_passing(db: &DbConnection, script: &str) -> Worked<()> {
    db.begin_script(PASSING).await?;
    db.script(script, Sent::Work).await?;
    db.end_script("commit").await
}

const PASSING: &str =
    "begin isolation level read committed; set local lock_timeout = '1s'; set local enable_hashjoin = on;
    select pg_advisory_xact_lock(hashtextextended('lope partition {schema}', 0))";
