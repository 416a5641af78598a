//! `prune`: ended runs leave the store with everything that belongs to them, the longest ended first.

use lope_store::runs::{Prune, Pruned};
use rusqlite::params_from_iter;
use rusqlite::types::Value;

use crate::desk::Desk;
use crate::failure::Worked;

/// What belongs to a run, table by table; a test compares this with the schema.
pub(crate) const BELONGINGS: [&str; 6] = [
    "DELETE FROM run_tags WHERE run_id = ?1 AND (tag, value, created_at) IN
         (SELECT t.key, t.value, r.created_at FROM runs AS r, json_each(r.tags) AS t WHERE r.run_id = ?1)",
    "DELETE FROM journal WHERE run_id = ?1",
    "DELETE FROM snapshots WHERE run_id = ?1",
    "DELETE FROM blobs WHERE run_id = ?1",
    "DELETE FROM mail WHERE run_id = ?1",
    "DELETE FROM runs WHERE run_id = ?1",
];

pub(crate) fn prune(desk: &Desk<'_>, prune: &Prune) -> Worked<Pruned> {
    let found = ended(desk, prune)?;
    let more = found.len() > prune.limit;
    let gone = &found[..found.len().min(prune.limit)];
    for run in gone {
        for delete in BELONGINGS {
            desk.statement(delete)?.execute([run])?;
        }
    }
    Ok(Pruned { runs: gone.len() as u64, more })
}

/// Runs to delete, and one more if there is one.
fn ended(desk: &Desk<'_>, prune: &Prune) -> Worked<Vec<[u8; 16]>> {
    let mut sql = String::from("SELECT run_id FROM runs INDEXED BY runs_finished WHERE finished_at < ?");
    let mut given = vec![Value::Integer(prune.before.millis())];
    if !prune.statuses.is_empty() {
        let marks = vec!["?"; prune.statuses.len()].join(", ");
        sql = format!("{sql} AND status IN ({marks})");
        given.extend(prune.statuses.iter().map(|status| Value::Text(status.as_str().to_owned())));
    }
    if let Some(workflow) = &prune.workflow {
        sql.push_str(" AND workflow = ?");
        given.push(Value::Text(workflow.clone()));
    }
    sql.push_str(" ORDER BY finished_at, run_id LIMIT ?");
    given.push(Value::Integer(i64::try_from(prune.limit).unwrap_or(i64::MAX).saturating_add(1)));
    let mut statement = desk.statement(&sql)?;
    let found = statement.query_map(params_from_iter(given), |row| row.get(0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}
