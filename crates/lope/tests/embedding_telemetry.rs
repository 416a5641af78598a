//! Callbacks and telemetry, as `behaviours/embedding.md` has them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::rig;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use lope::telemetry::{self, TelemetryEvent};
use lope::{Flow, Runner, StartOptions, StepError, policy};
use rig::*;
use tokio::sync::broadcast;

/// Events up to the one for which `last` holds.
async fn heard(
    events: &mut broadcast::Receiver<TelemetryEvent>,
    last: impl Fn(&TelemetryEvent) -> bool,
) -> Vec<TelemetryEvent> {
    let mut all = Vec::new();
    soon(async {
        loop {
            let event = events.recv().await.unwrap();
            let ends = last(&event);
            all.push(event);
            if ends {
                return;
            }
        }
    })
    .await;
    all
}

fn flaky() -> Flow {
    Flow::builder("flaky")
        .step("a", |x: i64| async move {
            let attempt = lope::FunctionCall::current().unwrap().token.attempt;
            if x < 0 || attempt == 1 {
                Err(StepError::new("Flaky", "not yet"))
            } else {
                Ok(x)
            }
        })
        .step("b", |x: i64| async move { Ok(x) })
        .after("a")
        .policy(policy("a").retries(1))
        .build()
        .unwrap()
}

/// "the seed's nine names are listed by one function"
#[test]
fn nine_names_are_listed() {
    let names = telemetry::event_names();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 9);
    for thing in ["workflow", "step", "store"] {
        for what in ["start", "stop", "exception"] {
            assert!(names.contains(&format!("lope.runner.{thing}.{what}").as_str()));
        }
    }
}

/// "Events: workflow start/stop/exception, step start/stop/exception, retry, store
/// start/stop/exception, with duration and metadata (run, workflow, step, attempt, error)"
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_tell_what_happens_with_duration_and_metadata() {
    let runner = runner().await;
    let mut events = runner.subscribe();
    let run = runner
        .start_workflow("w", &flaky(), StartOptions::default())
        .await
        .unwrap();
    runner.run("w", 1).await.unwrap();
    let all = heard(&mut events, |event| event.name == telemetry::WORKFLOW_STOP).await;
    let of_run: Vec<&TelemetryEvent> = all.iter().filter(|event| event.run == Some(run)).collect();
    let told: Vec<(&str, Option<&str>, Option<u32>)> = of_run
        .iter()
        .map(|event| (event.name, event.step.as_deref(), event.attempt))
        .collect();
    assert_eq!(
        told,
        [
            (telemetry::WORKFLOW_START, None, None),
            (telemetry::STEP_START, Some("a"), Some(1)),
            (telemetry::STEP_EXCEPTION, Some("a"), Some(1)),
            (telemetry::STEP_RETRY, Some("a"), Some(2)),
            (telemetry::STEP_START, Some("a"), Some(2)),
            (telemetry::STEP_STOP, Some("a"), Some(2)),
            (telemetry::STEP_START, Some("b"), Some(1)),
            (telemetry::STEP_STOP, Some("b"), Some(1)),
            (telemetry::WORKFLOW_STOP, None, None),
        ]
    );
    for event in &of_run {
        assert_eq!(
            (event.id.as_deref(), event.workflow.as_deref()),
            (Some("w"), Some("flaky")),
            "{event:?}"
        );
        let ends = event.name.ends_with(".stop") || event.name.ends_with(".exception");
        assert_eq!(event.duration.is_some(), ends, "{event:?}");
    }
    assert_eq!(&*of_run[2].error.as_ref().unwrap().kind, "Flaky");
    let stores: Vec<&TelemetryEvent> = all
        .iter()
        .filter(|event| event.name == telemetry::STORE_STOP)
        .collect();
    assert!(
        stores
            .iter()
            .any(|event| event.operation == Some("commit") && event.duration.is_some())
    );
    assert!(all.iter().any(|event| event.name == telemetry::STORE_START && event.operation == Some("deliver")));
    runner.run("w", -1).await.unwrap();
    let all = heard(&mut events, |event| {
        event.name == telemetry::WORKFLOW_EXCEPTION
    })
    .await;
    let last = all.last().unwrap();
    assert_eq!(
        (&*last.error.as_ref().unwrap().kind, last.run),
        ("Flaky", Some(run))
    );
}

/// "as metrics"
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count() {
    let runner = builder().name("counted").build().await.unwrap();
    start(&runner, &flaky()).await;
    soon(runner.run_to_end("w", 1)).await.unwrap();
    soon(runner.run_to_end("w", -1)).await.unwrap();
    let metrics = runner.metrics();
    assert_eq!(
        (
            metrics.started(),
            metrics.inputs_done(),
            metrics.inputs_failed()
        ),
        (1, 1, 1)
    );
    assert_eq!(
        (
            metrics.steps_done(),
            metrics.steps_failed(),
            metrics.retries()
        ),
        (2, 3, 2)
    );
    assert!(metrics.store_calls("commit") >= 2 && metrics.store_failures() == 0);
    let text = metrics.encode();
    for line in [
        "lope_steps_total{runner=\"counted\",outcome=\"done\"} 2",
        "lope_step_seconds_count{runner=\"counted\"}",
        "lope_leases_lost_total{runner=\"counted\"} 0\n",
        "lope_workers{runner=\"counted\"} 0\n",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    for counted in ["lope_commit_runs_count", "lope_commit_seconds_count"] {
        let line = text.lines().find(|line| line.starts_with(counted)).unwrap();
        assert!(!line.ends_with(" 0"), "no commit was counted: {line}");
    }
}

/// "None are emitted when no runner is used."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_by_hand_emits_nothing() {
    let bystander = runner().await;
    let mut events = bystander.subscribe();
    let before = spans().len();
    let flow = Flow::builder("by-hand")
        .step("a", |x: i64| async move { Ok(x + 1) })
        .build()
        .unwrap();
    let mut hand = flow.by_hand();
    hand.feed(1).unwrap();
    assert_eq!(hand.run().await.values(), [lope::Value::Int(2)]);
    bystander.list().await.unwrap();
    let told = heard(&mut events, |event| event.operation == Some("list")).await;
    assert!(told.iter().all(|event| event.run.is_none()), "{told:?}");
    assert!(
        !spans()[before..]
            .iter()
            .any(|span| span.contains("by-hand")),
        "no span either"
    );
}

/// Id, status and values of a completion.
type Called = (String, &'static str, Vec<i64>);

/// "`on_complete` once per completion with id and final state; its panic is contained."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_calls_back_once() {
    let runner = runner().await;
    let gate = Gate::shut();
    let held = gate.clone();
    let flow = Flow::builder("called")
        .step("a", move |x: i64| {
            let gate = held.clone();
            async move {
                if x == 1 {
                    gate.pass().await;
                }
                Ok(x * 10)
            }
        })
        .build()
        .unwrap();
    let calls: Arc<Mutex<Vec<Called>>> = Arc::default();
    let noted = Arc::clone(&calls);
    let options = StartOptions::default().on_complete(move |id, completion| {
        let values = completion
            .results
            .iter()
            .map(|result| result.value().unwrap())
            .collect();
        noted
            .lock()
            .unwrap()
            .push((id.to_owned(), completion.status, values));
        panic!("a callback that panics hurts nobody");
    });
    runner.start_workflow("w", &flow, options).await.unwrap();
    runner.run("w", 1).await.unwrap();
    soon(runner.run_to_end("w", 2)).await.unwrap();
    assert!(
        calls.lock().unwrap().is_empty(),
        "one input is still at work"
    );
    gate.open();
    until(async || calls.lock().unwrap().len() == 1).await;
    soon(runner.run_to_end("w", 3)).await.unwrap();
    until(async || calls.lock().unwrap().len() == 2).await;
    runner.close("w").await.unwrap();
    until(async || calls.lock().unwrap().len() == 3).await;
    let expected = [
        ("w".to_owned(), "idle", vec![20, 10]),
        ("w".to_owned(), "idle", vec![30]),
        ("w".to_owned(), "completed", vec![]),
    ];
    assert_eq!(*calls.lock().unwrap(), expected);
}

/// A callback may be given later, and to a workflow that was resumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_can_be_given_later() {
    let runner = on(&memory()).await;
    start(&runner, &add_one()).await;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    runner
        .on_complete("w", move |id, _| sender.send(id.to_owned()).unwrap())
        .await
        .unwrap();
    runner.run("w", 1).await.unwrap();
    assert_eq!(soon(receiver.recv()).await.unwrap(), "w");
    assert!(runner.on_complete("nobody", |_, _| ()).await.is_err());
}

/// The names of the spans of this process, with their fields.
static SPANS: LazyLock<Arc<Mutex<Vec<String>>>> = LazyLock::new(|| {
    let spans = Arc::<Mutex<Vec<String>>>::default();
    let collector = Collector {
        spans: Arc::clone(&spans),
        next: std::sync::atomic::AtomicU64::new(1),
    };
    tracing::subscriber::set_global_default(collector).unwrap();
    spans
});

fn spans() -> Vec<String> {
    SPANS.lock().unwrap().clone()
}

struct Collector {
    spans: Arc<Mutex<Vec<String>>>,
    next: std::sync::atomic::AtomicU64,
}

struct Fields(String);

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl tracing::Subscriber for Collector {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        self.spans.lock().unwrap().push(fields.0);
        tracing::span::Id::from_u64(self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// "as `tracing` spans, as metrics, and as a subscription in the program."
/// "as `tracing` spans"
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_are_made_of_workflows_steps_and_store_calls() {
    spans();
    let runner: Runner = runner().await;
    let flow = Flow::builder("spanned")
        .step("a", |x: i64| async move { Ok(x) })
        .build()
        .unwrap();
    let run = runner
        .start_workflow("w", &flow, StartOptions::default())
        .await
        .unwrap();
    soon(runner.run_to_end("w", 1)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(120), runner.wait_idle("w"))
        .await
        .unwrap()
        .unwrap();
    let all = spans();
    let of_run = |name: &str| {
        all.iter()
            .find(|span| span.starts_with(name) && span.contains(&run.to_string()))
    };
    assert!(
        of_run("lope.workflow")
            .unwrap()
            .contains("workflow=spanned")
    );
    let step = of_run("lope.step").unwrap();
    assert!(
        step.contains("step=a") && step.contains("attempt=1"),
        "{step}"
    );
    assert!(
        all.iter()
            .any(|span| span.starts_with("lope.store") && span.contains("commit"))
    );
}
