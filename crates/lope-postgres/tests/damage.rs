//! Full disks and damaged files under the server: an error of its kind each, nothing acknowledged
//! is lost, and the store goes on by itself once the cause is gone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::os::unix::fs::FileExt;

use fixture::cluster::{Cluster, Stop};
use fixture::commands::{admission, born, claim, deploy, hold, register, row, run_id, steady};
use fixture::{Schema, connect, server};
use lope_model::{RunId, RunnerId};
use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::runs::{CommitReply, JournalRow, RunCommit, RunFilter};
use lope_store::store::Finding;
use lope_store::tables::{At, Batch, TableId, Write};
use lope_store::{Store, StoreError};

/// Rows of one commit that fills.
const ROWS: u64 = 50;

/// A store with a run that is owned.
async fn owned_run(url: &str) -> (Store, RunnerId, RunId) {
    let store = PostgresStore::open(PostgresOptions::new(url).unwrap())
        .await
        .unwrap();
    deploy(&store).await;
    let owner = register(&store).await.unwrap();
    let run = born(&store, owner).await.unwrap();
    (store, owner, run)
}

fn many(run: RunId, owner: RunnerId, head: u64) -> RunCommit {
    let rows = (head + 1..=head + ROWS).map(|seq| JournalRow {
        body: vec![seq as u8; 1_000],
        ..row(seq)
    });
    RunCommit {
        rows: rows.collect(),
        ..hold(run, owner, 0)
    }
}

/// Write until a commit fails: the head that was acknowledged last, and why.
async fn fill(store: &Store, run: RunId, owner: RunnerId) -> (u64, StoreError) {
    let mut head = 1;
    loop {
        match store.runs.commit(vec![many(run, owner, head)]).await {
            Ok(replies) => assert!(
                matches!(replies[0], CommitReply::Done { .. }),
                "{replies:?}"
            ),
            Err(error) => return (head, error),
        }
        head += ROWS;
    }
}

/// Work goes on behind what was found, and all of it is sound.
async fn goes_on(store: &Store, run: RunId, owner: RunnerId, head: u64) {
    let replies = store
        .runs
        .commit(vec![many(run, owner, head)])
        .await
        .unwrap();
    assert!(
        matches!(replies[0], CommitReply::Done { .. }),
        "{replies:?}"
    );
    let rows = store.runs.journal(run, head, 10_000).await.unwrap();
    assert_eq!(rows.len() as u64, ROWS);
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
    store.upkeep.close().await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_full_and_the_process_goes_on_once_there_is_room() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let Some(disk) = cluster.disk("small", 32) else {
        return;
    };
    let by_hand = connect(&cluster.url()).await;
    let place = cluster.path().join("small");
    by_hand
        .batch_execute(&format!(
            "create tablespace small location '{}'",
            place.display()
        ))
        .await
        .unwrap();
    by_hand
        .batch_execute("create database small tablespace small")
        .await
        .unwrap();
    disk.take(12);
    let (store, owner, run) = owned_run(&cluster.url().replace("/postgres", "/small")).await;
    let (head, error) = fill(&store, run, owner).await;
    assert!(
        matches!(error, StoreError::Full { .. }) && head > 100,
        "{error:?} after {head}"
    );
    assert_eq!(
        store.runs.run(run).await.unwrap().unwrap().head,
        head,
        "reading goes on"
    );
    let again = store.runs.commit(vec![many(run, owner, head)]).await;
    assert!(matches!(again, Err(StoreError::Full { .. })), "{again:?}");
    disk.make_room();
    goes_on(&store, run, owner, head).await;
}

/// The same where no disk can be mounted: the server says so by a rule of ours.
#[tokio::test]
async fn a_server_that_says_it_is_full_is_full() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    deploy(&store).await;
    let owner = register(&store).await.unwrap();
    let run = born(&store, owner).await.unwrap();
    let by_hand = connect(&url).await;
    let rule = format!(
        "create function {0}.no_room() returns trigger language plpgsql as
             $$ begin raise exception 'could not extend file' using errcode = '53100'; end $$;
         create trigger no_room before insert on {0}.journal for each row execute function {0}.no_room()",
        place.name
    );
    by_hand.batch_execute(&rule).await.unwrap();
    let (head, error) = fill(&store, run, owner).await;
    assert!(
        matches!(error, StoreError::Full { .. }) && head == 1,
        "{error:?} after {head}"
    );
    by_hand
        .batch_execute(&format!("drop function {}.no_room cascade", place.name))
        .await
        .unwrap();
    goes_on(&store, run, owner, 1).await;
}

/// A server whose log finds no room gives up in the middle of a commit: nobody knows what became of
/// it until it is back.
#[tokio::test]
async fn a_full_log_ends_the_server_and_loses_nothing_acknowledged() {
    let Some((cluster, disk)) = Cluster::start_with_log_on_disk(160) else {
        return;
    };
    let (store, owner, run) = owned_run(&cluster.url()).await;
    // Somebody wants all of the log, so that it only grows.
    let keep = "select pg_create_physical_replication_slot('all_of_it', true)";
    connect(&cluster.url())
        .await
        .batch_execute(keep)
        .await
        .unwrap();
    // A segment is left, and room for several comes back: recovery writes log, too.
    disk.take(136);
    let (head, error) = fill(&store, run, owner).await;
    assert!(
        error.is_passing() || matches!(error, StoreError::Unknown { .. }),
        "{error:?} after {head}"
    );
    disk.make_room();
    cluster.restart();
    let found = steady(&store, run).await;
    assert!(
        found == head || found == head + ROWS,
        "{found} where {head} was acknowledged"
    );
    goes_on(&store, run, owner, found).await;
}

#[tokio::test]
async fn a_damaged_page_is_corrupt_and_the_rest_is_readable() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let (store, owner, run) = owned_run(&cluster.url()).await;
    for part in 0..10 {
        store
            .runs
            .commit(vec![many(run, owner, 1 + part * ROWS)])
            .await
            .unwrap();
    }
    let by_hand = connect(&cluster.url()).await;
    by_hand.batch_execute("checkpoint").await.unwrap();
    let where_rows_are = "select distinct pg_relation_filepath(tableoid) from lope.journal";
    let file: String = by_hand.query_one(where_rows_are, &[]).await.unwrap().get(0);
    cluster.down(Stop::Fast);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(cluster.pgdata().join(file))
        .unwrap();
    file.write_all_at(&[0xff; 512], 3 * 8192 + 4096).unwrap();
    cluster.up();
    assert_eq!(
        steady(&store, run).await,
        1 + 10 * ROWS,
        "the record is whole"
    );
    let loaded = store.runs.load(&[run]).await;
    assert!(
        matches!(loaded, Err(StoreError::Corrupt { .. })),
        "{loaded:?}"
    );
    let checked = store.upkeep.check().await.unwrap();
    assert!(
        checked.iter().any(|finding| finding.rule == "file"),
        "{checked:?}"
    );
    let other = born(&store, owner).await.unwrap();
    assert_eq!(steady(&store, other).await, 1, "other runs go on");
}

/// "A damaged run is set aside alone, … the others do not notice": one with a version that is none,
/// one with a priority and one with tags that no run can have.
#[tokio::test]
async fn a_damaged_run_is_set_aside_and_its_neighbours_are_claimed() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    deploy(&store).await;
    let runs: Vec<RunId> = (0..100).map(|_| run_id()).collect();
    let admissions = runs.iter().map(|run| admission(*run)).collect();
    store.runs.admit(admissions).await.unwrap();
    let by_hand = format!(
        "update {0}.runs set version = '\\x00' where run_id = '{1}';
         update {0}.runs set tags = '[1]' where run_id = '{2}'",
        place.name,
        runs[50].uuid(),
        runs[60].uuid()
    );
    connect(&url).await.batch_execute(&by_hand).await.unwrap();
    let owner = register(&store).await.unwrap();
    let claimed = store.runs.claim(claim(owner)).await.unwrap().unwrap();
    assert_eq!(claimed.runs.len(), 99, "tags are not read by a claim");
    assert!(claimed.runs.iter().all(|run| run.run != runs[50]));
    let parked: String = connect(&url)
        .await
        .query_one(
            &format!(
                "select parked from {}.queue where run_id = '{}' and owner is null",
                place.name,
                runs[50].uuid()
            ),
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert!(
        parked.contains("damaged") && parked.contains("remove-run"),
        "{parked}"
    );
    let filter = RunFilter {
        limit: 1_000,
        ..RunFilter::default()
    };
    let listed = store.runs.list(filter).await.unwrap();
    assert_eq!(listed.len(), 98, "bad rows do not hide the others");
    let owned = store.runs.owned(owner, None, 1_000).await.unwrap();
    assert_eq!(owned.len(), 99);
    let found = store.upkeep.check().await.unwrap();
    let damaged = |found: &[Finding]| {
        found
            .iter()
            .filter(|finding| finding.message.contains("is damaged"))
            .count()
    };
    assert_eq!(damaged(&found), 2, "{found:?}");
    assert!(store.upkeep.remove_run(runs[50]).await.unwrap());
    let found = store.upkeep.check().await.unwrap();
    assert_eq!(damaged(&found), 1, "{found:?}");
}

/// Whose a timer is stands beside it: one that lost its worker, or a worker without its timer, is
/// found.
#[tokio::test]
async fn timers_that_are_not_found_under_their_worker_are_told() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    let timer = |key: u8| {
        let at = At::new(TableId::TIMERS, vec![key]);
        Write::Put(at, [[7; 16].as_slice(), &[key; 8]].concat())
    };
    let batch = Batch {
        guards: vec![],
        writes: vec![timer(1), timer(2)],
    };
    store.tables.commit(vec![batch]).await.unwrap()[0]
        .as_ref()
        .unwrap();
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
    let by_hand = format!(
        "delete from {0}.timer_workers where key = '\\x01';
         insert into {0}.timer_workers values ('\\x09', '\\x09')",
        place.name
    );
    connect(&url).await.batch_execute(&by_hand).await.unwrap();
    let found = store.upkeep.check().await.unwrap();
    let timers = found.iter().filter(|finding| finding.rule == "timers");
    assert_eq!(timers.count(), 2, "{found:?}");
}

/// What nobody works on can be removed before anybody has taken it over; what somebody works on
/// cannot.
#[tokio::test]
async fn a_run_is_removed_when_its_owner_does_not_live() {
    let Some(url) = server() else { return };
    let place = Schema::new(&url);
    let store = place.open().await;
    deploy(&store).await;
    let owner = register(&store).await.unwrap();
    let run = born(&store, owner).await.unwrap();
    let refused = store.upkeep.remove_run(run).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
    let expired = format!("update {}.sessions set expires = 0", place.name);
    connect(&url).await.batch_execute(&expired).await.unwrap();
    assert!(store.upkeep.remove_run(run).await.unwrap());
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
}
