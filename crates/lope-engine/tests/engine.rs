//! The engine on the memory store, with real threads: runs end as their definitions say, also when
//! engines come and go.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::sync::atomic::Ordering;
use std::time::Duration;

use fixture::EngineFixture;
use lope_engine::client::{self, PendingRun, RunStartOptions};
use lope_engine::executor::Task;
use lope_engine::settings::QueueLimit;
use lope_engine::{News, QueueLimits, Settings, codec};
use lope_flow::law::{Event, EventKind, Plan};
use lope_model::{Failure, QueueName, Timestamp, Value};
use lope_store::runs::{LiveStatus, Release, RunCommit, RunFilter, Then, Wake};

/// `double` doubles, `add` adds, anything else is refused.
#[allow(clippy::unnecessary_wraps, reason = "the shape of every hand's work")]
fn arithmetic(task: &Task) -> Option<Result<Value, Failure>> {
    let int = |name: &str| task.arguments.get(name).and_then(Value::as_int).unwrap();
    Some(match &*task.action {
        "double" => Ok(Value::Int(int("n") * 2)),
        "add" => Ok(Value::Int(int("a") + int("b"))),
        other => Err(Failure::new("UnknownAction", other)),
    })
}

const SEQUENCE: &str = "
name: sequence
steps:
  a: { action: double, with: { n: '${{ input.n }}' } }
  b: { action: double, with: { n: '${{ a }}' } }
  c: { action: add, with: { a: '${{ a }}', b: '${{ b }}' } }
  done: { return: '${{ c }}' }
";

const FAN_OUT: &str = "
name: fan-out
steps:
  all: { each: '${{ input }}', as: n, parallel: max, steps: { twice: { action: double, with: { n: '${{ n }}' } } } }
  done: { return: '${{ all }}' }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sequence_and_a_fan_out_end_with_their_results() {
    let fixture = EngineFixture::new(arithmetic);
    let engine = fixture.engine();
    let run = fixture
        .start(&engine, SEQUENCE, Value::map([("n", Value::Int(3))]))
        .await;
    assert_eq!(fixture.result(run).await, Value::Int(18));
    let numbers: Vec<Value> = (0..500).map(Value::Int).collect();
    let run = fixture.start(&engine, FAN_OUT, Value::list(numbers)).await;
    let doubled: Vec<Value> = (0..500).map(|n| Value::Int(n * 2)).collect();
    assert_eq!(fixture.result(run).await, Value::list(doubled));
    assert_eq!(fixture.gapless(run).await.len(), 501);
    assert_eq!(
        fixture.test_executor.calls.load(Ordering::SeqCst),
        503,
        "each action once"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_tried_again_and_a_spent_one_fails_the_run() {
    let fixture = EngineFixture::new(|task| {
        let failure = Failure::new("Flaky", format!("attempt {}", task.token.attempt));
        Some(if task.token.attempt < 3 || &*task.action == "never" {
            Err(failure)
        } else {
            Ok(Value::Int(1))
        })
    });
    let engine = fixture.engine();
    let flaky = "name: flaky\nsteps: { a: { action: sometimes, retries: 3 } }";
    let run = fixture.start(&engine, flaky, Value::Null).await;
    assert_eq!(fixture.result(run).await, Value::Int(1));
    let spent = "name: spent\nsteps: { a: { action: never, retries: 2 } }";
    let run = fixture.start(&engine, spent, Value::Null).await;
    let record = fixture.end(run).await;
    let failure = codec::read_error(&record.error.unwrap()).unwrap();
    assert_eq!(
        (
            record.status.as_str(),
            failure.message.as_str(),
            failure.attempt
        ),
        ("failed", "attempt 3", Some(3))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_in_another_engine_and_settled_steps_stay_settled() {
    let fixture = EngineFixture::new(|task| match (&*task.action, task.token.attempt) {
        ("slow", 1) => None,
        ("slow", attempt) => Some(Ok(Value::Int(i64::from(attempt)))),
        _ => arithmetic(task),
    });
    let yaml = "
name: interrupted
steps:
  first: { action: double, with: { n: 4 } }
  second: { action: slow, needs: [first] }
  done: { return: ['${{ first }}', '${{ second }}'] }
";
    let first = fixture.engine_with(fixture::short_lease());
    let run = fixture.start(&first, yaml, Value::Null).await;
    while fixture.test_executor.kept.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(first);
    let _second = fixture.engine();
    assert_eq!(
        fixture.result(run).await,
        Value::list(vec![Value::Int(8), Value::Int(2)])
    );
    assert_eq!(
        fixture.test_executor.calls.load(Ordering::SeqCst),
        3,
        "the settled step did not run again"
    );
    let events = fixture.gapless(run).await;
    assert_eq!(
        events.iter().filter(|event| &***event == "adopted").count(),
        1,
        "{events:?}"
    );
}

/// "Sleep: a run that only waits (sleep, signal, retry delay) beyond the threshold and has nothing
/// in flight is snapshotted, evicted, released; woken by its time or a signal, by any runner."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_waits_leave_memory_and_signals_find_them() {
    let fixture = EngineFixture::new(arithmetic);
    let engine = fixture.engine();
    let yaml = "
name: patient
steps:
  nap: { sleep: 400ms }
  ask: { wait: answer, needs: [nap] }
  done: { return: '${{ ask }}' }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    fixture
        .stands(run, |record| {
            record.status.as_str() == "waiting" && record.owner.is_none()
        })
        .await;
    let signal = EventKind::Signal {
        name: "answer".into(),
        value: Value::Int(42),
    };
    client::tell(&fixture.store, run, &signal, None)
        .await
        .unwrap();
    assert_eq!(fixture.result(run).await, Value::Int(42));
}

/// A runner that stays up learns of a new version without being started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_are_of_the_version_that_was_deployed_last() {
    let fixture = EngineFixture::new(arithmetic);
    let engine = fixture.engine();
    let parent = "{ name: parent, steps: { child: { workflow: child } } }";
    let deploy = async |text: &str| {
        let plan = lope_flow::law::Plan::new(&lope_definition::yaml::read(text, "child").unwrap())
            .unwrap();
        client::deploy(&fixture.store, &plan).await.unwrap();
    };
    for version in [1, 2] {
        deploy(&format!(
            "{{ name: child, steps: {{ done: {{ return: {version} }} }} }}"
        ))
        .await;
        let seen = async {
            while fixture
                .result(fixture.start(&engine, parent, Value::Null).await)
                .await
                != Value::Int(version)
            {
                // What is the latest is asked anew every two seconds; many runs in between would
                // show nothing more.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), seen)
            .await
            .unwrap_or_else(|_| panic!("never version {version}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_runs_and_its_parent_gets_the_result() {
    let fixture = EngineFixture::new(arithmetic);
    let engine = fixture.engine();
    fixture
        .start(&engine, SEQUENCE, Value::map([("n", Value::Int(0))]))
        .await;
    let yaml = "
name: parent
steps:
  child: { workflow: sequence, with: { n: 5 } }
  orphan:
    try: { steps: { x: { workflow: nowhere } } }
    catch: [{ match: [UnknownWorkflow], steps: { y: { let: lost } } }]
  done: { return: ['${{ child }}', '${{ orphan }}'] }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    assert_eq!(
        fixture.result(run).await,
        Value::list(vec![Value::Int(30), Value::from("lost")])
    );
}

/// A child whose input does not fit, and one of a workflow that is not there, fail the step that
/// starts them, detached or not; a handler catches it, the message names the field, and nothing of
/// the child is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_cannot_be_started_fails_its_step() {
    let fixture = EngineFixture::new(arithmetic);
    let engine = fixture.engine();
    let strict = "
name: strict
input: { type: object, properties: { n: { type: integer } }, required: [n] }
steps: { done: { return: '${{ input.n }}' } }
";
    fixture
        .start(&engine, strict, Value::map([("n", Value::Int(1))]))
        .await;
    let parent = |step: &str| {
        let caught =
            "catch: [{ as: e, steps: { y: { let: '${{ e.type + \": \" + e.message }}' } } }]";
        format!(
            "name: parent\nsteps:\n  t:\n    try: {{ x: {{ {step} }} }}\n    {caught}\n  done: {{ return: '${{{{ t }}}}' }}"
        )
    };
    let unfit =
        "BadInput: the input does not fit workflow 'strict': input.n: expected integer, found ";
    for (step, told) in [
        ("workflow: strict, with: { n: many }", unfit),
        ("workflow: strict, with: { n: many }, detach: true", unfit),
        (
            "workflow: strict, detach: true",
            "BadInput: the input does not fit workflow 'strict': input",
        ),
        (
            "workflow: nowhere, detach: true",
            "UnknownWorkflow: no workflow 'nowhere' is deployed",
        ),
    ] {
        let run = fixture.start(&engine, &parent(step), Value::Null).await;
        let result = fixture.result(run).await;
        assert!(
            result.as_str().is_some_and(|text| text.starts_with(told)),
            "{step}: {result}"
        );
        let filter = RunFilter {
            parent: Some(run),
            limit: 10,
            ..RunFilter::default()
        };
        assert_eq!(
            fixture.store.runs.list(filter).await.unwrap(),
            [],
            "{step}: nothing of it is stored"
        );
    }
    let strict = RunFilter {
        workflow: Some("strict".into()),
        limit: 10,
        ..RunFilter::default()
    };
    assert_eq!(
        fixture.store.runs.list(strict).await.unwrap().len(),
        1,
        "only the one that was started here"
    );
}

/// The step of a detached child gives its id, and is done when it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_child_is_there_when_its_step_is_done() {
    let fixture = EngineFixture::new(arithmetic);
    let engine = fixture.engine();
    fixture
        .start(&engine, SEQUENCE, Value::map([("n", Value::Int(0))]))
        .await;
    let yaml = "
name: parent
steps:
  all: { each: [1, 2, 3], as: n, parallel: max, steps: { go: { workflow: sequence, with: { n: '${{ n }}' }, detach: true } } }
  one: { workflow: sequence, with: { n: 4 }, detach: true, needs: [all] }
  done: { return: '${{ all + [one] }}' }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    let result = fixture.result(run).await;
    let Value::List(ids) = &result else {
        panic!("{result}")
    };
    for (id, n) in ids.iter().zip(1..) {
        assert_eq!(
            fixture.result(id.as_str().unwrap().parse().unwrap()).await,
            Value::Int(n * 6)
        );
    }
    let words = fixture.gapless(run).await;
    assert_eq!(
        (
            ids.len(),
            words.iter().filter(|word| &***word == "child").count()
        ),
        (4, 4),
        "each is told of once"
    );
}

/// "Ownership lost → the run is dropped from memory, its in-flight actions cancelled, nothing
/// written."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_whose_session_is_ended_cancels_what_is_in_flight_and_writes_nothing() {
    let fixture = EngineFixture::new(|task| (task.token.epoch.0 > 1).then_some(Ok(Value::Int(1))));
    let engine = fixture.engine();
    let run = fixture
        .start(
            &engine,
            "name: lost\nsteps: { a: { action: hangs } }",
            Value::Null,
        )
        .await;
    let token = fixture.hanging().await;
    assert_eq!(token.epoch.0, 1);
    let mut news = engine.subscribe();
    for runner in fixture.store.runs.runners(10).await.unwrap() {
        fixture.store.runs.release(runner.runner).await.unwrap();
    }
    let left =
        async { while !matches!(news.recv().await.unwrap(), News::Left(gone) if gone == run) {} };
    tokio::time::timeout(Duration::from_secs(120), left)
        .await
        .expect("it is dropped in time");
    assert_eq!(
        fixture.result(run).await,
        Value::Int(1),
        "whoever has it next goes on"
    );
    assert!(
        !fixture
            .test_executor
            .kept
            .lock()
            .unwrap()
            .contains_key(&token),
        "what was in flight is cancelled"
    );
    assert_eq!(
        fixture.gapless(run).await.join(" "),
        "start adopted dispatched outcome",
        "the one that lost it wrote nothing"
    );
}

/// A message that cannot be sent fails its step, and the run goes on with whatever catches it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_cannot_be_done_fails_its_step() {
    let fixture = EngineFixture::new(arithmetic);
    let engine = fixture.engine();
    let yaml = "
name: sender
steps:
  a: { try: { x: { send: { run: not-an-id, signal: go } } }, catch: [{ as: e, steps: { y: { let: '${{ e.message }}' } } }] }
  b: { try: { x: { send: { mailbox: box, payload: 1 } } }, catch: [{ as: e, steps: { y: { let: '${{ e.type }}' } } }] }
  done: { return: ['${{ a }}', '${{ b }}'] }
";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    let told = [
        Value::from("'not-an-id' is not the id of a run"),
        Value::from("BadRecipient"),
    ];
    assert_eq!(fixture.result(run).await, Value::list(told.to_vec()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pause_holds_resume_goes_on_and_cancel_ends() {
    let fixture = EngineFixture::new(|task| (&*task.action != "hang").then(|| Ok(Value::Null)));
    let engine = fixture.engine();
    let yaml = "name: hanging\nsteps: { a: { action: hang }, b: { action: quick, needs: [a] } }";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    let token = fixture.hanging().await;
    client::tell(
        &fixture.store,
        run,
        &EventKind::Pause { reason: None },
        None,
    )
    .await
    .unwrap();
    fixture
        .stands(run, |record| record.status.as_str() == "paused")
        .await;
    let done = fixture
        .test_executor
        .kept
        .lock()
        .unwrap()
        .remove(&token)
        .unwrap();
    done.finish(Ok(Value::Null), None);
    fixture.stands(run, |record| record.parked.is_some()).await;
    assert_eq!(
        fixture.test_executor.calls.load(Ordering::SeqCst),
        1,
        "nothing is dispatched while paused"
    );
    client::tell(&fixture.store, run, &EventKind::Resume, None)
        .await
        .unwrap();
    assert_eq!(fixture.end(run).await.status.as_str(), "completed");
    let run = fixture.start(&engine, yaml, Value::Null).await;
    fixture.hanging().await;
    client::tell(
        &fixture.store,
        run,
        &EventKind::Cancel { force: false },
        None,
    )
    .await
    .unwrap();
    assert_eq!(fixture.end(run).await.status.as_str(), "cancelled");
    let stopped = async {
        while !fixture.test_executor.kept.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), stopped)
        .await
        .expect("the attempt was stopped");
}

/// "Release on shutdown, so that another runner continues at once."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_lets_work_finish_and_gives_every_run_back() {
    let fixture = EngineFixture::new(arithmetic);
    let engine = fixture.engine();
    let mut news = engine.subscribe();
    let yaml = "name: sleepy\nsteps: { a: { sleep: 1s }, b: { action: double, with: { n: 1 }, needs: [a] } }";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    while !matches!(news.recv().await, Ok(News::Notice { .. })) {}
    engine.shutdown(Duration::from_secs(5)).await.unwrap();
    let record = fixture.store.runs.run(run).await.unwrap().unwrap();
    assert_eq!((record.owner, record.status.as_str()), (None, "sleeping"));
    let _next = fixture.engine();
    assert_eq!(fixture.result(run).await, Value::Int(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_a_queue_holds_across_runners() {
    let fixture = EngineFixture::slow(Duration::from_millis(10), |_| Some(Ok(Value::Null)));
    let queue = QueueName::parse("narrow").unwrap();
    let limit = QueueLimit {
        concurrency: Some(2),
        ..QueueLimit::default()
    };
    let settings = || Settings {
        queues: vec![QueueName::default(), queue.clone()],
        queue_limits: [(queue.clone(), limit.clone())].into(),
        ..fixture::settings()
    };
    let engines = [(); 3].map(|()| fixture.engine_with(settings()));
    let mut runs = Vec::new();
    for engine in engines.iter().cycle().take(30) {
        let options = client::RunStartOptions {
            queue: queue.clone(),
            input: Some(Value::Null),
            ..client::RunStartOptions::default()
        };
        let yaml = "name: narrow\nsteps: { a: { action: x }, b: { action: x, needs: [a] } }";
        runs.push(fixture.start_with(engine, yaml, options).await);
    }
    for run in runs {
        assert_eq!(fixture.end(run).await.status.as_str(), "completed");
    }
    assert_eq!(
        (fixture.peak(), fixture.calls()),
        (2, 60),
        "two at once, and no more"
    );
    let registry = fixture.store.runs.runners(10).await.unwrap();
    let serves = "queue default\nat most 2 of queue narrow\nrealm default\n";
    assert!(
        registry
            .iter()
            .all(|runner| runner.serves.to_string() == serves),
        "{registry:?}"
    );
}

/// A journal that does not fit its definition is not guessed at: "a mismatch on replay pauses the
/// run as `diverged`, never guesses".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_diverged_is_set_aside_with_the_row_that_does_not_fit() {
    let fixture = EngineFixture::new(|_| None);
    let first = fixture.engine();
    let run = fixture
        .start(&first, "name: w\nsteps: { a: { action: x } }", Value::Null)
        .await;
    fixture.hanging().await;
    let record = fixture.store.runs.run(run).await.unwrap().unwrap();
    let mut event = Event::new(record.created_at, EventKind::Timer);
    event.met = Some(1);
    let row = codec::row(record.head + 1, &mut event, &mut Vec::new());
    let release = Release {
        status: LiveStatus::Running,
        wake: Wake::At(record.created_at),
        seen: 0,
    };
    let commit = RunCommit {
        rows: vec![row],
        ..RunCommit::new(
            run,
            record.owner.unwrap(),
            record.epoch,
            Then::Release(release),
        )
    };
    fixture.store.runs.commit(vec![commit]).await.unwrap();
    let reason = fixture
        .stands(run, |record| record.parked.is_some())
        .await
        .parked
        .unwrap();
    assert!(
        reason.contains("diverged") && reason.contains('2'),
        "{reason}"
    );
    assert_eq!(fixture.calls(), 1, "nothing was dispatched for it");
}

/// "`sleep: 6s` with `--at 5s` sleeps 6 s and `run.started_at` is not before it."
#[test]
fn a_run_that_may_begin_later_begins_then() {
    let definition = lope_definition::yaml::read("name: w\nsteps: { a: { sleep: 6s } }", "w.yaml");
    let plan = Plan::new(&definition.unwrap()).unwrap();
    let at = Timestamp::from_millis;
    for (asked, begins, due) in [(None, 100, 100), (Some(500), 500, 500), (Some(7), 100, 7)] {
        let options = RunStartOptions {
            at: asked.map(at),
            ..RunStartOptions::default()
        };
        let PendingRun { admit, start } =
            client::new_run(&plan, options, &QueueLimits::new(), at(100));
        assert_eq!((start.at, admit.due), (at(begins), at(due)), "{asked:?}");
        assert_eq!(admit.rows[0].at, start.at);
    }
}
