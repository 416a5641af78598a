//! `prune`: ended runs leave the store with everything that belongs to them, the longest ended
//! first.
//!
//! Others write in between: which runs are meant is read beside the writer, and a prune holds the
//! writer for a few milliseconds, in portions whose size follows from how long the last ones took. A
//! run with more rows than that leaves first, and its rows follow in the prunes behind it; `meta`
//! remembers whose they are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lope_model::RunId;
use lope_store::StoreError;
use lope_store::runs::{Prune, Pruned};
use lope_store::verdict::{self, RemoveFacts};
use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use crate::columns;
use crate::failure::Worked;
use crate::prune_pace::PrunePace;
use crate::session;
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

/// A run's tags by its id alone: a walk over all tags, for a run that does not say which it has.
const FROM_QUEUE: &str = "DELETE FROM queue WHERE run_id = ?1";
const TAGS_BY_RUN: &str = "DELETE FROM run_tags WHERE run_id = ?1";
const TAGS_OF_ENDED: &str = "SELECT tags FROM runs WHERE run_id = ?1 AND finished_at < ?2";

/// What belongs to a run and may be too much for one transaction: table, key of a row within the
/// run, and how many rows are taken at a time at most.
const PORTIONS: [(&str, &str, usize); 4] = [
    ("journal", "seq", 200),
    ("mail", "number", 200),
    ("blobs", "digest", 4),
    ("snapshots", "seq", 1),
];
/// Most rows that one prune deletes.
const ROWS_MAX: usize = 5_000;
/// How long one prune keeps others from writing: a portion that was begun before is finished.
const TIME_MAX: Duration = Duration::from_millis(5);
/// What `meta` remembers of a run that is gone while some of its rows are not.
const REST: &str = "pruning ";

/// How much one prune has done, and whether it should make room for others.
struct PruneBudget<'a> {
    rows: usize,
    spent: Duration,
    pace: PrunePace,
    /// How long the portion took that has just deleted so many rows.
    took: &'a mut dyn FnMut(usize) -> Duration,
}

impl<'a> PruneBudget<'a> {
    fn new(pace: PrunePace, took: &'a mut dyn FnMut(usize) -> Duration) -> Self {
        Self {
            rows: 0,
            spent: Duration::ZERO,
            pace,
            took,
        }
    }

    fn is_spent(&self) -> bool {
        self.rows >= ROWS_MAX || self.spent >= TIME_MAX
    }

    fn note(&mut self, rows: usize) -> Duration {
        let took = (self.took)(rows);
        self.rows += rows;
        self.spent += took;
        took
    }
}

/// Delete these runs as far as there is time.
pub(crate) fn prune(tx: &Tx<'_>, prune: &Prune, found: &[[u8; 16]]) -> Worked<Pruned> {
    let pace = &tx.inner.prune_pace;
    let mut last = Instant::now();
    let mut took = |_: usize| {
        let began = std::mem::replace(&mut last, Instant::now());
        last.saturating_duration_since(began)
    };
    let known = *pace.lock().expect("nobody panics while holding the pace");
    let mut budget = PruneBudget::new(known, &mut took);
    let pruned = prune_within(tx, prune, found, &mut budget);
    *pace.lock().expect("nobody panics while holding the pace") = budget.pace;
    pruned
}

fn prune_within(
    tx: &Tx<'_>,
    prune: &Prune,
    found: &[[u8; 16]],
    budget: &mut PruneBudget<'_>,
) -> Worked<Pruned> {
    for run in rests(tx)? {
        if !delete_rest(tx, &run, budget)? {
            return Ok(Pruned {
                runs: Vec::new(),
                more: true,
            });
        }
    }
    let mut gone = Vec::new();
    let mut seen = 0;
    for run in found.iter().take(prune.limit) {
        if budget.is_spent() {
            break;
        }
        seen += 1;
        if !delete_record(tx, prune, run, budget)? {
            continue;
        }
        gone.push(RunId::from_bytes(*run));
        if !delete_rest(tx, run, budget)? {
            break;
        }
    }
    Ok(Pruned {
        more: found.len() > seen || !rests(tx)?.is_empty(),
        runs: gone,
    })
}

/// The run itself and its tags, unless it was opened again since it was found.
fn delete_record(
    tx: &Tx<'_>,
    prune: &Prune,
    run: &[u8; 16],
    budget: &mut PruneBudget<'_>,
) -> Worked<bool> {
    let mut ended = tx.statement(TAGS_OF_ENDED)?;
    let mut found = ended.query(params![run, prune.before.millis()])?;
    let Some(row) = found.next()? else {
        return Ok(false);
    };
    let tags: Result<BTreeMap<String, String>, _> =
        serde_json::from_slice(columns::text_bytes(row, 0)?);
    drop(found);
    let delete_tags = tags.map_or(TAGS_BY_RUN, |_| BELONGINGS[0]);
    let mut rows = 0;
    for delete in [delete_tags, BELONGINGS[5]] {
        rows += tx.statement(delete)?.execute([run])?;
    }
    budget.note(rows);
    Ok(true)
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
fn delete_rest(tx: &Tx<'_>, run: &[u8; 16], budget: &mut PruneBudget<'_>) -> Worked<bool> {
    let id = RunId::from_bytes(*run).to_string();
    for (table, key, most) in PORTIONS {
        let delete = format!(
            "DELETE FROM {table} WHERE run_id = ?1 AND {key} IN (SELECT {key} FROM {table} WHERE run_id = ?1 LIMIT ?2)"
        );
        loop {
            let portion = budget.pace.portion(most);
            let rows = tx
                .statement(&delete)?
                .execute(params![run, portion as i64])?;
            let took = budget.note(rows);
            budget.pace = budget.pace.after(rows, most, took);
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

/// What a run leaves in each table that grows with it, to be deleted one by one.
pub(crate) const ROWS_OF_RUN: &[&str] = {
    let (_, rows) = BELONGINGS.split_at(1);
    let (rows, _) = rows.split_at(4);
    rows
};

/// The rows of a run in one table. Those on a page that cannot be read stay there: a transaction that
/// has met such a page may not end well, so each table has one of its own.
pub(crate) fn remove_rows(tx: &Tx<'_>, run: RunId, delete: &str) -> Worked<usize> {
    refuse_owned(tx, run)?;
    Ok(tx.statement(delete)?.execute([run.as_bytes()])?)
}

/// One run, whatever it is, by its id alone: what it holds may be damaged.
pub(crate) fn remove(tx: &Tx<'_>, run: RunId) -> Worked<usize> {
    refuse_owned(tx, run)?;
    let mut rows = 0;
    for delete in [TAGS_BY_RUN, FROM_QUEUE, BELONGINGS[5]] {
        rows += tx.statement(delete)?.execute([run.as_bytes()])?;
    }
    Ok(rows)
}

/// The same of a run whose record cannot be read: it leaves the queue, and nobody lists or claims it.
pub(crate) fn remove_from_queue(tx: &Tx<'_>, run: RunId) -> Worked<usize> {
    refuse_owned(tx, run)?;
    Ok(tx.statement(FROM_QUEUE)?.execute([run.as_bytes()])?)
}

/// An owner that cannot be read is nobody.
fn refuse_owned(tx: &Tx<'_>, run: RunId) -> Worked<()> {
    let mut statement = tx.statement("SELECT owner FROM queue WHERE run_id = ?1")?;
    let mut rows = statement.query([run.as_bytes()])?;
    let owner = match rows.next()? {
        Some(row) => columns::owner(row, 0)?,
        None => None,
    };
    let owner_lives = match owner {
        Some(owner) => session::live(tx, &[owner])? == [true],
        None => false,
    };
    Ok(verdict::remove(run, &RemoveFacts { owner, owner_lives })?)
}

/// Runs to delete, and one more if there is one.
pub(crate) fn ended(tx: &Tx<'_>, prune: &Prune) -> Worked<Vec<[u8; 16]>> {
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

    /// Portions of a machine that takes this long for a row, one after the other.
    fn portions(micros_a_row: u64, count: usize) -> Vec<usize> {
        let mut pace = PrunePace::default();
        let mut sizes = Vec::new();
        for _ in 0..count {
            let rows = pace.portion(200);
            sizes.push(rows);
            let took = Duration::from_micros(micros_a_row * rows as u64);
            pace = pace.after(rows, 200, took);
        }
        sizes
    }

    #[test]
    fn portions_follow_from_how_long_they_take() {
        assert_eq!(portions(1, 5), [25, 50, 100, 200, 200], "a quick machine");
        assert_eq!(portions(15, 5), [25, 50, 50, 50, 50], "2 ms at most");
        assert_eq!(portions(900, 9)[7..], [1, 1], "never none");
        let slow = PrunePace { halved: 3 };
        let quick = Duration::from_micros(10);
        assert_eq!(
            slow.after(25, 200, quick).portion(200),
            50,
            "and grow again"
        );
        assert_eq!(slow.after(3, 200, quick), slow, "a rest says nothing");
        assert_eq!(slow.portion(4), 1);
        let whole = PrunePace { halved: 0 };
        assert_eq!(whole.after(200, 200, quick), whole, "as large as may be");
    }

    /// One prune after the other with a clock of its own: none takes more than ten milliseconds, not
    /// the first either, and all of the rows go.
    #[test]
    fn a_prune_keeps_to_its_time_on_a_slow_machine() {
        let folder = tempfile::tempdir().unwrap();
        let files = crate::files::StoreFiles::find(&folder.path().join("lope.db")).unwrap();
        let db = schema();
        let run = [7_u8; 16];
        for seq in 0..3_000_i64 {
            let insert =
                "INSERT INTO journal (run_id, seq, at, event, body) VALUES (?1, ?2, 0, 'x', x'00')";
            db.execute(insert, params![run, seq]).unwrap();
        }
        let options = crate::options::SqliteOptions::new(folder.path().join("lope.db"));
        let inner = crate::inner::SqliteInner::new(files, options);
        let tx = Tx::new(&db, &inner);
        let mut pace = PrunePace::default();
        let mut held = Vec::new();
        loop {
            let mut took = |rows: usize| Duration::from_micros(50 * rows as u64);
            let mut budget = PruneBudget::new(pace, &mut took);
            let done = delete_rest(&tx, &run, &mut budget).unwrap();
            pace = budget.pace;
            held.push(budget.spent);
            if done {
                break;
            }
        }
        assert!(held.len() > 15, "{held:?}");
        let most = Duration::from_millis(10);
        assert!(held.iter().all(|held| *held <= most), "{held:?}");
        let left: i64 = db
            .query_row("SELECT count(*) FROM journal", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, 0);
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
