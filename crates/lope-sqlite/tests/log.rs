//! The write-ahead log: copied back and started over while work goes on, bounded when somebody keeps it from that.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ground;

use std::path::Path;

use ground::{Ground, admit, claim, commit, hold, register, rows};
use lope_model::Span;
use lope_sqlite::{Options, WalLimits};
use lope_store::StoreError;
use rusqlite::Connection;

/// Pages of 4 kB.
const SMALL: WalLimits = WalLimits { checkpoint: 50, pressure: 200, stop: 600 };

fn log_pages(database: &Path) -> u64 {
    let log = database.with_file_name("lope.db-wal");
    std::fs::metadata(log).map_or(0, |metadata| metadata.len() / 4096)
}

#[tokio::test]
async fn the_log_starts_over_while_work_goes_on() {
    let ground = Ground::with(|options| Options { wal: SMALL, ..options }).await;
    let runner = register(&ground.store, Span::from_secs(600)).await;
    let run = admit(&ground.store, 1).await[0];
    let claimed = claim(&ground.store, runner).await.remove(0);
    for batch in 0..200 {
        commit(&ground.store, hold(runner, &claimed, rows(batch * 10 + 2, batch * 10 + 11, 3_000))).await;
    }
    let pages = log_pages(&ground.path());
    assert!(pages < u64::from(SMALL.stop), "2,000 pages were written, the log has {pages}");
    assert_eq!(ground.store.runs.run(run).await.unwrap().unwrap().head, 2_001);
    assert_eq!(ground.store.upkeep.check().await.unwrap(), vec![]);
}

#[tokio::test]
async fn a_reader_that_stays_stops_the_log_at_its_limit_and_no_later() {
    let ground = Ground::with(|options| Options { wal: SMALL, ..options }).await;
    let runner = register(&ground.store, Span::from_secs(600)).await;
    admit(&ground.store, 1).await;
    let claimed = claim(&ground.store, runner).await.remove(0);
    let forgotten = Connection::open(ground.path()).unwrap();
    forgotten.execute_batch("BEGIN; SELECT count(*) FROM runs").unwrap();
    let mut head = 1;
    let message = loop {
        match ground.store.runs.commit(vec![hold(runner, &claimed, rows(head + 1, head + 50, 3_000))]).await {
            Ok(_) => head += 50,
            Err(StoreError::Unavailable { message }) => break message,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert!(message.contains("old snapshot"), "{message}");
    let pages = log_pages(&ground.path());
    assert!(pages < u64::from(SMALL.stop) + 200, "{pages}");
    forgotten.execute_batch("COMMIT").unwrap();
    commit(&ground.store, hold(runner, &claimed, rows(head + 1, head + 50, 3_000))).await;
}

#[tokio::test]
async fn nobody_copies_the_log_back_when_it_closes() {
    let ground = Ground::new().await;
    admit(&ground.store, 100).await;
    let pages = log_pages(&ground.path());
    assert!(pages > 0);
    ground.store.upkeep.close().await.unwrap();
    assert_eq!(log_pages(&ground.path()), pages);
}
