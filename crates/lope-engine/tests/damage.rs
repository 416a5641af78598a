//! Damage in a real file under an engine: the run it belongs to is set aside and named, and its
//! neighbours end as if nothing had happened.

use std::path::Path;

use lope_engine::client::{self, RunStartOptions};
use lope_engine::settings::QueueLimit;
use lope_engine::{QueueLimits, Settings};
use lope_flow::law::{EventKind, Plan};
use lope_model::{QueueName, RunId, Timestamp, Value};
use lope_sqlite::{SqliteOptions, SqliteStore};
use lope_store::Store;
use rusqlite::Connection;

use crate::fixture::{self, EngineFixture};

const RUNS: usize = 60;
const FLOW: &str =
    "name: one\nsteps: { a: { action: twice }, done: { return: '${{ a }}', needs: [a] } }";

async fn runs_in(store: &Store) -> Vec<RunId> {
    let definition = lope_definition::yaml::read(FLOW, "one.yaml").unwrap();
    let plan = Plan::new(&definition).unwrap();
    client::deploy(store, &plan).await.unwrap();
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let options = RunStartOptions {
            input: Some(Value::Null),
            ..RunStartOptions::default()
        };
        let started = client::start(
            store,
            &plan,
            options,
            &QueueLimits::new(),
            Timestamp::from_millis(1),
        )
        .await;
        runs.push(started.unwrap().0);
    }
    runs
}

/// All runs but the damaged one complete; that one is parked with a reason.
async fn neighbours_complete(damage: impl Fn(&Connection, RunId), reason: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lope.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    let runs = runs_in(&store).await;
    let damaged = runs[RUNS / 2];
    damage(&Connection::open(&path).unwrap(), damaged);
    let fixture = EngineFixture::on(store, |_| Some(Ok(Value::Int(2))));
    let engine = fixture.engine();
    for run in runs.iter().filter(|run| **run != damaged) {
        assert_eq!(fixture.result(*run).await, Value::Int(2));
    }
    let parked = parked(&path, damaged).await;
    assert!(parked.contains(reason), "{parked}");
    drop(engine);
}

async fn parked(path: &Path, run: RunId) -> String {
    let db = Connection::open(path).unwrap();
    let looking = async {
        loop {
            let parked = db.query_row(
                "SELECT parked FROM queue WHERE run_id = ?1 AND parked IS NOT NULL",
                [run.as_bytes()],
                |row| row.get(0),
            );
            if let Ok(parked) = parked {
                return parked;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(120), looking)
        .await
        .expect("the damaged run is set aside")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_be_claimed_is_set_aside_alone() {
    let damage = |db: &Connection, run: RunId| {
        let sql = "UPDATE runs SET version = x'00' WHERE run_id = ?1";
        db.execute(sql, [run.as_bytes()]).unwrap();
    };
    neighbours_complete(damage, "damaged").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_be_loaded_is_set_aside_alone() {
    let damage = |db: &Connection, run: RunId| {
        let sql = "UPDATE runs SET tags = 'no tags' WHERE run_id = ?1";
        db.execute(sql, [run.as_bytes()]).unwrap();
    };
    neighbours_complete(damage, "damaged").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_journal_is_gone_is_set_aside_alone() {
    let damage = |db: &Connection, run: RunId| {
        let sql = "DELETE FROM journal WHERE run_id = ?1";
        db.execute(sql, [run.as_bytes()]).unwrap();
    };
    neighbours_complete(damage, "its journal ends at row 0, and row 1 was written").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_commit_cannot_succeed_is_set_aside_alone() {
    let damage = |db: &Connection, run: RunId| {
        let sql = format!(
            "CREATE TRIGGER no_more BEFORE INSERT ON journal WHEN hex(NEW.run_id) = '{}'
             BEGIN SELECT RAISE(ABORT, 'this row cannot be written'); END",
            run.as_bytes()
                .iter()
                .map(|byte| format!("{byte:02X}"))
                .collect::<String>()
        );
        db.execute_batch(&sql).unwrap();
    };
    neighbours_complete(damage, "this row cannot be written").await;
}

/// What was set aside is nobody's, also in a queue in which only one run may be at work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_run_keeps_no_place_in_a_queue_with_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lope.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    let runs = runs_in(&store).await;
    let sql = "DELETE FROM journal WHERE run_id = ?1";
    let db = Connection::open(&path).unwrap();
    db.execute(sql, [runs[0].as_bytes()]).unwrap();
    let fixture = EngineFixture::on(store, |_| Some(Ok(Value::Int(2))));
    let limit = QueueLimit {
        concurrency: Some(1),
        ..QueueLimit::default()
    };
    let engine = fixture.engine_with(Settings {
        queue_limits: [(QueueName::default(), limit)].into(),
        ..fixture::settings()
    });
    parked(&path, runs[0]).await;
    for run in &runs[1..] {
        assert_eq!(fixture.result(*run).await, Value::Int(2));
    }
    drop(engine);
}

/// A retry that came late once opened runs that had ended, and no store does that any more: where
/// it happened, the run ends again as it did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_reopened_after_its_end_ends_again_with_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lope.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    let runs = runs_in(&store).await;
    let cancelled = runs[0];
    let cancel = EventKind::Cancel { force: false };
    client::tell(&store, cancelled, &cancel, None)
        .await
        .unwrap();
    let fixture = EngineFixture::on(store, |_| Some(Ok(Value::Int(2))));
    let engine = fixture.engine();
    for reopened in [false, true] {
        if reopened {
            reopen(&mut Connection::open(&path).unwrap(), &runs);
        }
        assert_eq!(fixture.end(cancelled).await.status.as_str(), "cancelled");
        for run in &runs[1..] {
            assert_eq!(fixture.result(*run).await, Value::Int(2));
        }
        assert_eq!(fixture.calls() as usize, RUNS - 1, "each step runs once");
    }
    drop(engine);
}

fn reopen(db: &mut Connection, runs: &[RunId]) {
    let tx = db.transaction().unwrap();
    for run in runs {
        tx.execute(
            "INSERT INTO queue (run_id, queue, realm, priority, due, owner, epoch, head, mail, taken, law, weight,
             status, created_at)
             SELECT run_id, queue, realm, priority, 0, NULL, epoch, head, mail, mail, law, weight, 'queued', created_at
             FROM runs WHERE run_id = ?1",
            [run.as_bytes()],
        )
        .unwrap();
        let live = "UPDATE runs SET status = 'live', finished_at = NULL, result = NULL, error = NULL WHERE run_id = ?1";
        tx.execute(live, [run.as_bytes()]).unwrap();
    }
    tx.commit().unwrap();
}
