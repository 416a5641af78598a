//! The policies of `behaviours/embedding.md`, each alone and combined, through real steps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use lope::{
    Backoff, Error, Flow, FunctionCall, Match, RunOptions, StartOptions, StepError, Value, policy,
};
use lope_flow::law::{EventKind, State, fold};
use rig::*;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A step that fails so many times and then gives its argument back; each call is noted with its
/// attempt.
fn flaky(
    tally: &Tally,
    name: &'static str,
    failures: u32,
) -> impl Fn(i64) -> Answer + Send + Sync + 'static + use<> {
    let tally = tally.clone();
    move |x: i64| {
        let call = FunctionCall::current();
        let attempt = call.as_ref().map_or(1, |call| call.token.attempt);
        tally.note(format!("{name}#{attempt}"));
        Box::pin(async move {
            if attempt <= failures {
                Err(StepError::new("Flaky", "not yet"))
            } else {
                Ok(x)
            }
        })
    }
}

type Answer = std::pin::Pin<Box<dyn Future<Output = lope::StepResult<i64>> + Send>>;

/// "Retries: fails twice then succeeds with retries 3."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_fails_twice_and_then_succeeds() {
    let tally = Tally::default();
    let flow = Flow::builder("retries")
        .step("a", flaky(&tally, "a", 2))
        .policy(policy("a").retries(3))
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    assert_eq!(
        soon(runner.run_to_end("w", 5))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        5
    );
    assert_eq!(tally.all(), ["a#1", "a#2", "a#3"]);
    let spent = Tally::default();
    let flow = Flow::builder("spent")
        .step("a", flaky(&spent, "a", 9))
        .policy(policy("a").retries(2))
        .build()
        .unwrap();
    runner
        .start_workflow("x", &flow, StartOptions::default())
        .await
        .unwrap();
    let failed = soon(runner.run_to_end("x", 5)).await.unwrap();
    assert_eq!(
        (failed.failure().unwrap().attempt, spent.all().len()),
        (Some(3), 3)
    );
}

/// "Timeout 10 ms against 500 ms work: fails as timeout and the work is cancelled."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_fails_the_attempt_and_cancels_the_work() {
    struct Noted(Tally);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.note("dropped");
        }
    }
    let tally = Tally::default();
    let noted = tally.clone();
    let flow = Flow::builder("slow")
        .step("sleep", move |_: i64| {
            let guard = Noted(noted.clone());
            async move {
                tokio::time::sleep(millis(500)).await;
                guard.0.note("finished");
                Ok(1)
            }
        })
        .policy(policy("sleep").timeout(millis(10)))
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    let failed = soon(runner.run_to_end("w", 1)).await.unwrap();
    assert_eq!(&*failed.failure().unwrap().kind, "Timeout");
    until(async || tally.of("dropped") == 1).await;
    assert_eq!(tally.of("finished"), 0, "the work is cancelled");
}

/// "`on_failure: skip`: the rest goes on, what needed it is skipped."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgiven_failure_is_skipped_with_what_needed_it() {
    let tally = Tally::default();
    let flow = Flow::builder("skip")
        .step("bad", flaky(&tally, "bad", 9))
        .step("after-bad", flaky(&tally, "after-bad", 0))
        .after("bad")
        .step("good", flaky(&tally, "good", 0))
        .step("after-good", flaky(&tally, "after-good", 0))
        .after("good")
        .policy(policy("bad").skip_on_failure())
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    let result = soon(runner.run_to_end("w", 5))
        .await
        .unwrap()
        .value::<Value>()
        .unwrap();
    assert_eq!(result, Value::map([("after-good", Value::Int(5))]));
    assert_eq!(tally.of("after-bad#1"), 0);
}

/// "Fallback value flows downstream; fallback `retry_with` changes the arguments; a fallback is
/// called once, after the retries."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fallbacks_come_once_after_the_retries() {
    let tally = Tally::default();
    let (noted, given) = (tally.clone(), tally.clone());
    let flow = Flow::builder("fallbacks")
        .step("value", flaky(&tally, "value", 9))
        .step("next", |x: i64| async move { Ok(x + 1) })
        .after("value")
        .step("args", move |x: i64| {
            noted.note(format!("args({x})"));
            async move {
                if x == 5 {
                    Err(StepError::new("Five", "five"))
                } else {
                    Ok(x)
                }
            }
        })
        .step("other", flaky(&tally, "other", 9))
        .step("spent", flaky(&tally, "spent", 9))
        .policy(policy("value").retries(1).fallback_value(40))
        .policy(policy("args").retries(2).retry_with(7))
        .policy(policy("other").retries(1).fallback(move |x: i64| {
            given.note("fallback");
            async move { Ok(x * 100) }
        }))
        .policy(policy("spent").skip_on_failure().retry_with(1))
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    let result = soon(runner.run_to_end("w", 5))
        .await
        .unwrap()
        .value::<Value>()
        .unwrap();
    let expected = [
        ("next", Value::Int(41)),
        ("args", Value::Int(7)),
        ("other", Value::Int(500)),
    ];
    assert_eq!(result, Value::map(expected));
    assert_eq!(tally.of("value#1") + tally.of("value#2"), 2);
    assert_eq!((tally.of("args(5)"), tally.of("args(7)")), (3, 1));
    assert_eq!(
        (
            tally.of("other#1"),
            tally.of("other#2"),
            tally.of("fallback")
        ),
        (1, 1, 1)
    );
    assert_eq!(
        (
            tally.of("spent#1"),
            tally.of("spent#2"),
            tally.of("spent#3")
        ),
        (1, 1, 0),
        "one attempt more, then the end"
    );
}

/// "Runtime overrides on `run` win over the workflow's."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_of_an_input_win() {
    let tally = Tally::default();
    let flow = Flow::builder("overrides")
        .step("a", flaky(&tally, "a", 2))
        .policy(policy("a").retries(0).fallback_value(-1))
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    assert_eq!(
        soon(runner.run_to_end("w", 5))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        -1
    );
    let more =
        RunOptions::default().policy(policy(Match::when(|facts| facts.name == "a")).retries(5));
    let input = runner.run_with("w", 5, more).await.unwrap();
    assert_eq!(
        soon(runner.wait("w", &input))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        5
    );
    assert_eq!(
        soon(runner.run_to_end("w", 5))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        -1,
        "they hold for one input"
    );
    let closure = RunOptions::default().policy(policy("a").fallback(|x: i64| async move { Ok(x) }));
    assert!(matches!(
        runner.run_with("w", 5, closure).await,
        Err(Error::BadOption {
            option: "fallback",
            ..
        })
    ));
}

/// Waits between attempts, as the law decided them, from a flow driven by hand; and the same from a
/// replay of its journal.
async fn delays(rule: lope::PolicyRule) -> Vec<i64> {
    let flow = Flow::builder("delays")
        .step("a", |_: i64| async move {
            Err::<i64, _>(StepError::new("No", "no"))
        })
        .policy(rule)
        .build()
        .unwrap();
    let mut hand = flow.by_hand();
    hand.feed(1).unwrap();
    hand.run().await;
    let plan = lope_flow::law::Plan::new(flow.definition()).unwrap();
    let (mut state, mut delays) = (State::new(&plan), Vec::new());
    for event in hand.journal() {
        let (at, failed) = (event.at, matches!(event.kind, EventKind::Outcome(_)));
        fold(&plan, &mut state, event.clone(), &mut Vec::new());
        if failed && let Some(due) = state.next_wake() {
            delays.push(due.millis() - at.millis());
        }
    }
    let timers: Vec<i64> = hand
        .journal()
        .iter()
        .filter(|event| event.kind == EventKind::Timer)
        .map(|event| event.at.millis())
        .collect();
    let sums: Vec<i64> = delays
        .iter()
        .scan(0, |sum, delay| {
            *sum += delay;
            Some(*sum)
        })
        .collect();
    assert_eq!(timers, sums, "a replay waits exactly as long");
    delays
}

/// "Backoff none/linear/exponential with cap, jitter within bounds and the same on replay."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backoff_grows_as_said_and_is_the_same_on_replay() {
    let rule = |backoff| {
        policy("a")
            .retries(5)
            .backoff(backoff)
            .base_delay(millis(100))
            .max_delay(millis(350))
    };
    assert_eq!(
        delays(policy("a").retries(5).base_delay(millis(0))).await,
        [0; 0]
    );
    assert_eq!(
        delays(rule(Backoff::Linear)).await,
        [100, 200, 300, 350, 350]
    );
    assert_eq!(
        delays(rule(Backoff::Exponential)).await,
        [100, 200, 350, 350, 350]
    );
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let jittered = delays(rule(Backoff::Jitter)).await;
        for (delay, whole) in jittered.iter().zip([100, 200, 350, 350, 350]) {
            assert!((whole / 2..=whole).contains(delay), "{jittered:?}");
        }
        seen.insert(jittered);
    }
    assert!(seen.len() > 10, "runs differ from each other");
}

/// "Priority orders the ready set."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn priority_orders_the_ready_set() {
    let tally = Tally::default();
    let flow = Flow::builder("priorities")
        .concurrency(1)
        .step("first", |x: i64| async move { Ok(x) })
        .step("low", flaky(&tally, "low", 0))
        .after("first")
        .step("normal", flaky(&tally, "normal", 0))
        .after("first")
        .step("high", flaky(&tally, "high", 0))
        .after("first")
        .policy(policy("low").priority(0))
        .policy(policy("high").priority(9))
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    soon(runner.run_to_end("w", 1)).await.unwrap();
    assert_eq!(tally.all(), ["high#1", "normal#1", "low#1"]);
}

/// "Deadline stops new attempts."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_stops_new_attempts() {
    let tally = Tally::default();
    let flow = Flow::builder("deadline")
        .step("a", flaky(&tally, "a", 1_000))
        .policy(
            policy("a")
                .retries(1_000)
                .backoff(Backoff::Linear)
                .base_delay(millis(50))
                .deadline(millis(200)),
        )
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    let failed = soon(runner.run_to_end("w", 1)).await.unwrap();
    assert_eq!(&*failed.failure().unwrap().kind, "Deadline");
    assert!(
        (1..=3).contains(&tally.all().len()),
        "50 + 100 ms fit into 200, 50 + 100 + 150 do not: {:?}",
        tally.all()
    );
}

/// "Circuit breaker opens, half-opens, closes."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circuit_opens_half_opens_and_closes() {
    let (broken, calls) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
    let (is_broken, counted) = (Arc::clone(&broken), Arc::clone(&calls));
    let flow = Flow::builder("circuit")
        .step("call", move |x: i64| {
            counted.fetch_add(1, Ordering::SeqCst);
            let broken = is_broken.load(Ordering::SeqCst);
            async move {
                if broken {
                    Err(StepError::new("Down", "down"))
                } else {
                    Ok(x)
                }
            }
        })
        .policy(policy("call").circuit_breaker(2, millis(300)))
        .build()
        .unwrap();
    let runner = on(&memory()).await;
    start(&runner, &flow).await;
    let refusals = async || {
        let run = runner.lookup("w").await.unwrap().unwrap().run;
        let rows = runner.store().runs.journal(run, 0, 1_000).await.unwrap();
        rows.iter().filter(|row| &*row.event == "refused").count()
    };
    for _ in 0..2 {
        assert!(
            soon(runner.run_to_end("w", 1))
                .await
                .unwrap()
                .failure()
                .is_some()
        );
    }
    assert_eq!(
        (calls.load(Ordering::SeqCst), refusals().await),
        (2, 0),
        "closed until the second failure"
    );
    broken.store(false, Ordering::SeqCst);
    assert_eq!(
        soon(runner.run_to_end("w", 3))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        3,
        "the probe gets through"
    );
    assert!(refusals().await > 0, "while it was open nothing was called");
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    let before = refusals().await;
    assert_eq!(
        soon(runner.run_to_end("w", 4))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        4
    );
    assert_eq!(refusals().await, before, "it is closed again");
}

/// "Idempotency key: same key, one effect."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_with_an_equal_key_have_one_effect() {
    let tally = Tally::default();
    let noted = tally.clone();
    let flow = Flow::builder("once")
        .step("pay", move |input: (String, i64)| {
            let key = FunctionCall::current()
                .unwrap()
                .idempotency_key
                .clone()
                .unwrap();
            noted.note(&key);
            async move { Ok(input.1) }
        })
        .policy(policy("pay").idempotency_key("order-${{ input[0] }}"))
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    let inputs = [("a", 1), ("a", 2), ("b", 3), ("a", 4)];
    let mut results = Vec::new();
    for input in inputs {
        results.push(
            soon(runner.run_to_end("w", input))
                .await
                .unwrap()
                .value::<i64>()
                .unwrap(),
        );
    }
    assert_eq!(
        results,
        [1, 1, 3, 1],
        "whoever comes later gets the first answer"
    );
    assert_eq!(tally.all(), ["order-a", "order-b"]);
}

/// "Matchers: exact name, glob, kind, predicate; first match wins; unmatched gets defaults; presets
/// compose."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rule_that_matches_wins() {
    let tally = Tally::default();
    let fail = |name: &'static str| {
        let tally = tally.clone();
        move |_: i64| {
            tally.note(name);
            async move { Err::<i64, _>(StepError::new("No", "no")) }
        }
    };
    let skip = |rule: lope::PolicyRule| rule.skip_on_failure();
    let flow = Flow::builder("matchers")
        .step("send-a", fail("send-a"))
        .step("send-b", fail("send-b"))
        .step("pay", fail("pay"))
        .step("audit", fail("audit"))
        .policy(skip(policy("send-a").retries(1)))
        .policy(skip(policy("send*").retries(2)))
        .policy(skip(
            policy(Match::when(|facts| facts.path.starts_with("pa"))).retries(3),
        ))
        .policy(skip(policy(Match::kind("action")).retries(4)))
        .policy(skip(policy(Match::all()).retries(9)))
        .build()
        .unwrap();
    flow.by_hand().feed(1).unwrap();
    let mut hand = flow.by_hand();
    hand.feed(1).unwrap();
    hand.run().await;
    let counts: Vec<(String, usize)> = tally.counts().into_iter().collect();
    let expected = [("audit", 5), ("pay", 4), ("send-a", 2), ("send-b", 3)]
        .map(|(name, n)| (name.to_owned(), n));
    assert_eq!(counts, expected);

    let plain = Tally::default();
    let noted = plain.clone();
    let flow = Flow::builder("defaults")
        .step("alone", move |_: i64| {
            noted.note("alone");
            async move { Err::<i64, _>(StepError::new("No", "no")) }
        })
        .step("other", |x: i64| async move { Ok(x) })
        .policy(policy("other").preset("quick"))
        .build()
        .unwrap();
    let mut hand = flow.by_hand();
    hand.feed(1).unwrap();
    hand.run().await;
    assert_eq!(
        plain.all().len(),
        1,
        "without a rule there is no second attempt"
    );

    let composed = Flow::builder("presets")
        .step("a", |x: i64| async move { Ok(x) })
        .policy(policy("a").preset("network").preset("optional").retries(7))
        .build()
        .unwrap();
    let resolved = &composed.definition().policies[0].policy;
    assert_eq!(
        (
            resolved.retries,
            resolved.timeout.map(lope_model::Span::millis)
        ),
        (Some(7), Some(30_000))
    );
    assert_eq!(
        resolved.on_failure,
        Some(lope_model::policy::OnFailure::Skip)
    );
}

/// "(each alone and combined)": a timeout, retried with a backoff, then a fallback, whose value a
/// rule looks at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_combine() {
    let tally = Tally::default();
    let noted = tally.clone();
    let flow = Flow::builder("combined")
        .step("slow", move |_: i64| {
            noted.note("slow");
            async move {
                tokio::time::sleep(LONG).await;
                Ok(0)
            }
        })
        .rule("big", |x: &i64| *x > 10, |x: i64| async move { Ok(x * 2) })
        .after("slow")
        .step("optional", flaky(&tally, "optional", 9))
        .after("slow")
        .policy(
            policy("slow")
                .timeout(millis(20))
                .retries(2)
                .backoff(Backoff::Exponential)
                .base_delay(millis(5))
                .retry_on(&["Timeout"])
                .fallback_value(50),
        )
        .policy(policy("optional").preset("optional").retries(1))
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    let result = soon(runner.run_to_end("w", 1))
        .await
        .unwrap()
        .value::<Value>()
        .unwrap();
    assert_eq!(result, Value::map([("big", Value::Int(100))]));
    assert_eq!(
        (
            tally.of("slow"),
            tally.of("optional#1"),
            tally.of("optional#2")
        ),
        (3, 1, 1)
    );
}
