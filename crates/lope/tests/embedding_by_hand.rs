//! Flows without a runner: advanced by hand, step by step, with the same definition and the same
//! results.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::rig;

use lope::{Flow, Settled, Value, policy};
use lope_flow::law::Status;
use rig::*;

fn orders() -> Flow {
    Flow::builder("orders")
        .step("price", |amount: i64| async move { Ok(amount * 10) })
        .step("tax", |price: i64| async move { Ok(price / 5) })
        .after("price")
        .join(
            "bill",
            ["price", "tax"],
            |(price, tax): (i64, i64)| async move { Ok(price + tax) },
        )
        .rule(
            "audit",
            |bill: &i64| *bill > 100,
            |bill: i64| async move { Ok(format!("look at {bill}")) },
        )
        .after("bill")
        .build()
        .unwrap()
}

/// "Everything is also available without a runner: `Flow` can be advanced by hand."
#[tokio::test]
async fn a_flow_is_advanced_step_by_step() {
    let mut hand = orders().by_hand();
    assert_eq!((hand.status(), hand.step().await), (Status::Idle, false));
    hand.feed(10).unwrap();
    hand.feed(1).unwrap();
    let ready = |hand: &lope::ByHand| {
        hand.ready()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(ready(&hand), ["price", "@2/price"]);
    assert!(hand.step().await && hand.status() == Status::Running);
    assert_eq!(ready(&hand), ["@2/price", "tax"]);
    hand.run().await;
    assert_eq!(hand.status(), Status::Idle);
    assert_eq!(
        hand.values(),
        [Value::Null, Value::from("look at 120")],
        "in the order in which they settled"
    );
}

/// A flow is the same definition that a YAML file makes: names, needs and policies are all there.
#[tokio::test]
async fn a_flow_lowers_to_the_definition_that_yaml_makes() {
    let flow = Flow::builder("same")
        .step("a", |x: i64| async move { Ok(x) })
        .step("b", |x: i64| async move { Ok(x) })
        .after("a")
        .policy(policy("a").retries(3).backoff(lope::Backoff::Exponential))
        .checkpoint(lope::Checkpoint::EveryN(10))
        .concurrency(16)
        .build()
        .unwrap();
    let yaml = "
name: same
checkpoint: { every_n: 10 }
concurrency: 16
policies: [{ match: { step: a }, retries: 3, backoff: exponential }]
steps:
  a: { action: 'same/a@1', with: '${{ input }}' }
  b: { action: 'same/b@1', with: '${{ a }}', needs: [a] }
";
    let read = lope_definition::yaml::read(yaml, "same.yaml").unwrap();
    let plan = lope_flow::law::Plan::new(&read).unwrap();
    assert_eq!(flow.version(), plan.version());
}

/// A child is driven by hand too; a failure is a result; a sleep is over when nothing else is to
/// do.
#[tokio::test]
async fn children_sleeps_loops_and_failures_by_hand() {
    let child = Flow::builder("child")
        .step("twice", |x: i64| async move { Ok(x * 2) })
        .build()
        .unwrap();
    let flow = Flow::builder("parent")
        .workflow("child", &child)
        .sleep("nap", std::time::Duration::from_secs(3_600))
        .after("child")
        .repeat(
            "grow",
            |x: &i64| *x < 50,
            |x: i64| async move { Ok(x + 10) },
        )
        .after("nap")
        .accumulate("sum", 0, |sum: i64, x: i64| sum + x)
        .after("grow")
        .build()
        .unwrap();
    let mut hand = flow.by_hand();
    hand.feed(5).unwrap();
    hand.feed(100).unwrap();
    assert_eq!(hand.run().await.values(), [Value::Int(50), Value::Int(250)]);
    let broken = Flow::builder("broken")
        .step("a", |text: String| async move { Ok(text) })
        .build()
        .unwrap();
    let mut hand = broken.by_hand();
    hand.feed(7).unwrap();
    hand.run().await;
    assert!(
        matches!(&hand.results()[0].1, Settled::Failed(failure) if &*failure.kind == lope::BAD_VALUE)
    );
}

/// The same flow gives the same results by hand and in a runner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_hand_and_in_a_runner_the_results_are_the_same() {
    let runner = runner().await;
    start(&runner, &orders()).await;
    let mut hand = orders().by_hand();
    for amount in [0, 1, 8, 9, 1_000] {
        hand.feed(amount).unwrap();
        let result = soon(runner.run_to_end("w", amount))
            .await
            .unwrap()
            .value::<Value>()
            .unwrap();
        assert_eq!(hand.run().await.values().pop(), Some(result));
    }
}
