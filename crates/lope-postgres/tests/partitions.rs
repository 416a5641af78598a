//! Partitions: made ahead, retired when next to nothing lives in them, and nothing depends on their
//! being there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use fixture::commands::{admission, claim, deploy, hold, register};
use fixture::{Schema, connect, server};
use lope_model::{RunId, RunnerId, Timestamp};
use lope_store::Store;
use lope_store::runs::{Admit, Blob, FinalStatus, Finish, Prune, RunCommit, Snapshot, Then};
use tokio_postgres::Client;

/// The week of 13 November 2023, and a time in it.
const WEEK: &str = "w20231113";
const IN_IT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn old(number: u8) -> RunId {
    RunId::from_parts(IN_IT, [number; 10])
}

/// Partitions of the old week, as they were made when it came.
async fn make_week(client: &Client, schema: &str) {
    for table in ["journal", "snapshots", "blobs"] {
        let text = format!(
            "create table {schema}.{table}_{WEEK} partition of {schema}.{table}
             for values from ('018bc5fa-5800-0000-0000-000000000000') to ('018bea06-dc00-0000-0000-000000000000')"
        );
        client.batch_execute(&text).await.unwrap();
    }
}

async fn partitions(client: &Client, schema: &str) -> Vec<String> {
    let text =
        "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = $1 and c.relkind = 'r' and c.relname ~ '_w[0-9]{8}$' order by 1";
    client
        .query(text, &[&schema])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect()
}

/// Runs of the old week with rows, values and snapshots; those in `ended` end.
async fn work(store: &Store, runs: &[RunId], ended: &[RunId]) -> RunnerId {
    deploy(store).await;
    let owner = register(store).await.unwrap();
    let born = |run: &RunId| Admit {
        claimed_by: Some(owner),
        ..admission(*run)
    };
    store
        .runs
        .admit(runs.iter().map(born).collect())
        .await
        .unwrap();
    let commits = runs.iter().map(|run| RunCommit {
        blobs: vec![Blob {
            digest: lope_model::Digest::of(b"v"),
            bytes: b"v".to_vec(),
        }],
        snapshot: Some(Snapshot {
            seq: 1,
            law: 1,
            body: vec![1],
        }),
        ..hold(*run, owner, 2)
    });
    store.runs.commit(commits.collect()).await.unwrap();
    let finish = Finish {
        status: FinalStatus::Completed,
        result: None,
        error: None,
        seen: None,
    };
    let ends = ended.iter().map(|run| RunCommit {
        rows: vec![],
        then: Then::Finish(finish.clone()),
        ..hold(*run, owner, 0)
    });
    store.runs.commit(ends.collect()).await.unwrap();
    owner
}

fn everything() -> Prune {
    Prune {
        before: Timestamp::NEVER,
        statuses: vec![],
        workflow: None,
        limit: 100,
    }
}

#[tokio::test]
async fn partitions_of_coming_weeks_are_made_when_the_store_is() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    place.open().await;
    let client = connect(&url).await;
    let made = partitions(&client, &place.name).await;
    assert_eq!(
        made.len(),
        9,
        "three tables, this week and two more: {made:?}"
    );
}

#[tokio::test]
async fn a_week_is_dropped_once_its_runs_are_pruned() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    let client = connect(&url).await;
    make_week(&client, &place.name).await;
    let runs: Vec<RunId> = (0..20).map(old).collect();
    work(&store, &runs, &runs).await;
    let rows = format!("select count(*) from {}.journal_{WEEK}", place.name);
    assert_eq!(
        client.query_one(&rows, &[]).await.unwrap().get::<_, i64>(0),
        40
    );
    assert_eq!(store.runs.prune(everything()).await.unwrap().runs.len(), 20);
    let left = partitions(&client, &place.name).await;
    assert!(left.iter().all(|name| !name.ends_with(WEEK)), "{left:?}");
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
    // Ids of that week are as good as any other still.
    work(&store, &[old(200)], &[]).await;
    assert_eq!(store.runs.run(old(200)).await.unwrap().unwrap().head, 2);
}

#[tokio::test]
async fn what_lives_on_moves_when_its_week_is_retired() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    let client = connect(&url).await;
    make_week(&client, &place.name).await;
    let runs: Vec<RunId> = (0..20).map(old).collect();
    let owner = work(&store, &runs, &runs[3..]).await;
    let before = store.runs.load(&runs[..3]).await.unwrap();
    assert_eq!(store.runs.prune(everything()).await.unwrap().runs.len(), 17);
    let left = partitions(&client, &place.name).await;
    assert!(left.iter().all(|name| !name.ends_with(WEEK)), "{left:?}");
    assert_eq!(store.runs.load(&runs[..3]).await.unwrap(), before);
    let value = store
        .runs
        .blobs(runs[0], &[lope_model::Digest::of(b"v")])
        .await
        .unwrap();
    assert_eq!(value, [Some(b"v".to_vec())]);
    store
        .runs
        .commit(vec![hold(runs[0], owner, 3)])
        .await
        .unwrap();
    assert_eq!(store.runs.run(runs[0]).await.unwrap().unwrap().head, 3);
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
}

/// Somebody reads the tables all the while: pruning goes on, the week stays for the next time.
#[tokio::test]
async fn a_busy_week_is_left_for_the_next_prune() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    let mut client = connect(&url).await;
    make_week(&client, &place.name).await;
    let runs: Vec<RunId> = (0..4).map(old).collect();
    work(&store, &runs, &runs[..2]).await;
    let reader = client.transaction().await.unwrap();
    reader
        .query(&format!("select 1 from {}.journal", place.name), &[])
        .await
        .unwrap();
    assert_eq!(store.runs.prune(everything()).await.unwrap().runs.len(), 2);
    assert_eq!(
        store.runs.run(runs[3]).await.unwrap().unwrap().head,
        2,
        "the store works on"
    );
    reader.rollback().await.unwrap();
    assert!(
        partitions(&client, &place.name)
            .await
            .iter()
            .any(|name| name.ends_with(WEEK))
    );
    let owner = register(&store).await.unwrap();
    assert!(store.runs.claim(claim(owner)).await.unwrap().is_ok());
}
