//! What a runner asks of its store, seen from the runner: what is kept is found again, by another
//! task, another runner, another program. The contract of stores itself (`behaviours/embedding.md`,
//! "Store contract") is one suite, `lope_store::conformance`, which runs in `tests/conformance.rs`
//! of `lope-store`, `lope-sqlite` and `lope-postgres`; the guide for writing a store is compiled
//! there too.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lope::{Flow, Runner, StartOptions, Stop};
use lope_store::StoreError;
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use rig::*;

/// "save→load identity" and "a read from another task sees the write", on memory and in a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_is_found_by_another_runner() {
    let file = File::new();
    let url: lope::stores::StoreUrl = file.url().parse().unwrap();
    let sqlite = lope::stores::open(&url, lope::stores::CreateStore::IfMissing)
        .await
        .unwrap();
    for store in [memory(), sqlite] {
        let first = on(&store).await;
        start(&first, &add_one()).await;
        for input in 0..5 {
            soon(first.run_to_end("w", input)).await.unwrap();
        }
        let kept = first.workflow("w").await.unwrap();
        let reader = first.clone();
        let read = tokio::spawn(async move { reader.workflow("w").await.unwrap() })
            .await
            .unwrap();
        assert_eq!(read, kept);
        let second = on(&store).await;
        assert_eq!(second.workflow("w").await.unwrap(), kept);
        assert_eq!(
            second.results("w").await.unwrap().values::<i64>().unwrap(),
            [1, 2, 3, 4, 5]
        );
    }
}

/// "20 writers on different ids do not interfere"; "list reflects the set".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_writers_on_different_ids_do_not_interfere() {
    let file = File::new();
    let runner = file.runner().await;
    let writers: Vec<_> = (0..20)
        .map(|number: i64| {
            let runner = runner.clone();
            tokio::spawn(async move {
                let id = format!("w{number}");
                runner
                    .start_workflow(&id, &add_one(), StartOptions::default())
                    .await
                    .unwrap();
                for round in 0..3 {
                    let result = soon(runner.run_to_end(&id, number * 100 + round))
                        .await
                        .unwrap();
                    assert_eq!(result.value::<i64>().unwrap(), number * 100 + round + 1);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(runner.list().await.unwrap().len(), 20);
}

/// "a store that stops cleans up after itself": a runner that was shut down leaves nothing behind
/// that keeps others away, and what it had is taken up at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_ends_in_order_leaves_its_runs_to_others() {
    let file = File::new();
    let first = file.runner().await;
    start(&first, &add_one()).await;
    soon(first.run_to_end("w", 1)).await.unwrap();
    soon(first.shutdown(LONG)).await.unwrap();
    assert!(first.run("w", 1).await.is_err(), "it is closed");
    let second = file.runner().await;
    second.resume("w", &add_one()).await.unwrap();
    assert_eq!(
        soon(second.run_to_end("w", 2))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        3
    );
    assert_eq!(
        second.results("w").await.unwrap().values::<i64>().unwrap(),
        [2, 3]
    );
}

/// "a third-party store needs only the traits and one call of the suite, and a guide (compiled by
/// the tests) says how to write one. The seed's save, load, checkpoint, delete, list, exists map
/// onto the Runs verbs in a documented table;": the guide is compiled as a test of `lope-store`,
/// the table is in `docs/store-map.md`. "a third-party store needs only the traits": a store that
/// none of our backends is, around one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_programs_own_works() {
    let store = with_faults(memory(), Arc::new(|_: StoreCall| InjectedFault::None));
    let runner = Runner::builder()
        .name("own")
        .store(store)
        .build()
        .await
        .unwrap();
    start(&runner, &add_one()).await;
    assert_eq!(
        soon(runner.run_to_end("w", 1))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        2
    );
    soon(runner.stop("w", Stop::Persist)).await.unwrap();
    runner.resume("w", &add_one()).await.unwrap();
    assert_eq!(
        soon(runner.run_to_end("w", 2))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        3
    );
}

/// "If the store or the registry of a runner fails, what depends on it restarts with it, in order."
/// The store is out of reach for longer than the lease: the runner gives up its session and
/// everything it held, and when the store is back it registers anew, takes its runs up again and
/// goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_restarts_with_its_store() {
    let (down, tally) = (Arc::new(AtomicBool::new(false)), Tally::default());
    let gone = Arc::clone(&down);
    let hook = move |_: StoreCall| {
        if gone.load(Ordering::SeqCst) {
            InjectedFault::Fail(StoreError::unavailable("gone"))
        } else {
            InjectedFault::None
        }
    };
    let store = memory();
    let faulty = with_faults(store.clone(), Arc::new(hook));
    let runner = builder().settings(short_lease()).store(faulty);
    let runner = runner.build().await.unwrap();
    let (gate, noted) = (Gate::shut(), tally.clone());
    let held = gate.clone();
    let flow = Flow::builder("restart")
        .step("a", move |x: i64| {
            noted.note(format!(
                "a#{}",
                lope::FunctionCall::current().unwrap().token.attempt
            ));
            let gate = held.clone();
            async move {
                gate.pass().await;
                Ok(x + 1)
            }
        })
        .build()
        .unwrap();
    start(&runner, &flow).await;
    runner.run("w", 1).await.unwrap();
    until(async || tally.of("a#1") == 1).await;
    let before = store.runs.runners(10).await.unwrap();
    down.store(true, Ordering::SeqCst);
    until(async || runner.in_flight().await.unwrap() == 0).await;
    assert!(
        runner.run("w", 2).await.is_err(),
        "out of reach is an error"
    );
    down.store(false, Ordering::SeqCst);
    until(async || tally.of("a#2") == 1).await;
    assert_eq!(
        store.runs.runners(10).await.unwrap().len(),
        before.len() + 1,
        "it registered anew"
    );
    gate.open();
    until(async || runner.results("w").await.unwrap().len() == 1).await;
    assert_eq!(
        runner.results("w").await.unwrap().values::<i64>().unwrap(),
        [2]
    );
    assert_eq!(
        soon(runner.run_to_end("w", 5))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        6,
        "and it goes on"
    );
}
