//! Upkeep: a backup is a whole store, a sound store has no findings, and each kind of damage has
//! one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::ground;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ground::{Ground, admit, claim, commit, finish, hold, register, rows};
use lope_model::Span;
use lope_sqlite::{SqliteOptions, SqliteStore};
use lope_store::StoreError;
use lope_store::tables::{At, Batch, TableId, Write};
use rusqlite::Connection;

/// A store with something in every table, closed.
async fn worked_with() -> Ground {
    let ground = Ground::new().await;
    let runner = register(&ground.store, Span::from_secs(60)).await;
    let mut tagged = ground::admission();
    tagged.tags.insert("colour".to_owned(), "red".to_owned());
    tagged.blobs.push(lope_store::runs::Blob {
        digest: lope_model::Digest::of(b"big"),
        bytes: b"big".to_vec(),
    });
    let run = tagged.run;
    ground.store.runs.admit(vec![tagged]).await.unwrap();
    admit(&ground.store, 3).await;
    let claimed = claim(&ground.store, runner).await;
    let first = claimed.iter().find(|claimed| claimed.run == run).unwrap();
    let snapshot = Some(lope_store::runs::Snapshot {
        seq: 3,
        law: 1,
        body: vec![5],
    });
    commit(
        &ground.store,
        lope_store::runs::RunCommit {
            snapshot,
            ..hold(runner, first, rows(2, 5, 100))
        },
    )
    .await;
    let last = claimed.iter().find(|claimed| claimed.run != run).unwrap();
    commit(&ground.store, finish(runner, last)).await;
    let mail = lope_store::runs::Deliver {
        run,
        id: "m".to_owned(),
        kind: "signal".to_owned(),
        body: vec![1],
        reach: lope_store::runs::Reach::Live,
        reserved: false,
    };
    ground.store.runs.deliver(vec![mail]).await.unwrap();
    let schedule = lope_store::runs::StoredSchedule {
        name: "nightly".to_owned(),
        revision: lope_model::Revision::from_bytes([1; 16]),
        due: None,
        last_run: Some(run),
        waits: false,
        body: vec![3],
    };
    let write = lope_store::runs::ScheduleWrite {
        schedule,
        over: None,
        admit: None,
        mail: None,
    };
    assert_eq!(
        ground.store.runs.schedule(write).await.unwrap(),
        lope_store::runs::Scheduled::Done
    );
    let writes = vec![
        Write::Put(At::new(TableId::APP_STATE, *b"k"), vec![1]),
        Write::Append {
            table: TableId::INBOX,
            prefix: vec![],
            sequence: b"s".to_vec(),
            value: vec![2],
        },
    ];
    ground
        .store
        .tables
        .commit(vec![Batch {
            guards: vec![],
            writes,
        }])
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    ground.store.upkeep.close().await.unwrap();
    ground
}

fn tables(db: &Connection) -> Vec<String> {
    let mut statement = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn count(db: &Connection, table: &str) -> i64 {
    db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
        row.get(0)
    })
    .unwrap()
}

/// One row in each table of the board; what it says does not matter here.
fn fill_board(db: &Connection) {
    let board = [
        "projects",
        "sections",
        "tasks",
        "task_locks",
        "task_attempts",
        "task_events",
        "task_hooks",
        "runners",
    ];
    for table in board {
        let kinds = format!("SELECT type FROM pragma_table_info('{table}')");
        let mut statement = db.prepare(&kinds).unwrap();
        let kinds = statement.query_map([], |row| row.get::<_, String>(0));
        let values: Vec<&str> = kinds
            .unwrap()
            .map(|kind| match kind.unwrap().as_str() {
                "INTEGER" => "1",
                "REAL" => "1.0",
                "BLOB" => "x'00'",
                _ => "'x'",
            })
            .collect();
        let insert = format!("INSERT INTO {table} VALUES ({})", values.join(", "));
        db.execute(&insert, []).unwrap();
    }
}

/// Enumerates the schema: a table that a backup forgets, or that this test does not fill, is named.
#[tokio::test]
async fn a_backup_holds_every_row_of_every_table() {
    let ground = worked_with().await;
    fill_board(&Connection::open(ground.path()).unwrap());
    let store = SqliteStore::open(SqliteOptions::existing(ground.path())).unwrap();
    let copy = ground.folder.path().join("copy.db");
    store.upkeep.backup(copy.clone()).await.unwrap();
    assert_eq!(
        std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let (from, to) = (
        Connection::open(ground.path()).unwrap(),
        Connection::open(&copy).unwrap(),
    );
    assert!(tables(&from).len() >= 15);
    for table in tables(&from) {
        assert!(
            count(&from, &table) > 0,
            "the test puts nothing into {table}"
        );
        assert_eq!(count(&to, &table), count(&from, &table), "{table}");
    }
    let again = store.upkeep.backup(copy.clone()).await;
    assert!(
        matches!(again, Err(StoreError::Refused { .. })),
        "{again:?}"
    );
    let opened = SqliteStore::open(SqliteOptions::existing(copy)).unwrap();
    assert_eq!(opened.upkeep.check().await.unwrap(), vec![]);
    assert_eq!(
        opened
            .runs
            .takeover(lope_store::runs::Takeover { limit: 9 })
            .await
            .unwrap()
            .runs,
        3
    );
}

#[tokio::test]
async fn a_backup_goes_on_while_others_write() {
    let ground = Ground::new().await;
    let stop = Arc::new(AtomicBool::new(false));
    let writing = {
        let (store, stop) = (ground.store.clone(), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut runs = 0;
            while !stop.load(Ordering::Relaxed) {
                runs += admit(&store, 10).await.len();
            }
            runs
        })
    };
    for copy in 0..5 {
        let path = ground.folder.path().join(format!("copy-{copy}.db"));
        ground.store.upkeep.backup(path.clone()).await.unwrap();
        let opened = SqliteStore::open(SqliteOptions::existing(path)).unwrap();
        assert_eq!(opened.upkeep.check().await.unwrap(), vec![]);
        let queued = opened
            .runs
            .counts()
            .await
            .unwrap()
            .by_status
            .get("queued")
            .copied()
            .unwrap_or(0);
        assert_eq!(queued % 10, 0, "no half batch");
        opened.upkeep.close().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(writing.await.unwrap() > 0);
}

#[tokio::test]
async fn a_backup_that_cannot_be_made_leaves_nothing_behind() {
    let ground = Ground::new().await;
    let nowhere = ground.folder.path().join("no/folder/copy.db");
    assert!(matches!(
        ground.store.upkeep.backup(nowhere).await,
        Err(StoreError::Missing { .. })
    ));
}

/// Each way to damage a store by hand is found, under the rule that says what is wrong.
#[tokio::test]
async fn each_kind_of_damage_is_found() {
    let damages = [
        ("journal", "DELETE FROM journal WHERE seq = 3"),
        ("journal", "DELETE FROM journal WHERE seq = 5"),
        ("journal", "UPDATE snapshots SET seq = 99"),
        (
            "journal",
            "INSERT INTO journal VALUES (x'01', 1, 0, 'e', x'')",
        ),
        ("journal", "INSERT INTO snapshots VALUES (x'01', 1, 0, x'')"),
        ("journal", "INSERT INTO blobs VALUES (x'01', x'02', x'')"),
        ("lease", "DELETE FROM queue"),
        ("lease", "DELETE FROM runs"),
        ("lease", "UPDATE runs SET status = 'failed'"),
        ("lease", "DELETE FROM sessions"),
        ("mail", "DELETE FROM mail"),
        (
            "mail",
            "INSERT INTO mail VALUES (x'01', 1, 'i', 'k', x'', 0, 0)",
        ),
        ("runs", "DELETE FROM run_tags"),
        ("runs", "INSERT INTO run_tags VALUES ('t', 'v', 0, x'01')"),
        ("runs", "DELETE FROM workflows"),
        (
            "schedules",
            "UPDATE schedules SET waits = 1, last_run = NULL",
        ),
        ("tables", "INSERT INTO table_rows VALUES (77, x'01', x'')"),
        (
            "marker",
            "INSERT INTO table_rows VALUES (0, CAST('runner.schema.version' AS BLOB), x'00')",
        ),
        ("schema", "DROP INDEX queue_claim"),
        ("schema", "CREATE TABLE surprise (x)"),
    ];
    let sound = worked_with().await;
    for (rule, damage) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lope.db");
        let db = Connection::open(sound.path()).unwrap();
        db.execute("VACUUM INTO ?1", [path.to_str().unwrap()])
            .unwrap();
        Connection::open(&path)
            .unwrap()
            .execute_batch(damage)
            .unwrap();
        let store = SqliteStore::open(SqliteOptions::existing(&path)).unwrap();
        let findings = store.upkeep.check().await.unwrap();
        assert!(
            findings.iter().any(|finding| finding.rule == rule),
            "{damage}: {findings:?}"
        );
        assert!(findings.iter().all(|finding| !finding.hint.is_empty()));
        store.upkeep.close().await.unwrap();
    }
}

#[tokio::test]
async fn people_can_read_the_views() {
    let ground = worked_with().await;
    let db = Connection::open(ground.path()).unwrap();
    let mut statement = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'view'")
        .unwrap();
    let views: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(views.len(), 7);
    for view in views {
        assert!(count(&db, &view) > 0, "{view}");
    }
    let (id, status): (String, String) = db
        .query_row(
            "SELECT run_id, status FROM runs_view WHERE status = 'completed'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!((id.len(), status.as_str()), (32, "completed"));
}

/// A run with more rows than one prune may take leaves first; its rows follow, and meanwhile the
/// store is sound and others write.
#[tokio::test]
async fn a_large_run_is_pruned_in_portions() {
    let ground = Ground::new().await;
    let runner = register(&ground.store, Span::from_secs(600)).await;
    admit(&ground.store, 1).await;
    let claimed = claim(&ground.store, runner).await;
    let large = &claimed[0];
    commit(&ground.store, hold(runner, large, rows(2, 12_000, 10))).await;
    let mut end = finish(runner, large);
    end.rows = rows(12_001, 12_001, 10);
    commit(&ground.store, end).await;
    let everything = lope_store::runs::Prune {
        before: lope_model::Timestamp::NEVER,
        statuses: vec![],
        workflow: None,
        limit: 100,
    };
    let pruned = ground.store.runs.prune(everything.clone()).await.unwrap();
    assert_eq!((pruned.runs, pruned.more), (vec![large.run], true));
    assert_eq!(ground.store.runs.run(large.run).await.unwrap(), None);
    assert_eq!(ground.store.upkeep.check().await.unwrap(), []);
    let mut prunes = 1;
    loop {
        admit(&ground.store, 1).await;
        let pruned = ground.store.runs.prune(everything.clone()).await.unwrap();
        assert_eq!(pruned.runs, []);
        prunes += 1;
        if !pruned.more {
            break;
        }
    }
    assert!(prunes >= 3, "{prunes}");
    let left = Connection::open(ground.path()).unwrap();
    let rows: i64 = left
        .query_row(
            "SELECT (SELECT count(*) FROM journal WHERE run_id = ?1) + (SELECT count(*) FROM meta WHERE key LIKE 'pruning%')",
            [large.run.as_bytes()],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(rows, 0);
    assert_eq!(ground.store.upkeep.check().await.unwrap(), []);
}
