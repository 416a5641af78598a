//! A wire that is cut in the middle of a commit, after every number of bytes, in both directions:
//! what may have happened is `Unknown`, what is found is all or nothing, and the store goes on. A
//! sample here, every byte under `LOPE_CHAOS=full`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use fixture::commands::{admission, born, deploy, hold, register, run_id, steady};
use fixture::proxy::{Proxy, Way};
use fixture::{database, server};
use lope_model::{RunId, RunnerId};
use lope_postgres::{PostgresOptions, PostgresStore};
use lope_store::runs::{Admit, Admitted, CommitReply, RunCommit};
use lope_store::{Store, StoreError};

/// Answers to a commit are shorter than this, and so are the requests of one.
const ANSWERS_MAX: i64 = 150;
const REQUESTS_MAX: i64 = 1_200;

/// A store with one writer behind a wire that can be cut.
async fn behind_a_wire(url: &str) -> (Proxy, Store) {
    let proxy = Proxy::start(url);
    let mut options = PostgresOptions::new(&proxy.url(url)).unwrap();
    options.writers = 1;
    let store = PostgresStore::open(options).await.unwrap();
    deploy(&store).await;
    (proxy, store)
}

/// Commit one row, so that the writer has a connection with all its statements; nothing of it is
/// told to other processes.
async fn warm_up(store: &Store, run: RunId, owner: RunnerId) -> u64 {
    let head = steady(store, run).await;
    let replies = store
        .runs
        .commit(vec![hold(run, owner, head + 1)])
        .await
        .unwrap();
    assert!(
        matches!(replies[0], CommitReply::Done { .. }),
        "{replies:?}"
    );
    head + 1
}

/// What callers were told, and what had happened.
#[derive(Default, Debug)]
struct Tally {
    done: u64,
    unavailable: u64,
    unknown: u64,
    unknown_and_written: u64,
}

/// The wire is cut after so many bytes of the answer to a commit: the caller is told `Unknown`
/// where it may have happened, and what it finds afterwards is all of it or nothing.
#[tokio::test]
async fn an_answer_cut_in_the_middle_of_a_commit_is_unknown_and_never_half() {
    let tally = cut_commits(Way::Answers, ANSWERS_MAX, 10).await;
    assert!(tally.is_none_or(|tally| tally.unknown > 0 && tally.unknown_and_written > 0));
}

/// The same with half a request: the server never hears the end of it.
#[tokio::test]
async fn a_request_cut_in_the_middle_of_a_commit_is_never_half_done() {
    let tally = cut_commits(Way::Requests, REQUESTS_MAX, 80).await;
    assert!(tally.is_none_or(|tally| tally.unknown > tally.unknown_and_written && tally.done > 0));
}

/// Send a commit again, as whoever does not know its end must: the server may be at work on the
/// first one still, so only the answer to the second tells. Either way it has happened once.
async fn had_happened(store: &Store, commit: RunCommit) -> bool {
    steady(store, commit.run).await;
    let head = commit.rows[0].seq;
    match store.runs.commit(vec![commit]).await.unwrap().remove(0) {
        CommitReply::Done { .. } => false,
        CommitReply::Gap { head: found } if found == head => true,
        other => panic!("{other:?}"),
    }
}

/// Nothing if the caller chose to go without Postgres.
async fn cut_commits(way: Way, bytes_max: i64, step: usize) -> Option<Tally> {
    let url = database(&server()?).await;
    let (proxy, store) = behind_a_wire(&url).await;
    let owner = register(&store).await.unwrap();
    let run = born(&store, owner).await.unwrap();
    let mut tally = Tally::default();
    for bytes in (0..bytes_max).step_by(if fixture::full() { 1 } else { step }) {
        let head = warm_up(&store, run, owner).await;
        proxy.cut_after(way, bytes);
        let commit = store.runs.commit(vec![hold(run, owner, head + 1)]).await;
        proxy.mend();
        match commit {
            Ok(_) => tally.done += 1,
            Err(StoreError::Unknown { .. }) => {
                tally.unknown += 1;
                tally.unknown_and_written +=
                    u64::from(had_happened(&store, hold(run, owner, head + 1)).await);
            }
            Err(StoreError::Unavailable { .. }) => {
                assert!(
                    !had_happened(&store, hold(run, owner, head + 1)).await,
                    "it was said that nothing was written"
                );
                tally.unavailable += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
        let found = steady(&store, run).await;
        assert_eq!(found, head + 1);
        let rows = store.runs.journal(run, 0, 10_000).await.unwrap();
        assert_eq!(rows.len() as u64, found, "a gap, or half a commit");
    }
    println!("{way:?}: {tally:?}");
    assert_eq!(store.upkeep.check().await.unwrap(), vec![]);
    store.upkeep.close().await.unwrap();
    Some(tally)
}

/// An admission whose answer was lost is repeated with its key: one run, not two.
#[tokio::test]
async fn an_admission_of_unknown_end_is_found_by_its_key() {
    let Some(url) = server() else { return };
    let url = database(&url).await;
    let (proxy, store) = behind_a_wire(&url).await;
    let owner = register(&store).await.unwrap();
    let run = born(&store, owner).await.unwrap();
    let (mut unknown, mut keys) = (0, 0);
    for bytes in (0..150).step_by(if fixture::full() { 1 } else { 30 }) {
        let keyed = || Admit {
            key: Some(format!("order {bytes}")),
            claimed_by: Some(owner),
            ..admission(run_id())
        };
        warm_up(&store, run, owner).await;
        proxy.cut_after(Way::Answers, bytes);
        let first = store.runs.admit(vec![keyed()]).await;
        proxy.mend();
        unknown += u64::from(matches!(first, Err(StoreError::Unknown { .. })));
        warm_up(&store, run, owner).await;
        let again = store.runs.admit(vec![keyed()]).await.unwrap();
        assert!(
            matches!(again[0], Admitted::Created { .. } | Admitted::Exists { .. }),
            "{again:?}"
        );
        keys += 1;
    }
    assert!(unknown > 0, "no wire was cut in the middle");
    assert_eq!(
        store.runs.counts().await.unwrap().by_status["running"],
        keys + 1,
        "one run a key, and one to warm up with"
    );
}
