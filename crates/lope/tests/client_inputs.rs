//! What a client refuses before anything is written: inputs that a workflow does not take, keys of
//! other workflows' runs, inputs of runs that take none. Programs and commands are refused alike.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use lope::runs::{InputError, RunStartOptions};
use lope::{Client, Flow, PreparedRun, Runner, Settings, StartOptions, Value};
use lope_definition::yaml;
use lope_engine::settings::QueueLimit;
use lope_flow::law::Plan;
use lope_model::{Priority, QueueName, Span};
use lope_store::MemoryStore;

async fn deployed(client: &Client, text: &str) -> Arc<Plan> {
    let plan = Arc::new(Plan::new(&yaml::read(text, "test.yaml").unwrap()).unwrap());
    client.deploy(&plan).await.unwrap();
    plan
}

fn options(input: Value, key: &str) -> RunStartOptions {
    RunStartOptions {
        input: Some(input),
        key: Some(key.to_owned()),
        ..RunStartOptions::default()
    }
}

#[tokio::test]
async fn what_a_workflow_does_not_take_is_refused_before_anything_is_written() {
    let client = Client::new(MemoryStore::open());
    let asks = deployed(
        &client,
        "{ name: asks, input: { type: object, required: [n] }, steps: { a: { let: 1 } } }",
    )
    .await;
    let other = deployed(&client, "{ name: other, steps: { a: { let: 1 } } }").await;
    let good = Value::map([("n", Value::Int(1))]);

    let unfit =
        PreparedRun::new(&asks, options(Value::Int(1), "k"), client.queue_limits()).unwrap_err();
    assert!(matches!(unfit, InputError::Unfit { .. }), "{unfit}");
    let text = unfit.to_string();
    assert!(
        text.starts_with("the input does not fit workflow 'asks': "),
        "{text}"
    );

    let first = PreparedRun::new(&asks, options(good.clone(), "k"), client.queue_limits()).unwrap();
    let (run, _) = client.start(first).await.unwrap();
    let again = PreparedRun::new(&asks, options(good.clone(), "k"), client.queue_limits()).unwrap();
    assert_eq!(client.start(again).await.unwrap().0, run);
    let foreign =
        || PreparedRun::new(&other, options(Value::Null, "k"), client.queue_limits()).unwrap();
    let is_of_another = |error: &InputError| {
        matches!(error, InputError::OtherWorkflow { run: there, workflow, wanted, .. }
            if *there == run && workflow == "asks" && wanted == "other")
    };
    let refused = client.start(foreign()).await.unwrap_err();
    assert!(is_of_another(&refused), "{refused}");
    let runner = Runner::builder().client(&client).build().await.unwrap();
    match runner.start(foreign()).await.unwrap_err() {
        lope::Error::Input(refused) => assert!(is_of_another(&refused), "{refused}"),
        refused => panic!("{refused}"),
    }

    let record = client.run(run).await.unwrap().unwrap();
    let unfit = client.feed(&record, Value::Null).await.unwrap_err();
    assert!(matches!(unfit, InputError::Unfit { .. }), "{unfit}");
    let closed = PreparedRun::new(
        &other,
        RunStartOptions {
            input: Some(Value::Null),
            at: Some(client.now().await.unwrap().plus(Span::from_secs(3_600))),
            ..RunStartOptions::default()
        },
        client.queue_limits(),
    );
    let (closed, _) = client.start(closed.unwrap()).await.unwrap();
    let record = client.run(closed).await.unwrap().unwrap();
    let refused = client.feed(&record, Value::Int(2)).await.unwrap_err();
    assert_eq!(refused, InputError::NotOpen { run: closed });
}

/// An embedded workflow has the priority that it was given, else that of its runner's queue.
#[tokio::test]
async fn a_workflow_without_a_priority_has_that_of_its_runners_queue() {
    let limit = QueueLimit {
        priority: Some(Priority::HIGHEST),
        ..QueueLimit::default()
    };
    let queue = QueueName::parse("mine").unwrap();
    let settings = Settings {
        queue_limits: [(queue, limit)].into(),
        ..Settings::default()
    };
    let builder = Runner::builder().name("mine").settings(settings);
    let runner = builder.build().await.unwrap();
    let flow = Flow::builder("flow").step("a", |n: i64| async move { Ok(n) });
    let flow = flow.build().unwrap();
    let low = StartOptions::default().priority(1);
    for (id, options, wanted) in [
        ("queue's", StartOptions::default(), Priority::HIGHEST),
        ("said", low, Priority::new(1).unwrap()),
    ] {
        let run = runner.start_workflow(id, &flow, options).await.unwrap();
        let record = runner.client().run(run).await.unwrap().unwrap();
        assert_eq!(record.priority, wanted, "{id}");
    }
}

/// "When it may begin": a run for later waits in its queue, also where a runner starts it itself.
#[tokio::test]
async fn a_runner_that_starts_a_run_for_later_leaves_it_until_then() {
    let builder = Runner::builder().url("memory:");
    let builder = builder.shared_settings(Settings::default());
    let runner = builder.build().await.unwrap();
    let client = runner.client();
    let plan = deployed(client, "{ name: quick, steps: { a: { let: 1 } } }").await;
    let later = client.now().await.unwrap().plus(Span::from_secs(3_600));
    let prepared = |at| {
        let options = RunStartOptions {
            input: Some(Value::Null),
            at,
            ..RunStartOptions::default()
        };
        PreparedRun::new(&plan, options, client.queue_limits()).unwrap()
    };
    // From its end on the runner is known to the store, and takes on what it starts.
    let (first, _) = runner.start(prepared(None)).await.unwrap();
    client.wait(first).await.unwrap();
    let (waits, _) = runner.start(prepared(Some(later))).await.unwrap();
    let (begins, _) = runner.start(prepared(None)).await.unwrap();
    client.wait(begins).await.unwrap();
    let record = client.run(waits).await.unwrap().unwrap();
    assert_eq!((record.status.as_str(), record.owner), ("queued", None));
    assert_eq!(record.started_at, None);
}
