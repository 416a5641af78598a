//! Checkpoint strategies, counted commit by commit; what survives a resume; a store that does not
//! take what is written.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lope::{
    Backoff, Checkpoint, Error, Flow, FunctionCall, Runner, StartOptions, StepError, Stop, policy,
};
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use lope_store::{Store, StoreError};
use rig::*;

/// A store that counts commits.
fn counting() -> (Store, Arc<AtomicU64>) {
    let commits = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&commits);
    let hook = move |call: StoreCall| {
        counted.fetch_add(u64::from(call.verb == "commit"), Ordering::SeqCst);
        InjectedFault::None
    };
    (with_faults(memory(), Arc::new(hook)), commits)
}

/// A chain of so many steps that add one.
fn chain(steps: usize, strategy: Checkpoint) -> Flow {
    let mut builder = Flow::builder("chain")
        .checkpoint(strategy)
        .step("s0", |x: i64| async move { Ok(x + 1) });
    for number in 1..steps {
        builder = builder
            .step(&format!("s{number}"), |x: i64| async move { Ok(x + 1) })
            .after(format!("s{}", number - 1).as_str());
    }
    builder.build().unwrap()
}

/// Commits that one input of a chain takes, its own included.
async fn commits_of(steps: usize, strategy: Checkpoint) -> u64 {
    let (store, commits) = counting();
    let runner = on(&store).await;
    start(&runner, &chain(steps, strategy)).await;
    soon(runner.wait_idle("w")).await.unwrap();
    let before = commits.load(Ordering::SeqCst);
    let result = soon(runner.run_to_end("w", 0)).await.unwrap();
    assert_eq!(
        result.value::<i64>().unwrap(),
        i64::try_from(steps).unwrap()
    );
    commits.load(Ordering::SeqCst) - before
}

/// "Inputs are always journalled at once; the strategy is about outcomes." and "`every_n`: exactly
/// floor(k/n) boundaries for k steps, plus the last. `on_complete`: none before the end. `manual`:
/// only `checkpoint()`. All flush on completion". One commit is the input's; the last one settles
/// the input and is a boundary too if k is a multiple of n.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_counted_exactly() {
    let input = 1;
    assert_eq!(commits_of(7, Checkpoint::EveryStep).await, input + 7);
    for (steps, n, boundaries, last) in [
        (7, 3, 2, 1),
        (6, 3, 2, 0),
        (5, 10, 0, 1),
        (10, 1, 10, 0),
        (9, 5, 1, 1),
    ] {
        let commits = commits_of(steps, Checkpoint::EveryN(n)).await;
        assert_eq!(
            commits,
            input + boundaries + last,
            "{steps} steps, every {n}"
        );
    }
    assert_eq!(commits_of(7, Checkpoint::OnComplete).await, input + 1);
    assert_eq!(commits_of(7, Checkpoint::Manual).await, input + 1);
}

/// "Step: apply outcomes, evaluate inline steps, emit newly runnable actions, commit, then
/// dispatch." "`every_step`: every settled step is in a commit before what depends on it starts
/// (commits may be shared by many steps and runs)."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_writes_ahead() {
    let store = memory();
    let seen = Tally::default();
    let (reader, noted) = (store.clone(), seen.clone());
    let flow = Flow::builder("ahead")
        .step("a", |x: i64| async move { Ok(x) })
        .step("b", move |x: i64| {
            let (store, tally, run) = (
                reader.clone(),
                noted.clone(),
                FunctionCall::current().unwrap().token.run,
            );
            async move {
                let rows = store.runs.journal(run, 0, 100).await?;
                tally.note(
                    rows.iter()
                        .map(|row| &*row.event)
                        .collect::<Vec<_>>()
                        .join(" "),
                );
                Ok(x)
            }
        })
        .after("a")
        .build()
        .unwrap();
    let runner = on(&store).await;
    start(&runner, &flow).await;
    soon(runner.run_to_end("w", 1)).await.unwrap();
    assert_eq!(
        seen.all(),
        ["start input outcome"],
        "the outcome of a is durable when b runs"
    );
}

/// "`manual`: only `checkpoint()`." and "All flush on completion and on stop."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manual_writes_when_asked_and_at_the_end() {
    for strategy in [
        Checkpoint::Manual,
        Checkpoint::OnComplete,
        Checkpoint::EveryN(100),
    ] {
        let (store, commits) = counting();
        let (tally, gate) = (Tally::default(), Gate::shut());
        let (noted, held) = (tally.clone(), gate.clone());
        let flow = Flow::builder("manual")
            .checkpoint(strategy)
            .step("a", |x: i64| async move { Ok(x + 1) })
            .step("b", |x: i64| async move { Ok(x + 1) })
            .after("a")
            .step("c", move |x: i64| {
                noted.note("c");
                let gate = held.clone();
                async move {
                    gate.pass().await;
                    Ok(x + 1)
                }
            })
            .after("b")
            .build()
            .unwrap();
        let runner = on(&store).await;
        start(&runner, &flow).await;
        runner.run("w", 0).await.unwrap();
        until(async || tally.of("c") == 1).await;
        let before = commits.load(Ordering::SeqCst);
        let rows = runner.workflow("w").await.unwrap().events;
        assert_eq!(rows, 2, "start and input: {strategy:?}");
        soon(runner.checkpoint("w")).await.unwrap();
        assert_eq!(commits.load(Ordering::SeqCst), before + 1);
        assert_eq!(
            runner.workflow("w").await.unwrap().events,
            rows + 2,
            "the outcomes of a and b"
        );
        soon(runner.checkpoint("w")).await.unwrap();
        assert_eq!(
            commits.load(Ordering::SeqCst),
            before + 1,
            "nothing new, nothing written"
        );
        soon(runner.stop("w", Stop::Persist)).await.unwrap();
        gate.open();
        runner.resume("w", &flow).await.unwrap();
        until(async || runner.results("w").await.unwrap().len() == 1).await;
        assert_eq!(
            runner.results("w").await.unwrap().values::<i64>().unwrap(),
            [3]
        );
    }
}

/// "Backoff and timeout are really applied and survive a crash.": here that they survive.
/// "Policies, options, pending retries and their delays survive resume."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_options_and_pending_retries_survive_a_resume() {
    let file = File::new();
    let tally = Tally::default();
    let flow = || {
        let noted = tally.clone();
        Flow::builder("pending")
            .step("a", move |x: i64| {
                let attempt = FunctionCall::current().unwrap().token.attempt;
                noted.note(format!("a#{attempt}"));
                async move {
                    if attempt < 3 {
                        Err(StepError::new("Flaky", "not yet"))
                    } else {
                        Ok(x)
                    }
                }
            })
            .build()
            .unwrap()
    };
    let first = file.runner().await;
    // The flow itself retries nothing; what the run was started with does.
    let rule = policy("a")
        .retries(3)
        .backoff(Backoff::Linear)
        .base_delay(Duration::from_millis(400));
    let options = StartOptions::default()
        .policy(rule)
        .checkpoint(Checkpoint::EveryN(1))
        .concurrency(1);
    first.start_workflow("w", &flow(), options).await.unwrap();
    first.run("w", 9).await.unwrap();
    until(async || first.workflow("w").await.unwrap().events == 3).await;
    drop(first);
    let second = file.runner().await;
    second.resume("w", &flow()).await.unwrap();
    until(async || second.results("w").await.unwrap().len() == 1).await;
    let workflow = second.workflow("w").await.unwrap();
    assert_eq!(workflow.results.values::<i64>().unwrap(), [9]);
    assert_eq!(
        tally.all(),
        ["a#1", "a#2", "a#3"],
        "a backoff that was pending is no lost attempt"
    );
    let attempts = &workflow.executions[0].attempts;
    let gap = |n: usize| {
        attempts[n]
            .dispatched_at
            .since(attempts[n - 1].finished_at.unwrap())
            .millis()
    };
    assert!(
        gap(1) >= 400 && gap(2) >= 800,
        "the delays hold: {} and {}",
        gap(1),
        gap(2)
    );
}

/// "Execution mode `durable` also journals each dispatch (step, attempt, policy without functions),
/// so that what was dispatched and not completed can be listed." and "in-flight ones run again with
/// attempt+1".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_dispatches_can_be_listed() {
    let file = File::new();
    let (tally, gate) = (Tally::default(), Gate::shut());
    let flow = || {
        let (noted, held) = (tally.clone(), gate.clone());
        Flow::builder("durable")
            .step("a", |x: i64| async move { Ok(x) })
            .step("b", move |x: i64| {
                noted.note(format!(
                    "b#{}",
                    FunctionCall::current().unwrap().token.attempt
                ));
                let gate = held.clone();
                async move {
                    gate.pass().await;
                    Ok(x)
                }
            })
            .after("a")
            .policy(
                policy("b")
                    .durable()
                    .retries(2)
                    .fallback(|x: i64| async move { Ok(x) }),
            )
            .build()
            .unwrap()
    };
    let listed = async |runner: &Runner| {
        let pending = runner.workflow("w").await.unwrap().pending;
        pending
            .iter()
            .map(|one| (one.step.to_string(), one.attempt, one.policy.retries))
            .collect::<Vec<_>>()
    };
    let first = file.runner().await;
    start(&first, &flow()).await;
    first.run("w", 1).await.unwrap();
    until(async || tally.of("b#1") == 1).await;
    assert_eq!(listed(&first).await, [("b".to_owned(), 1, Some(2))]);
    drop(first);
    let second = file.runner().await;
    assert_eq!(
        listed(&second).await,
        [("b".to_owned(), 1, Some(2))],
        "another program sees it too"
    );
    second.resume("w", &flow()).await.unwrap();
    until(async || tally.of("b#2") == 1).await;
    assert_eq!(listed(&second).await, [("b".to_owned(), 2, Some(2))]);
    gate.open();
    until(async || second.results("w").await.unwrap().len() == 1).await;
    assert!(listed(&second).await.is_empty());
}

/// "A store that fails to append is an error that stops the run from going on, not a warning;
/// nothing is dropped from the buffer."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_takes_nothing_stops_the_run() {
    let (full, tally, gate) = (
        Arc::new(AtomicBool::new(false)),
        Tally::default(),
        Gate::shut(),
    );
    let failing = Arc::clone(&full);
    let hook = move |call: StoreCall| {
        let fails = call.verb == "commit" && failing.load(Ordering::SeqCst);
        if fails {
            InjectedFault::Fail(StoreError::Full {
                message: "no room".to_owned(),
            })
        } else {
            InjectedFault::None
        }
    };
    let store = with_faults(memory(), Arc::new(hook));
    let (held, noted) = (gate.clone(), tally.clone());
    let flow = Flow::builder("full")
        .step("a", move |x: i64| {
            let gate = held.clone();
            async move {
                gate.pass().await;
                Ok(x + 1)
            }
        })
        .step("b", move |x: i64| {
            noted.note("b");
            async move { Ok(x + 1) }
        })
        .after("a")
        .build()
        .unwrap();
    let runner = on(&store).await;
    start(&runner, &flow).await;
    let mut events = runner.subscribe();
    let input = runner.run("w", 1).await.unwrap();
    until(async || runner.in_flight().await.unwrap() == 1).await;
    full.store(true, Ordering::SeqCst);
    gate.open();
    soon(async { while events.recv().await.unwrap().name != lope::telemetry::STORE_EXCEPTION {} })
        .await;
    let written = soon(runner.checkpoint("w")).await;
    assert!(
        matches!(written, Err(Error::Store(StoreError::Full { .. }))),
        "whoever asks is told: {written:?}"
    );
    assert_eq!(tally.of("b"), 0, "the run does not go on");
    assert!(runner.metrics().store_failures() > 0);
    full.store(false, Ordering::SeqCst);
    assert_eq!(
        soon(runner.wait("w", &input))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        3,
        "nothing was dropped"
    );
    assert_eq!(tally.of("b"), 1);
}
