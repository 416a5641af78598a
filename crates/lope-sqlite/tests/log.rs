//! The write-ahead log: copied back and started over while work goes on, bounded when somebody
//! keeps it from that.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::ground;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ground::{Ground, admit, claim, commit, hold, register, rows};
use lope_model::Span;
use lope_sqlite::{SqliteOptions, SqliteStore, WalLimits};
use lope_store::StoreError;
use rusqlite::Connection;

/// Pages of 4 kB.
const SMALL: WalLimits = WalLimits {
    checkpoint: 50,
    pressure: 200,
    stop: 600,
};

fn log_pages(database: &Path) -> u64 {
    let log = database.with_file_name("lope.db-wal");
    std::fs::metadata(log).map_or(0, |metadata| metadata.len() / 4096)
}

#[tokio::test]
async fn the_log_starts_over_while_work_goes_on() {
    let ground = small_log().await;
    let runner = register(&ground.store, Span::from_secs(600)).await;
    let run = admit(&ground.store, 1).await[0];
    let claimed = claim(&ground.store, runner).await.remove(0);
    for batch in 0..200 {
        commit(
            &ground.store,
            hold(
                runner,
                &claimed,
                rows(batch * 10 + 2, batch * 10 + 11, 3_000),
            ),
        )
        .await;
    }
    let pages = log_pages(&ground.path());
    assert!(
        pages < u64::from(SMALL.stop),
        "2,000 pages were written, the log has {pages}"
    );
    assert_eq!(
        ground.store.runs.run(run).await.unwrap().unwrap().head,
        2_001
    );
    assert_eq!(ground.store.upkeep.check().await.unwrap(), vec![]);
}

#[tokio::test]
async fn a_reader_that_stays_stops_the_log_at_its_limit_and_no_later() {
    let ground = small_log().await;
    grows_to_its_limit(&ground).await;
}

/// Whoever copies pages back at that moment keeps others from counting them.
#[tokio::test]
async fn a_log_that_others_copy_back_all_the_time_stops_at_its_limit_too() {
    let ground = small_log().await;
    let done = Arc::new(AtomicBool::new(false));
    let copiers: Vec<_> = (0..2)
        .map(|_| {
            let copier = Connection::open(ground.path()).unwrap();
            let done = Arc::clone(&done);
            std::thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    copier
                        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
                        .unwrap();
                }
            })
        })
        .collect();
    grows_to_its_limit(&ground).await;
    done.store(true, Ordering::Relaxed);
    for copier in copiers {
        copier.join().unwrap();
    }
}

async fn small_log() -> Ground {
    Ground::with(|options| SqliteOptions {
        wal: SMALL,
        ..options
    })
    .await
}

/// Write beside a forgotten reader until the store refuses, and again when the reader has gone.
async fn grows_to_its_limit(ground: &Ground) {
    let runner = register(&ground.store, Span::from_secs(600)).await;
    admit(&ground.store, 1).await;
    let claimed = claim(&ground.store, runner).await.remove(0);
    let forgotten = Connection::open(ground.path()).unwrap();
    forgotten
        .execute_batch("BEGIN; SELECT count(*) FROM runs")
        .unwrap();
    let mut head = 1;
    let message = loop {
        let written = hold(runner, &claimed, rows(head + 1, head + 50, 3_000));
        match ground.store.runs.commit(vec![written]).await {
            Ok(_) => head += 50,
            Err(StoreError::Unavailable { message }) => break message,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert!(message.contains("old snapshot"), "{message}");
    let pages = log_pages(&ground.path());
    assert!(pages < u64::from(SMALL.stop) + 200, "{pages}");
    forgotten.execute_batch("COMMIT").unwrap();
    let written = hold(runner, &claimed, rows(head + 1, head + 50, 3_000));
    commit(&ground.store, written).await;
}

/// "A copy of the file is the store": the one file, without the log beside it.
#[tokio::test]
async fn a_clean_close_leaves_everything_in_the_one_file() {
    let ground = Ground::with(|options| options).await;
    register(&ground.store, Span::from_secs(600)).await;
    let runs = admit(&ground.store, 20).await;
    assert!(
        log_pages(&ground.path()) > 0,
        "what was written is in the log"
    );
    ground.store.upkeep.close().await.unwrap();
    let copy = ground.path().with_file_name("copy.db");
    std::fs::copy(ground.path(), &copy).unwrap();
    let copied = SqliteStore::open(SqliteOptions::existing(&copy)).unwrap();
    for run in runs {
        assert!(copied.runs.run(run).await.unwrap().is_some());
    }
    assert_eq!(copied.upkeep.check().await.unwrap(), vec![]);
}

/// While a runner of another process works, whoever closes leaves the log to it.
#[tokio::test]
async fn closing_beside_a_runner_of_another_store_loses_nothing() {
    let ground = Ground::with(|options| options).await;
    let runner = register(&ground.store, Span::from_secs(600)).await;
    let other = SqliteStore::open(SqliteOptions::existing(ground.path())).unwrap();
    let runs = admit(&other, 20).await;
    let pages = log_pages(&ground.path());
    other.upkeep.close().await.unwrap();
    assert_eq!(log_pages(&ground.path()), pages, "it is the runner's");
    assert_eq!(claim(&ground.store, runner).await.len(), runs.len());
}

/// A file that somebody emptied, or cut in the middle, takes nothing more; one that was rebuilt to
/// be smaller does.
#[tokio::test]
async fn a_file_that_is_cut_short_takes_nothing_more() {
    for left in [0, 8_192] {
        let ground = Ground::with(|options| options).await;
        let runner = register(&ground.store, Span::from_secs(600)).await;
        let db = Connection::open(ground.path()).unwrap();
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        ground.store.runs.heartbeat(runner).await.unwrap().unwrap();
        let file = std::fs::File::options().write(true).open(ground.path());
        file.unwrap().set_len(left).unwrap();
        let beat = ground.store.runs.heartbeat(runner).await;
        let Err(StoreError::Missing { message }) = beat else {
            panic!("a heartbeat was written: {beat:?}");
        };
        assert!(message.contains("lope.db was cut short"), "{message}");
    }
    let ground = Ground::with(|options| options).await;
    let length = || std::fs::metadata(ground.path()).unwrap().len();
    let other = SqliteStore::open(SqliteOptions::existing(ground.path())).unwrap();
    let junk = Connection::open(ground.path()).unwrap();
    junk.execute_batch(
        "CREATE TABLE junk (x); INSERT INTO junk VALUES (zeroblob(1000000)); PRAGMA wal_checkpoint(TRUNCATE)",
    )
    .unwrap();
    let runs = admit(&other, 1).await;
    let long = length();
    junk.execute_batch("DROP TABLE junk; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    assert!(length() < long, "{} of {long}", length());
    assert_eq!(admit(&other, 2).await.len(), runs.len() + 1);
}

/// What is acknowledged is on disk: a file that has no name any more is none.
#[tokio::test]
async fn a_file_that_is_removed_or_replaced_takes_nothing_more() {
    for replace in [false, true] {
        let ground = Ground::with(|options| options).await;
        let runner = register(&ground.store, Span::from_secs(600)).await;
        let path = ground.path();
        std::fs::rename(&path, path.with_file_name("away.db")).unwrap();
        if replace {
            std::fs::copy(path.with_file_name("away.db"), &path).unwrap();
        }
        let beat = ground.store.runs.heartbeat(runner).await;
        let Err(StoreError::Missing { message }) = beat else {
            panic!("a heartbeat was written: {beat:?}");
        };
        assert!(
            message.contains("lope.db was removed or replaced"),
            "{message}"
        );
    }
}
