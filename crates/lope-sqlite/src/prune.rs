//! `prune`: ended runs leave the store with everything that belongs to them, the longest ended
//! first.
//!
//! Others write in between: a prune stops after a few milliseconds. A run with more rows than that
//! leaves first, and its rows follow in the prunes behind it; `meta` remembers whose they are.

use std::time::{Duration, Instant};

use lope_model::RunId;
use lope_store::StoreError;
use lope_store::runs::{Prune, Pruned};
use lope_store::store::owned;
use rusqlite::types::Value;
use rusqlite::{ErrorCode, OptionalExtension, params_from_iter};

use crate::failure::Worked;
use crate::tx::Tx;

/// What belongs to a run, table by table; a test compares this with the schema.
pub(crate) const BELONGINGS: [&str; 6] = [
    "DELETE FROM run_tags WHERE run_id = ?1 AND (tag, value, created_at) IN
         (SELECT t.key, t.value, r.created_at FROM runs AS r,
              json_each(CASE WHEN json_valid(r.tags) THEN r.tags ELSE '{}' END) AS t WHERE r.run_id = ?1)",
    "DELETE FROM journal WHERE run_id = ?1",
    "DELETE FROM snapshots WHERE run_id = ?1",
    "DELETE FROM blobs WHERE run_id = ?1",
    "DELETE FROM mail WHERE run_id = ?1",
    "DELETE FROM runs WHERE run_id = ?1",
];

/// What belongs to a run and may be too much for one transaction: table, key of a row within the
/// run, and how many rows are taken at a time.
const PORTIONS: [(&str, &str, usize); 4] = [
    ("journal", "seq", 200),
    ("mail", "number", 200),
    ("blobs", "digest", 4),
    ("snapshots", "seq", 1),
];
/// Most rows that one prune deletes.
const ROWS_MAX: usize = 5_000;
/// How long one prune keeps others from writing.
const TIME_MAX: Duration = Duration::from_millis(6);
/// What `meta` remembers of a run that is gone while some of its rows are not.
const REST: &str = "pruning ";

/// How much one prune has done, and whether it should make room for others.
struct PruneBudget {
    rows: usize,
    until: Instant,
}

impl PruneBudget {
    fn is_spent(&self) -> bool {
        self.rows >= ROWS_MAX || Instant::now() >= self.until
    }
}

pub(crate) fn prune(tx: &Tx<'_>, prune: &Prune) -> Worked<Pruned> {
    let mut budget = PruneBudget {
        rows: 0,
        until: Instant::now() + TIME_MAX,
    };
    for run in rests(tx)? {
        if !delete_rest(tx, &run, &mut budget)? {
            return Ok(Pruned {
                runs: Vec::new(),
                more: true,
            });
        }
    }
    let found = ended(tx, prune)?;
    let mut gone = Vec::new();
    for run in found.iter().take(prune.limit) {
        for delete in [BELONGINGS[0], BELONGINGS[5]] {
            budget.rows += tx.statement(delete)?.execute([run])?;
        }
        gone.push(RunId::from_bytes(*run));
        if !delete_rest(tx, run, &mut budget)? || budget.is_spent() {
            break;
        }
    }
    Ok(Pruned {
        more: found.len() > gone.len() || !rests(tx)?.is_empty(),
        runs: gone,
    })
}

/// Runs that are gone and whose rows are not, in the order in which they went.
fn rests(tx: &Tx<'_>) -> Worked<Vec<[u8; 16]>> {
    let mut statement =
        tx.statement("SELECT value FROM meta WHERE key >= ?1 AND key < ?1 || 'z' ORDER BY key")?;
    let found = statement.query_map([REST], |row| row.get::<_, String>(0))?;
    let mut rests = Vec::new();
    for id in found {
        let id: RunId = id?.parse().map_err(StoreError::corrupt)?;
        rests.push(*id.as_bytes());
    }
    Ok(rests)
}

/// Delete the rows of a run that is gone, portion by portion; what is left is remembered. Is nothing
/// left?
fn delete_rest(tx: &Tx<'_>, run: &[u8; 16], budget: &mut PruneBudget) -> Worked<bool> {
    let id = RunId::from_bytes(*run).to_string();
    for (table, key, portion) in PORTIONS {
        let delete = format!(
            "DELETE FROM {table} WHERE run_id = ?1 AND {key} IN (SELECT {key} FROM {table} WHERE run_id = ?1 LIMIT {portion})"
        );
        loop {
            let rows = tx.statement(&delete)?.execute([run])?;
            budget.rows += rows;
            if rows < portion {
                break;
            }
            if budget.is_spent() {
                tx.statement("INSERT OR IGNORE INTO meta (key, value) VALUES (?1 || ?2, ?2)")?
                    .execute([REST, &id])?;
                return Ok(false);
            }
        }
    }
    tx.statement("DELETE FROM meta WHERE key = ?1 || ?2")?
        .execute([REST, &id])?;
    Ok(true)
}

/// One run, whatever it is, by its id alone: what it holds may be damaged. Rows on a page that cannot
/// be read stay there.
pub(crate) fn remove(tx: &Tx<'_>, run: RunId) -> Worked<bool> {
    let owner = tx
        .statement("SELECT owner IS NOT NULL FROM queue WHERE run_id = ?1")?
        .query_row([run.as_bytes()], |row| row.get::<_, bool>(0))
        .optional()?;
    if owner == Some(true) {
        return Err(owned(run).into());
    }
    let mut rows = 0;
    for delete in [
        "DELETE FROM run_tags WHERE run_id = ?1",
        "DELETE FROM queue WHERE run_id = ?1",
    ]
    .iter()
    .chain(&BELONGINGS[1..])
    {
        match tx.statement(delete)?.execute([run.as_bytes()]) {
            Ok(deleted) => rows += deleted,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                tracing::warn!(%run, %error, delete, "rows on a damaged page stay there");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(rows > 0)
}

/// Runs to delete, and one more if there is one.
fn ended(tx: &Tx<'_>, prune: &Prune) -> Worked<Vec<[u8; 16]>> {
    let mut sql =
        String::from("SELECT run_id FROM runs INDEXED BY runs_finished WHERE finished_at < ?");
    let mut given = vec![Value::Integer(prune.before.millis())];
    if !prune.statuses.is_empty() {
        let marks = vec!["?"; prune.statuses.len()].join(", ");
        sql = format!("{sql} AND status IN ({marks})");
        given.extend(
            prune
                .statuses
                .iter()
                .map(|status| Value::Text(status.as_str().to_owned())),
        );
    }
    if let Some(workflow) = &prune.workflow {
        sql.push_str(" AND workflow = ?");
        given.push(Value::Text(workflow.clone()));
    }
    sql.push_str(" ORDER BY finished_at, run_id LIMIT ?");
    given.push(Value::Integer(
        i64::try_from(prune.limit)
            .unwrap_or(i64::MAX)
            .saturating_add(1),
    ));
    let mut statement = tx.statement(&sql)?;
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

    /// The rows that are deleted in portions are those of the tables that belong to runs, but for
    /// the run itself and its tags, which go first.
    #[test]
    fn every_table_is_deleted_in_portions_or_at_once() {
        let portions: BTreeSet<&str> = PORTIONS.iter().map(|(table, _, _)| *table).collect();
        fn table(delete: &'static str) -> &'static str {
            delete.split_whitespace().nth(2).unwrap()
        }
        let behind: BTreeSet<&str> = BELONGINGS[1..5]
            .iter()
            .map(|delete| table(delete))
            .collect();
        assert_eq!(portions, behind);
        assert_eq!(table(BELONGINGS[0]), "run_tags");
        assert_eq!(table(BELONGINGS[5]), "runs");
    }

    /// Enumerates the schema: a table of runs that pruning forgets is named.
    #[test]
    fn everything_that_belongs_to_a_run_goes_with_it() {
        let db = schema();
        // The queue has no row of a run that ended; the attempts of a task are kept with the task.
        let tables = "SELECT t.name FROM pragma_table_list AS t JOIN pragma_table_info(t.name) AS c
                      WHERE t.type = 'table' AND c.name = 'run_id' AND t.name NOT IN ('queue', 'task_attempts')";
        let mut statement = db.prepare(tables).unwrap();
        let of_runs: BTreeSet<String> = statement
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let table = |delete: &str| delete.split_whitespace().nth(2).unwrap().to_owned();
        assert_eq!(
            BELONGINGS.into_iter().map(table).collect::<BTreeSet<_>>(),
            of_runs
        );
    }

    #[test]
    fn each_delete_is_an_index_read() {
        let db = schema();
        for delete in BELONGINGS {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {delete}")).unwrap();
            let rows = statement
                .query_map([[1_u8]], |row| row.get::<_, String>(3))
                .unwrap();
            let plan: Vec<String> = rows.map(Result::unwrap).collect();
            let scans = plan
                .iter()
                .filter(|step| step.starts_with("SCAN") && !step.contains("VIRTUAL TABLE"))
                .count();
            assert_eq!(scans, 0, "{delete}\n{plan:?}");
        }
    }
}
