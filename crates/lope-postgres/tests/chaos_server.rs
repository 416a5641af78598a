//! The server is stopped and started under load, fast and as by a crash: callers are told, nothing
//! acknowledged is lost, and the store goes on by itself. A sample here, all of it under
//! `LOPE_CHAOS=full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fixture::cluster::{Cluster, Stop};
use fixture::commands::{born, deploy, hold, register};
use lope_model::{RunId, RunnerId};
use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::runs::CommitReply;
use lope_store::{Store, StoreError};

const COMMITTERS: usize = 8;
/// A server that is back is found again within this time.
const RECOVERY: Duration = Duration::from_secs(20);

/// What one committer was told.
#[derive(Default)]
struct Told {
    acknowledged: AtomicU64,
    unknown: AtomicU64,
    unavailable: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_restarted_under_load_loses_nothing_acknowledged() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let store = PostgresStore::open(PostgresOptions::new(&cluster.url()).unwrap())
        .await
        .unwrap();
    deploy(&store).await;
    let owner = register(&store).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::new(Told::default());
    let mut committers = Vec::new();
    for _ in 0..COMMITTERS {
        let run = born(&store, owner).await.unwrap();
        committers.push(tokio::spawn(commit_on(
            store.clone(),
            run,
            owner,
            Arc::clone(&stop),
            Arc::clone(&told),
        )));
    }
    let rounds = if fixture::full() { 10 } else { 1 };
    for how in [Stop::Fast, Stop::Immediate].repeat(rounds) {
        more_than(&told, told.acknowledged.load(Ordering::Relaxed) + 50).await;
        cluster.down(how);
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.up();
        more_than(&told, told.acknowledged.load(Ordering::Relaxed) + 1).await;
    }
    stop.store(true, Ordering::Relaxed);
    for committer in committers {
        let (run, head) = committer.await.unwrap();
        assert_eq!(store.runs.run(run).await.unwrap().unwrap().head, head);
        let rows = store.runs.journal(run, 0, 10_000).await.unwrap();
        assert!(
            rows.iter().zip(1..).all(|(row, seq)| row.seq == seq),
            "a gap"
        );
    }
    assert!(
        told.unavailable.load(Ordering::Relaxed) > 0,
        "nobody noticed that the server was down"
    );
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
    store.upkeep.close().await.unwrap();
}

/// Commit row after row; whoever is told `Unknown` sends the same again, as the engine does, and a
/// journal that ends with it says that it had happened. Reading the head is not enough: a server
/// that is being killed may answer from the time before a commit that its log holds already. What
/// was acknowledged must be there at every look.
async fn commit_on(
    store: Store,
    run: RunId,
    owner: RunnerId,
    stop: Arc<AtomicBool>,
    told: Arc<Told>,
) -> (RunId, u64) {
    let (mut head, mut doubtful) = (1, false);
    while doubtful || !stop.load(Ordering::Relaxed) {
        match store.runs.commit(vec![hold(run, owner, head + 1)]).await {
            Ok(replies) => {
                let happened = doubtful
                    && matches!(replies[0], CommitReply::Gap { head: found } if found == head + 1);
                assert!(
                    happened || matches!(replies[0], CommitReply::Done { .. }),
                    "{replies:?} after {head}"
                );
                told.acknowledged.fetch_add(1, Ordering::Relaxed);
                (head, doubtful) = (head + 1, false);
            }
            Err(StoreError::Unknown { .. }) => {
                told.unknown.fetch_add(1, Ordering::Relaxed);
                let found = head_of(&store, run).await;
                assert!(
                    found == head || found == head + 1,
                    "{found} where {head} was acknowledged"
                );
                doubtful = true;
            }
            Err(StoreError::Unavailable { .. }) => {
                told.unavailable.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    (run, head)
}

async fn head_of(store: &Store, run: RunId) -> u64 {
    loop {
        match store.runs.run(run).await {
            Ok(record) => return record.unwrap().head,
            Err(error) => assert!(error.is_passing(), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn more_than(told: &Told, number: u64) {
    let reached = async {
        while told.acknowledged.load(Ordering::Relaxed) < number {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(RECOVERY, reached)
        .await
        .expect("the store works again by itself");
}
