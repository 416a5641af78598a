//! Stopping over real stores: what was not written is thrown away whole, and the workflow goes on
//! from what was, in this runner and in the next.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::rig;

use std::time::Duration;

use lope::{Checkpoint, Flow, Stop};
use rig::*;

/// Steps before the one that is held back, and how long the outcome of each is: together far more
/// than the 64 KiB behind which a snapshot is due.
const STEPS: usize = 40;
const OUTCOME: usize = 3_000;

/// A chain whose outcomes are written only by hand; its last step waits at a gate.
fn chain(tally: &Tally, gate: &Gate) -> Flow {
    let mut flow = Flow::builder("chain").checkpoint(Checkpoint::Manual);
    for step in 0..STEPS {
        let tally = tally.clone();
        let large = move |_: serde_json::Value| {
            tally.note("large");
            async move { Ok("x".repeat(OUTCOME)) }
        };
        flow = flow.step(&format!("large-{step}"), large);
        if step > 0 {
            flow = flow.after(format!("large-{}", step - 1).as_str());
        }
    }
    let tally = tally.clone();
    let gate = gate.clone();
    let last = move |text: String| {
        let tally = tally.clone();
        let gate = gate.clone();
        async move {
            tally.note("last");
            gate.pass().await;
            Ok(text.len())
        }
    };
    let before = format!("large-{}", STEPS - 1);
    flow.step("last", last)
        .after(before.as_str())
        .build()
        .unwrap()
}

/// "`stop` with discard parks the run when more than 64 KiB were unwritten": it leaves a run that
/// can be resumed, here and elsewhere, and a sound store.
async fn a_discard_leaves_a_run_that_goes_on(url: &str) {
    let tally = Tally::default();
    let gate = Gate::shut();
    let flow = chain(&tally, &gate);
    let runner = builder().url(url).build().await.unwrap();
    start(&runner, &flow).await;
    runner.run("w", 1).await.unwrap();
    until(async || tally.of("last") == 1).await;
    let before = runner.workflow("w").await.unwrap().events;
    soon(runner.stop("w", Stop::Discard)).await.unwrap();
    let after = runner.workflow("w").await.unwrap();
    assert_eq!(after.events, before, "nothing new is written");
    assert_eq!(runner.store().upkeep.check().await.unwrap(), []);
    // The same runner goes on, and again nothing of it is written.
    runner.resume("w", &flow).await.unwrap();
    until(async || tally.of("last") == 2).await;
    assert_eq!(tally.of("large"), 2 * STEPS, "all is made again");
    soon(runner.stop("w", Stop::Discard)).await.unwrap();
    runner.shutdown(Duration::from_secs(30)).await.unwrap();

    let other = builder().url(url).build().await.unwrap();
    gate.open();
    other.resume("w", &flow).await.unwrap();
    until(async || other.results("w").await.unwrap().len() == 1).await;
    let results = other.results("w").await.unwrap();
    assert_eq!(results.values::<usize>().unwrap(), [OUTCOME]);
    assert_eq!(tally.of("large"), 3 * STEPS);
    assert_eq!(other.store().upkeep.check().await.unwrap(), []);
    other.shutdown(Duration::from_secs(30)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_of_much_that_was_unwritten_leaves_a_run_that_goes_on_in_a_file() {
    let file = File::new();
    a_discard_leaves_a_run_that_goes_on(&file.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_of_much_that_was_unwritten_leaves_a_run_that_goes_on_on_a_server() {
    if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
        return;
    }
    let server = std::env::var("LOPE_TEST_POSTGRES")
        .expect("LOPE_TEST_POSTGRES names a server for tests: run `cargo xtask test`");
    let url = format!("{server}?schema=discard_{}", std::process::id());
    a_discard_leaves_a_run_that_goes_on(&url).await;
}
