//! The runner of `behaviours/embedding.md`: names, ids, the live set, stopping, results, many
//! inputs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lope::{Error, Flow, RunStatus, Runner, StartOptions, StepError, Stop, Value};
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use lope_store::runs::LiveStatus;
use rig::*;

const IDLE: RunStatus = RunStatus::Live(LiveStatus::Idle);

fn ids(found: Vec<lope::LiveWorkflow>) -> Vec<String> {
    let mut ids: Vec<String> = found.into_iter().map(|found| found.id).collect();
    ids.sort();
    ids
}

async fn values(runner: &Runner, flow: &Flow, input: i64) -> Value {
    start(runner, flow).await;
    soon(runner.run_to_end("w", input))
        .await
        .unwrap()
        .value()
        .unwrap()
}

/// "Names: two runners with different names do not meet"
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runners_with_different_names_do_not_meet() {
    let store = memory();
    let named = |name: &'static str| builder().name(name).store(store.clone()).build();
    let (left, right) = (named("left").await.unwrap(), named("right").await.unwrap());
    let flow = |add: i64| {
        Flow::builder("f")
            .step("a", move |x: i64| async move { Ok(x + add) })
            .build()
            .unwrap()
    };
    left.start_workflow("w", &flow(1), StartOptions::default())
        .await
        .unwrap();
    assert_eq!(right.lookup("w").await.unwrap(), None);
    assert!(right.list().await.unwrap().is_empty());
    assert!(matches!(
        right.run("w", 1).await,
        Err(Error::NotFound { .. })
    ));
    right
        .start_workflow("w", &flow(10), StartOptions::default())
        .await
        .unwrap();
    for _ in 0..5 {
        assert_eq!(
            soon(left.run_to_end("w", 1))
                .await
                .unwrap()
                .value::<i64>()
                .unwrap(),
            2
        );
        assert_eq!(
            soon(right.run_to_end("w", 1))
                .await
                .unwrap()
                .value::<i64>()
                .unwrap(),
            11
        );
    }
}

/// "If the store or the registry of a runner fails, what depends on it restarts with it, in order."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_begins_again_and_what_keeps_failing_is_an_error() {
    let store = memory();
    let falls = |most: u32| {
        let seen = Arc::new(AtomicU32::new(0));
        let hook = move |call: StoreCall| {
            let fails = call.verb == "watch" && seen.fetch_add(1, Ordering::SeqCst) < most;
            assert!(!fails, "the store's notification is broken");
            InjectedFault::None
        };
        with_faults(store.clone(), Arc::new(hook))
    };
    let mended = builder()
        .name("mended")
        .store(falls(3))
        .build()
        .await
        .unwrap();
    start(&mended, &add_one()).await;
    assert_eq!(
        soon(mended.run_to_end("w", 1))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        2
    );
    let lost = builder()
        .name("lost")
        .store(falls(u32::MAX))
        .build()
        .await
        .unwrap();
    start(&lost, &add_one()).await;
    let waiting = soon(lost.run_to_end("w", 1)).await;
    assert!(matches!(waiting, Err(Error::Broken { .. })), "{waiting:?}");
    let told = soon(lost.broken()).await.to_string();
    assert!(
        told.contains("runner 'lost' cannot go on")
            && told.contains("the store's notification is broken"),
        "{told}"
    );
    assert!(matches!(lost.in_flight().await, Err(Error::Broken { .. })));
    let next = builder()
        .name("lost")
        .store(store.clone())
        .build()
        .await
        .unwrap();
    soon(next.resume("w", &add_one())).await.unwrap();
    assert_eq!(soon(next.wait_idle("w")).await.unwrap(), IDLE);
    assert_eq!(
        next.results("w").await.unwrap().len(),
        1,
        "the input was not lost"
    );
}

/// "the name defaults to `default`; a bad option is a clear error."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_is_default_and_a_bad_option_is_named() {
    assert_eq!(runner().await.name(), "default");
    let named = |error: lope::Result<Runner>| match error {
        Err(Error::BadOption { option, .. }) => option,
        other => panic!("{other:?}"),
    };
    for name in ["", "a/b", "a\nb", &"x".repeat(65)] {
        assert_eq!(
            named(Runner::builder().name(name).build().await),
            "name",
            "{name}"
        );
    }
    assert_eq!(
        named(Runner::builder().concurrency(0).build().await),
        "concurrency"
    );
    assert_eq!(
        named(Runner::builder().task_partitions(0).build().await),
        "task_partitions"
    );
    assert_eq!(
        named(Runner::builder().task_partitions(100_000).build().await),
        "task_partitions"
    );
    assert_eq!(named(Runner::open("mysql://x").await), "url");
    let slow = lope_engine::Settings {
        heartbeat: lope_model::Span::from_secs(60),
        ..settings()
    };
    assert_eq!(
        named(Runner::builder().settings(slow).build().await),
        "settings"
    );
    let runner = runner().await;
    let bad = runner
        .start_workflow("", &add_one(), StartOptions::default())
        .await;
    assert!(matches!(bad, Err(Error::BadOption { option: "id", .. })));
    let bad = runner
        .start_workflow("w", &add_one(), StartOptions::default().priority(99))
        .await;
    assert!(
        matches!(
            bad,
            Err(Error::BadOption {
                option: "priority",
                ..
            })
        ),
        "{bad:?}"
    );
    let bad = Flow::builder("f")
        .after("x")
        .step("a", |x: i64| async move { Ok(x) })
        .build();
    assert!(
        bad.unwrap_err()
            .to_string()
            .contains("'after' speaks about a step")
    );
    let bad = Flow::builder("f")
        .step("a", |x: i64| async move { Ok(x) })
        .after("b")
        .build();
    assert!(bad.unwrap_err().to_string().contains("'b'"));
    let bad = add_one_with(lope::policy("ad").retries(1));
    assert!(bad.unwrap_err().to_string().contains("did you mean 'add'"));
    let bad = add_one_with(lope::policy("add").preset("networkk"));
    assert!(matches!(
        bad,
        Err(Error::BadOption {
            option: "preset",
            ..
        })
    ));
}

fn add_one_with(policy: lope::PolicyRule) -> lope::Result<Flow> {
    Flow::builder("f")
        .step("add", |x: i64| async move { Ok(x + 1) })
        .policy(policy)
        .build()
}

/// "`start_workflow` duplicate id → already started (with what is running)."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_started_once() {
    let runner = runner().await;
    let run = runner
        .start_workflow("w", &add_one(), StartOptions::default())
        .await
        .unwrap();
    let again = runner
        .start_workflow("w", &add_one(), StartOptions::default())
        .await;
    match again {
        Err(Error::AlreadyStarted { id, run: there, .. }) => {
            assert_eq!((id.as_str(), there), ("w", run));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        soon(runner.run_to_end("w", 1))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        2,
        "the first is unharmed"
    );
}

/// "`run`, `results`, `stop`, `resume` on an unknown id → not found, never a panic."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_id_is_not_found() {
    let runner = runner().await;
    for id in ["nobody", "", "a/b", &"x".repeat(5_000), "\0"] {
        assert!(
            matches!(runner.run(id, 1).await, Err(Error::NotFound { .. })),
            "{id}"
        );
        assert!(
            matches!(runner.results(id).await, Err(Error::NotFound { .. })),
            "{id}"
        );
        assert!(
            matches!(runner.workflow(id).await, Err(Error::NotFound { .. })),
            "{id}"
        );
        assert!(
            matches!(
                runner.stop(id, Stop::Persist).await,
                Err(Error::NotFound { .. })
            ),
            "{id}"
        );
        assert!(
            matches!(
                runner.resume(id, &add_one()).await,
                Err(Error::NotFound { .. })
            ),
            "{id}"
        );
        assert!(
            matches!(runner.checkpoint(id).await, Err(Error::NotFound { .. })),
            "{id}"
        );
        assert!(
            matches!(runner.signal(id, "s", 1).await, Err(Error::NotFound { .. })),
            "{id}"
        );
        assert_eq!(runner.lookup(id).await.unwrap(), None, "{id}");
    }
}

/// "`list` and `lookup` follow the live set."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_live_set_is_listed() {
    let runner = on(&memory()).await;
    assert!(runner.list().await.unwrap().is_empty());
    for id in ["a", "b", "c"] {
        runner
            .start_workflow(id, &add_one(), StartOptions::default())
            .await
            .unwrap();
    }
    assert_eq!(ids(runner.list().await.unwrap()), ["a", "b", "c"]);
    assert_eq!(
        runner.lookup("b").await.unwrap().unwrap().workflow,
        "add-one"
    );
    runner.stop("b", Stop::Persist).await.unwrap();
    assert_eq!(ids(runner.list().await.unwrap()), ["a", "c"]);
    assert_eq!(runner.lookup("b").await.unwrap(), None);
    runner.close("c").await.unwrap();
    until(async || ids(runner.list().await.unwrap()) == ["a"]).await;
    runner.resume("b", &add_one()).await.unwrap();
    until(async || ids(runner.list().await.unwrap()) == ["a", "b"]).await;
    assert!(matches!(runner.run("c", 1).await, Err(Error::Ended { .. })));
}

/// "`stop` persists by default; without persisting, nothing new is written."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_writes_what_is_open_or_nothing() {
    for (how, first_runs) in [(Stop::default(), 1), (Stop::Discard, 2)] {
        let (tally, gate) = (Tally::default(), Gate::shut());
        let (noted, held) = (tally.clone(), gate.clone());
        let again = tally.clone();
        let flow = Flow::builder("two")
            .checkpoint(lope::Checkpoint::Manual)
            .step("first", move |x: i64| {
                noted.note("first");
                async move { Ok(x + 1) }
            })
            .step("second", move |x: i64| {
                let (gate, tally) = (held.clone(), again.clone());
                async move {
                    tally.note("second");
                    gate.pass().await;
                    Ok(x * 10)
                }
            })
            .after("first")
            .build()
            .unwrap();
        let runner = on(&memory()).await;
        start(&runner, &flow).await;
        runner.run("w", 1).await.unwrap();
        until(async || tally.of("second") == 1).await;
        let before = runner.workflow("w").await.unwrap().events;
        soon(runner.stop("w", how)).await.unwrap();
        let after = runner.workflow("w").await.unwrap();
        assert_eq!(
            after.events > before,
            how == Stop::Persist,
            "{how:?}: {before} rows, then {}",
            after.events
        );
        assert!(matches!(
            runner.run("w", 1).await,
            Err(Error::Stopped { .. })
        ));
        gate.open();
        runner.resume("w", &flow).await.unwrap();
        until(async || runner.results("w").await.unwrap().len() == 1).await;
        assert_eq!(
            runner.results("w").await.unwrap().values::<i64>().unwrap(),
            [20]
        );
        assert_eq!(tally.of("first"), first_runs, "{how:?}");
        assert_eq!(tally.of("second"), 2, "what was in flight is tried again");
    }
}

/// "Results: 5 → (+1) → 6; a→b→c; a→[b,c] gives both; a→[b,c]→join d; rules gate; map then reduce;
/// accumulator over inputs."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_the_shapes() {
    assert_eq!(values(&runner().await, &add_one(), 5).await, Value::Int(6));
    let plus = |add: i64| move |x: i64| async move { Ok(x + add) };
    let chain = Flow::builder("chain")
        .step("a", plus(1))
        .step("b", plus(10))
        .after("a")
        .step("c", plus(100))
        .after("b");
    assert_eq!(
        values(&runner().await, &chain.build().unwrap(), 0).await,
        Value::Int(111)
    );
    let fork = || {
        Flow::builder("fork")
            .step("a", plus(1))
            .step("b", plus(10))
            .after("a")
            .step("c", plus(100))
            .after("a")
    };
    let both = values(&runner().await, &fork().build().unwrap(), 0).await;
    assert_eq!(
        both,
        Value::map([("b", Value::Int(11)), ("c", Value::Int(101))])
    );
    let join = fork().join(
        "d",
        ["b", "c"],
        |(b, c): (i64, i64)| async move { Ok(c - b) },
    );
    assert_eq!(
        values(&runner().await, &join.build().unwrap(), 0).await,
        Value::Int(90)
    );
    let rules = Flow::builder("rules")
        .step("a", plus(0))
        .rule("big", |x: &i64| *x > 10, |_: i64| async move { Ok("big") })
        .after("a")
        .rule(
            "small",
            |x: &i64| *x <= 10,
            |_: i64| async move { Ok("small") },
        )
        .after("a")
        .build()
        .unwrap();
    assert_eq!(
        values(&runner().await, &rules, 11).await,
        Value::map([("big", Value::from("big"))])
    );
    assert_eq!(
        values(&runner().await, &rules, 10).await,
        Value::map([("small", Value::from("small"))])
    );
    let sums = Flow::builder("sums")
        .step(
            "upto",
            |n: i64| async move { Ok((1..=n).collect::<Vec<_>>()) },
        )
        .map("squares", |x: i64| async move { Ok(x * x) })
        .after("upto")
        .reduce("sum", 0, |sum: i64, x: i64| sum + x)
        .after("squares")
        .build()
        .unwrap();
    assert_eq!(values(&runner().await, &sums, 10).await, Value::Int(385));
    let total = Flow::builder("total")
        .accumulate("total", 100, |sum: i64, x: i64| sum + x)
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &total).await;
    for input in 1..=4 {
        runner.run("w", input).await.unwrap();
    }
    until(async || runner.results("w").await.unwrap().len() == 4).await;
    assert_eq!(
        runner.results("w").await.unwrap().values::<i64>().unwrap(),
        [101, 103, 106, 110]
    );
    assert_eq!(
        runner.workflow("w").await.unwrap().totals[0].1,
        Value::Int(110)
    );
}

/// Loops, children, sleeps and signals are steps too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_children_sleeps_and_signals() {
    let double = Flow::builder("double")
        .step("twice", |x: i64| async move { Ok(x * 2) })
        .build()
        .unwrap();
    let flow = Flow::builder("all")
        .repeat(
            "grow",
            |x: &i64| *x < 100,
            |x: i64| async move { Ok(x * 3) },
        )
        .workflow("child", &double)
        .after("grow")
        .sleep("nap", std::time::Duration::from_millis(20))
        .after("child")
        .wait("word", "word", None)
        .join(
            "end",
            ["nap", "word"],
            |(n, word): (i64, String)| async move { Ok(format!("{word} {n}")) },
        )
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    let input = runner.run("w", 5).await.unwrap();
    runner.signal("w", "word", "hello").await.unwrap();
    assert_eq!(
        soon(runner.wait("w", &input))
            .await
            .unwrap()
            .value::<String>()
            .unwrap(),
        "hello 270"
    );
}

/// "Two inputs at once through a shared join: each gets its own join, order kept per input; one
/// input's failure leaves the other's work alone; equal inputs are both processed."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_at_once_do_not_mix() {
    let gate = Gate::shut();
    let held = gate.clone();
    let flow = Flow::builder("joined")
        .step("a", |x: i64| async move { Ok(x * 10) })
        .step("b", move |x: i64| {
            let gate = held.clone();
            async move {
                if x == 10 {
                    gate.pass().await;
                }
                if x < 0 {
                    Err(StepError::new("Negative", "below zero"))
                } else {
                    Ok(x + 1)
                }
            }
        })
        .after("a")
        .step("c", |x: i64| async move { Ok(x + 2) })
        .after("a")
        .join("d", ["b", "c"], |pair: (i64, i64)| async move { Ok(pair) })
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    let first = runner.run("w", 1).await.unwrap();
    let second = runner.run("w", 2).await.unwrap();
    let failing = runner.run("w", -1).await.unwrap();
    let equal = runner.run("w", 2).await.unwrap();
    assert_eq!(
        soon(runner.wait("w", &second))
            .await
            .unwrap()
            .value::<(i64, i64)>()
            .unwrap(),
        (21, 22)
    );
    assert_eq!(
        soon(runner.wait("w", &equal))
            .await
            .unwrap()
            .value::<(i64, i64)>()
            .unwrap(),
        (21, 22)
    );
    let failed = soon(runner.wait("w", &failing)).await.unwrap();
    assert_eq!(failed.failure().unwrap().kind.as_ref(), "Negative");
    assert!(
        !runner
            .results("w")
            .await
            .unwrap()
            .iter()
            .any(|result| result.input == first),
        "the first is still at work"
    );
    gate.open();
    assert_eq!(
        soon(runner.wait("w", &first))
            .await
            .unwrap()
            .value::<(i64, i64)>()
            .unwrap(),
        (11, 12)
    );
    assert_eq!(runner.results("w").await.unwrap().len(), 4);
}

/// "A workflow started with `start_workflow` stays open: it is `idle` between inputs, can be fed
/// again, while working too, until stopped." and "A run always returns to idle when nothing is
/// runnable and nothing is in flight."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_is_idle_between_inputs() {
    let runner = on(&memory()).await;
    let flow = Flow::builder("odd")
        .step("a", |x: i64| async move {
            if x % 2 == 0 {
                Err(StepError::new("Even", "no"))
            } else {
                Ok(x)
            }
        })
        .rule("one", |x: &i64| *x == 1, |x: i64| async move { Ok(x) })
        .after("a")
        .build()
        .unwrap();
    start(&runner, &flow).await;
    assert_eq!(soon(runner.wait_idle("w")).await.unwrap(), IDLE);
    for round in 0..3 {
        for input in 0..4 {
            runner.run("w", input).await.unwrap();
        }
        assert_eq!(soon(runner.wait_idle("w")).await.unwrap(), IDLE);
        assert_eq!(runner.results("w").await.unwrap().len(), 4 * (round + 1));
        assert_eq!(runner.in_flight().await.unwrap(), 0);
    }
    runner.stop("w", Stop::Persist).await.unwrap();
    assert!(matches!(
        runner.run("w", 1).await,
        Err(Error::Stopped { .. })
    ));
}

/// "A failed run says so (status and error)."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_says_so() {
    let runner = on(&memory()).await;
    let flow = Flow::builder("bad")
        .step(
            "parse",
            |text: String| async move { Ok(text.parse::<i64>()?) },
        )
        .build()
        .unwrap();
    start(&runner, &flow).await;
    let failed = soon(runner.run_to_end("w", "seven")).await.unwrap();
    let failure = failed.failure().unwrap();
    assert_eq!(
        (&*failure.kind, failure.step.as_deref(), failure.attempt),
        ("ParseIntError", Some("parse"), Some(1))
    );
    let workflow = runner.workflow("w").await.unwrap();
    assert_eq!(
        (workflow.status, workflow.error.unwrap().message.as_str()),
        (IDLE, "invalid digit found in string")
    );
    assert_eq!(
        soon(runner.run_to_end("w", "7"))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        7
    );
    assert_eq!(runner.workflow("w").await.unwrap().error, None);
    let wrong = soon(runner.run_to_end("w", 7)).await.unwrap();
    assert_eq!(
        wrong.failure().unwrap().kind.as_ref(),
        lope::BAD_VALUE,
        "an argument of another type is a failure"
    );
}

/// "a runner without a store (nothing persisted) works too."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_without_a_store_persists_nothing() {
    let runner = builder().without_store().build().await.unwrap();
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
    assert_eq!(runner.lookup("w").await.unwrap(), None);
    assert!(matches!(
        runner.resume("w", &add_one()).await,
        Err(Error::Ended { .. } | Error::NotFound { .. })
    ));
    runner.shutdown(LONG).await.unwrap();
    assert!(matches!(
        runner
            .start_workflow("x", &add_one(), StartOptions::default())
            .await,
        Err(Error::Closed { .. })
    ));
}

/// "The task pool can be partitioned."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_task_pool_can_be_partitioned() {
    let runner = builder().task_partitions(4).build().await.unwrap();
    let flow = Flow::builder("where")
        .step("thread", |_: i64| async move {
            Ok(std::thread::current().name().unwrap_or_default().to_owned())
        })
        .build()
        .unwrap();
    let mut threads = std::collections::BTreeSet::new();
    for number in 0..40 {
        let id = format!("w{number}");
        runner
            .start_workflow(&id, &flow, StartOptions::default())
            .await
            .unwrap();
        let first = soon(runner.run_to_end(&id, 1))
            .await
            .unwrap()
            .value::<String>()
            .unwrap();
        let second = soon(runner.run_to_end(&id, 1))
            .await
            .unwrap()
            .value::<String>()
            .unwrap();
        assert_eq!(first, second, "calls of one workflow stay in one partition");
        threads.insert(first);
    }
    assert_eq!(
        threads.into_iter().collect::<Vec<_>>(),
        [
            "lope-tasks-0",
            "lope-tasks-1",
            "lope-tasks-2",
            "lope-tasks-3"
        ]
    );
}
