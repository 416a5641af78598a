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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rusqlite::Connection;

    use super::*;
    use crate::migrate::GOLDEN_SCHEMA;

    fn schema() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(GOLDEN_SCHEMA).unwrap();
        db
    }

    /// Enumerates the schema: a table of runs that pruning forgets is named.
    #[test]
    fn everything_that_belongs_to_a_run_goes_with_it() {
        let db = schema();
        let tables = "SELECT t.name FROM pragma_table_list AS t JOIN pragma_table_info(t.name) AS c
                      WHERE t.type = 'table' AND c.name = 'run_id' AND t.name <> 'queue'";
        let mut statement = db.prepare(tables).unwrap();
        let of_runs: BTreeSet<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let table = |delete: &str| delete.split_whitespace().nth(2).unwrap().to_owned();
        assert_eq!(BELONGINGS.into_iter().map(table).collect::<BTreeSet<_>>(), of_runs);
    }

    #[test]
    fn each_delete_is_an_index_read() {
        let db = schema();
        for delete in BELONGINGS {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {delete}")).unwrap();
            let rows = statement.query_map([[1_u8]], |row| row.get::<_, String>(3)).unwrap();
            let plan: Vec<String> = rows.map(Result::unwrap).collect();
            let scans = plan.iter().filter(|step| step.starts_with("SCAN") && !step.contains("VIRTUAL TABLE")).count();
            assert_eq!(scans, 0, "{delete}\n{plan:?}");
        }
    }
}
