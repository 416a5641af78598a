//! Tests that claims, takeovers and listings are index reads: by SQLite's own plan, and by the
//! number of steps that its machine takes over a long queue. Steps do not depend on how busy the
//! computer is.

use std::sync::Arc;

use lope_model::{Priority, QueueName, Realm, RunId, RunnerId, Timestamp};
use lope_store::runs::{Claim, FinalStatus, LiveStatus, RunFilter, RunStatus, Takeover};
use rusqlite::{Connection, StatementStatus, params_from_iter};
use tempfile::TempDir;

use crate::files::StoreFiles;
use crate::inner::SqliteInner;
use crate::list::{self, ListBranch};
use crate::locks::WriterLock;
use crate::options::SqliteOptions;
use crate::tx::Tx;
use crate::{claim, connection, migrate, session, tables};

const OWNER: RunnerId = RunnerId::from_bytes([9; 16]);
/// A worker's own timers, from a key on.
const TIMERS: &str = "INDEX table_rows_timers (<expr>=? AND key>?";
const NOW: i64 = 1_767_258_000_000;

/// How long the queue is.
const LENGTH: i64 = 1_000_000;

/// A store with a long queue: nine in ten due, one in ten due later, of ten priorities; some owned,
/// some ended, one paused.
struct Long {
    db: Connection,
    inner: SqliteInner,
    _folder: TempDir,
}

impl Long {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions {
            clock: Arc::new(lope_store::ManualClock::default()),
            ..SqliteOptions::new(folder.path().join("lope.db"))
        };
        let files = StoreFiles::find(&options.path).unwrap();
        files.create().unwrap();
        let mut db = connection::writer(&files, options.patience).unwrap();
        migrate::bring_up(
            &mut db,
            &WriterLock::open(&files, options.patience).unwrap(),
        )
        .unwrap();
        fill(&db);
        Self {
            db,
            inner: SqliteInner::new(files, options),
            _folder: folder,
        }
    }

    fn tx(&self) -> Tx<'_> {
        Tx::new(&self.db, &self.inner)
    }

    fn plan(&self, sql: &str) -> String {
        let mut statement = self
            .db
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let wanted = statement.parameter_count();
        let given = std::iter::repeat_n(rusqlite::types::Null, wanted);
        let rows = statement
            .query_map(params_from_iter(given), |row| row.get::<_, String>(3))
            .unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }
}

/// Without a log: only the result counts.
fn fill(db: &Connection) {
    db.execute_batch(&format!(
        "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; PRAGMA cache_size = -400000;
         BEGIN;
         INSERT INTO workflows VALUES (zeroblob(32), 'flow', x'', 0);
         CREATE TEMP TABLE numbers AS
             WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {LENGTH}) SELECT i FROM n;
         INSERT INTO runs (run_id, workflow, version, status, queue, priority, realm, law, weight, tags, created_at, epoch, head, mail)
             SELECT CAST(printf('%016d', i) AS BLOB), 'flow', zeroblob(32), 'live', 'default', i % 10, 'default', 1, 1, '{{}}',
                 {NOW} - 1000000000 + i, 0, 0, 0 FROM numbers;
         INSERT INTO queue SELECT run_id, queue, realm, priority,
                 CASE WHEN rowid_of % 10 = 3 THEN {NOW} + 1000 ELSE {NOW} - {LENGTH} + rowid_of END,
                 NULL, 0, 0, 0, 0, 1, 1, 'queued', NULL, created_at, NULL
             FROM (SELECT *, CAST(CAST(run_id AS TEXT) AS INTEGER) AS rowid_of FROM runs);
         DROP TABLE numbers;
         UPDATE queue SET status = 'paused' WHERE run_id = CAST(printf('%016d', 77) AS BLOB);
         DELETE FROM queue WHERE CAST(CAST(run_id AS TEXT) AS INTEGER) < 50;
         UPDATE runs SET status = CASE WHEN priority = 1 THEN 'failed' ELSE 'completed' END, finished_at = {NOW}
             WHERE CAST(CAST(run_id AS TEXT) AS INTEGER) < 50;
         INSERT INTO sessions VALUES (x'{}', 'r', 'h', 1, 'p', 0, 0, 9223372036854775807, 1, '{}', NULL, '', '');
         COMMIT;
         PRAGMA journal_mode = WAL;",
        "09".repeat(16),
        crate::clock::boot_id(),
    ))
    .unwrap();
}

fn claim_of(limit: usize) -> Claim {
    let (queues, realms) = (vec![QueueName::default()], vec![Realm::default()]);
    Claim {
        runner: OWNER,
        queues,
        realms,
        law: 1,
        limit,
        weight: u64::MAX,
        most: None,
        only: Vec::new(),
    }
}

/// How many steps SQLite's machine takes for a listing, all walks together.
fn steps(tx: &Tx<'_>, arms: Vec<ListBranch>) -> i32 {
    let step = |arm: ListBranch| {
        let mut statement = tx.db.prepare(&arm.sql).unwrap();
        let rows = statement
            .query_map(params_from_iter(arm.given), |_| Ok(()))
            .unwrap();
        rows.for_each(Result::unwrap);
        statement.get_status(StatementStatus::VmStep)
    };
    arms.into_iter().map(step).sum()
}

#[test]
fn verbs_over_a_long_queue_are_index_reads() {
    let long = Long::new();
    plans_of_claims_and_takeovers(&long);
    claims_take_from_the_head(&long);
    takeovers_touch_what_was_owned(&long);
    listings_walk_as_far_as_they_show(&long);
}

fn plans_of_claims_and_takeovers(long: &Long) {
    let claim = "INDEX queue_claim (queue=? AND realm=? AND priority";
    for (sql, index) in [
        (claim::NEXT_LEVEL, claim),
        (claim::DUE, claim),
        (claim::NEXT_DUE, claim),
        (session::NEXT_OWNER, "INDEX queue_owner (owner>?"),
        (session::PUT_BACK, "INDEX queue_owner (owner=?"),
        (session::OWNED, "INDEX queue_owner (owner=? AND run_id>?"),
        (session::WAITING, "INDEX queue_mail (owner=?"),
        (tables::TIMERS_FORWARD, TIMERS),
        (tables::TIMERS_BACKWARD, TIMERS),
    ] {
        let plan = long.plan(sql);
        assert!(plan.contains(index), "{sql}\n{plan}");
        assert!(
            !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"),
            "{sql}\n{plan}"
        );
    }
}

/// The first hundred, of the highest priority, earliest due; as many steps as runs, not as the
/// queue is long.
fn claims_take_from_the_head(long: &Long) {
    let tx = long.tx();
    let taken = claim::claim(&tx, &claim_of(100)).unwrap().unwrap();
    assert_eq!(taken.runs.len(), 100);
    assert!(
        taken
            .runs
            .iter()
            .all(|run| run.priority == Priority::HIGHEST)
    );
    assert!(taken.runs.is_sorted_by_key(|run| run.due));
    let mut due = tx.db.prepare(claim::DUE).unwrap();
    let rows = due
        .query_map(("default", "default", 9, NOW, 1, 100), |_| Ok(()))
        .unwrap();
    assert_eq!(rows.count(), 100);
    let steps = due.get_status(StatementStatus::VmStep);
    assert!(steps < 100 * 40, "{steps} steps for 100 runs");
}

fn takeovers_touch_what_was_owned(long: &Long) {
    let tx = long.tx();
    let owned = session::owned(&tx, OWNER, None, 1_000).unwrap();
    assert_eq!((owned.0.len(), owned.1.len()), (100, 0));
    // Nobody holds the owner's lock file, so it is dead.
    let taken = session::takeover(&tx, Takeover { limit: 60 }).unwrap();
    assert_eq!(
        (taken.ended, taken.runs, taken.more),
        (vec![OWNER], 60, true)
    );
    assert_eq!(
        session::takeover(&tx, Takeover { limit: 60 }).unwrap().runs,
        40
    );
}

/// Whatever a listing asks for, it takes steps in proportion to what it shows.
#[allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
fn listings_walk_as_far_as_they_show(long: &Long) {
    let tx = long.tx();
    let some = RunFilter {
        limit: 50,
        ..RunFilter::default()
    };
    let middle = Timestamp::from_millis(NOW - 1_000_000_000 + LENGTH / 2);
    let cursor = lope_store::runs::Cursor {
        created_at: middle,
        run: RunId::from_bytes([0; 16]),
    };
    let asking = |status: RunStatus| RunFilter {
        statuses: vec![status],
        ..some.clone()
    };
    for (filter, shown) in [
        (some.clone(), 50),
        (
            RunFilter {
                after: Some(cursor),
                ..some.clone()
            },
            50,
        ),
        (
            RunFilter {
                until: Some(middle),
                since: Some(middle.minus(lope_model::Span::from_millis(20))),
                ..some.clone()
            },
            20,
        ),
        (
            RunFilter {
                workflow: Some("flow".to_owned()),
                ..some.clone()
            },
            50,
        ),
        (asking(RunStatus::Live(LiveStatus::Queued)), 50),
        (asking(RunStatus::Live(LiveStatus::Paused)), 1),
        (asking(RunStatus::Live(LiveStatus::Running)), 0),
        (asking(RunStatus::Final(FinalStatus::Completed)), 45),
        (asking(RunStatus::Final(FinalStatus::Failed)), 5),
        (
            RunFilter {
                workflow: Some("flow".to_owned()),
                ..asking(RunStatus::Final(FinalStatus::Failed))
            },
            5,
        ),
        (
            RunFilter {
                tags: [("a".to_owned(), "b".to_owned())].into(),
                ..some.clone()
            },
            0,
        ),
        (
            RunFilter {
                parent: Some(RunId::from_bytes([1; 16])),
                ..some.clone()
            },
            0,
        ),
    ] {
        assert_eq!(list::list(&tx, &filter).unwrap().len(), shown, "{filter:?}");
        for arm in list::arms(&filter) {
            let plan = long.plan(&arm.sql);
            assert!(
                !plan.contains("SCAN") || plan.contains("queue_owner"),
                "{}\n{plan}",
                arm.sql
            );
        }
        let steps = steps(&tx, list::arms(&filter));
        assert!(steps < 10_000, "{steps} steps for {filter:?}");
    }
}
