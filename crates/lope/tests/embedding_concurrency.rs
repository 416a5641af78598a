//! Concurrency, as `behaviours/embedding.md` has it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::rig;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lope::{Flow, FunctionCall, StartOptions, StepError, Value, policy};
use lope_engine::executor::{Done, Executor, Task, Token};
use rig::*;

/// How many are at work, and the most there ever were.
#[derive(Clone, Default)]
struct Crowd(Arc<(AtomicUsize, AtomicUsize)>);

struct Inside(Crowd);

impl Crowd {
    fn enter(&self) -> Inside {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        Inside(self.clone())
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// "`concurrency: 1` — strict order, observed."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_in_strict_order() {
    let (tally, crowd) = (Tally::default(), Crowd::default());
    let mut builder = Flow::builder("strict")
        .concurrency(1)
        .step("a", |x: i64| async move { Ok(x) });
    let names: Vec<String> = (0..20).map(|number| format!("s{number:02}")).collect();
    for name in &names {
        let (tally, crowd, noted) = (tally.clone(), crowd.clone(), name.clone());
        let work = move |_: i64| {
            let (inside, tally, name) = (crowd.enter(), tally.clone(), noted.clone());
            async move {
                tally.note(format!("{name} begins"));
                tokio::task::yield_now().await;
                tally.note(format!("{name} ends"));
                drop(inside);
                Ok(1)
            }
        };
        builder = builder.step(name, work).after("a");
    }
    let flow = builder.build().unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    soon(runner.run_to_end("w", 1)).await.unwrap();
    let expected: Vec<String> = names
        .iter()
        .flat_map(|name| [format!("{name} begins"), format!("{name} ends")])
        .collect();
    assert_eq!((tally.all(), crowd.most()), (expected, 1));
}

/// "`concurrency: 4` with 4 sleeps of 100 ms — together under 250 ms." Told without a clock: each
/// of the four waits for the other three, so that they end only if they are at work together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_at_a_time_work_together() {
    let (barrier, crowd) = (Arc::new(tokio::sync::Barrier::new(4)), Crowd::default());
    let mut builder = Flow::builder("four")
        .concurrency(4)
        .step("a", |x: i64| async move { Ok(x) });
    for number in 0..4 {
        let (barrier, crowd) = (Arc::clone(&barrier), crowd.clone());
        let work = move |_: i64| {
            let (barrier, inside) = (Arc::clone(&barrier), crowd.enter());
            async move {
                barrier.wait().await;
                drop(inside);
                Ok(1)
            }
        };
        builder = builder.step(&format!("s{number}"), work).after("a");
    }
    let flow = builder.build().unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    soon(runner.run_to_end("w", 1)).await.unwrap();
    assert_eq!(crowd.most(), 4);
}

/// "Never more than N at once, under load, with retries waiting. One attempt is never dispatched
/// twice."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_more_than_n_and_no_attempt_twice() {
    let (crowd, tally) = (Crowd::default(), Tally::default());
    let (entered, noted) = (crowd.clone(), tally.clone());
    let flow = Flow::builder("wide")
        .concurrency(3)
        .map("each", move |x: i64| {
            let inside = entered.enter();
            let call = FunctionCall::current().unwrap();
            noted.note(format!(
                "{} {}#{}",
                call.token.run, call.token.execution, call.token.attempt
            ));
            async move {
                tokio::task::yield_now().await;
                drop(inside);
                if call.token.attempt == 1 && x % 2 == 0 {
                    Err(StepError::new("Even", "even"))
                } else {
                    Ok(x)
                }
            }
        })
        .policy(
            policy("each")
                .retries(2)
                .base_delay(Duration::from_millis(1)),
        )
        .build()
        .unwrap();
    let runner = builder().concurrency(5).build().await.unwrap();
    for number in 0..4 {
        let id = format!("w{number}");
        runner
            .start_workflow(&id, &flow, StartOptions::default())
            .await
            .unwrap();
        runner
            .run(&id, (0..50).collect::<Vec<i64>>())
            .await
            .unwrap();
    }
    for number in 0..4 {
        let id = format!("w{number}");
        until(async || runner.results(&id).await.unwrap().len() == 1).await;
        assert_eq!(
            runner
                .results(&id)
                .await
                .unwrap()
                .values::<Vec<i64>>()
                .unwrap()[0],
            (0..50).collect::<Vec<i64>>()
        );
    }
    assert!(crowd.most() <= 5, "{} at once", crowd.most());
    let all = tally.all();
    assert_eq!(all.len(), 4 * (50 + 25), "each attempt once");
    assert_eq!(
        all.iter().collect::<BTreeSet<_>>().len(),
        all.len(),
        "no attempt twice"
    );
}

/// "A panicking or killed task does not take the runner down and becomes a failed attempt."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_a_failed_attempt() {
    let flow = Flow::builder("panics")
        .step("early", |x: i64| {
            assert!(x != 1, "before the first await");
            async move { Ok(x) }
        })
        .step("late", |x: i64| async move {
            tokio::task::yield_now().await;
            assert!(x != 2, "after an await");
            Ok(x)
        })
        .after("early")
        .build()
        .unwrap();
    let runner = runner().await;
    start(&runner, &flow).await;
    for (input, message) in [(1, "before the first await"), (2, "after an await")] {
        let failed = soon(runner.run_to_end("w", input)).await.unwrap();
        let failure = failed.failure().unwrap();
        assert_eq!(
            (&*failure.kind, failure.message.as_str()),
            ("Panic", message)
        );
    }
    assert_eq!(
        soon(runner.run_to_end("w", 3))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        3,
        "the runner goes on"
    );
    assert_eq!(runner.in_flight().await.unwrap(), 0);
}

/// Loses every first attempt: its worker is gone without an answer.
struct Mortal;

impl Executor for Mortal {
    fn start(&self, task: Task, done: Done) {
        if task.token.attempt > 1 {
            done.finish(Ok(Value::Int(i64::from(task.token.attempt))), None);
        }
    }

    fn cancel(&self, _: &Token) {}
}

/// "killed": a worker that is gone without an answer costs an attempt and nothing else. The
/// executor is the program's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_task_is_a_failed_attempt() {
    let flow = Flow::builder("mortal")
        .step("a", |x: i64| async move { Ok(x) })
        .policy(policy("a").executor("mortal").retries(1))
        .build()
        .unwrap();
    let runner = builder()
        .executor("mortal", Arc::new(Mortal))
        .build()
        .await
        .unwrap();
    start(&runner, &flow).await;
    assert_eq!(
        soon(runner.run_to_end("w", 1))
            .await
            .unwrap()
            .value::<i64>()
            .unwrap(),
        2
    );
    let attempts = &runner.workflow("w").await.unwrap().executions[0].attempts;
    assert_eq!(
        (attempts.len(), &*attempts[0].failure.as_ref().unwrap().kind),
        (2, "WorkerLost")
    );
}
