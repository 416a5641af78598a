//! Every part of an engine panics once, and the runs end as if it had not; a part that keeps
//! panicking breaks the engine, which then says so and leaves its runs to others.
//!
//! "Supervisor: a crashed part restarts with backoff; a process that cannot work exits non-zero
//! instead of idling."

#![allow(
    clippy::too_many_lines,
    reason = "a test tells its story from beginning to end"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../tests/fixture/mod.rs"]
mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lope_flow::law::EventKind;
use lope_model::{Failure, Value};
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use tokio::time::timeout;

use self::fixture::{EngineFixture, settings, short_lease};
use super::seam;
use super::supervisor::FALLS_MAX;
use crate::breakdown::Breakdown;
use crate::executor::Task;
use crate::mailbox_send::OutgoingMessage;
use crate::{Engine, Settings, client};
use lope_schedule::timing::Timing;
use lope_schedule::{Schedule, store};

const PATIENCE: Duration = Duration::from_secs(120);

const TWO: &str = "name: two\nsteps: { a: { action: one }, b: { action: one, needs: [a] }, done: { return: '${{ a + b }}' } }";
const POST: &str = "
name: post
steps:
  a: { action: one }
  letter: { send: { mailbox: '7', payload: hello }, needs: [a] }
  done: { return: sent, needs: [letter] }
";

#[allow(clippy::unnecessary_wraps, reason = "the shape of every hand's work")]
fn one(_: &Task) -> Option<Result<Value, Failure>> {
    Some(Ok(Value::Int(1)))
}

fn named(name: &str) -> Settings {
    Settings {
        name: name.to_owned(),
        shards: 1,
        ..settings()
    }
}

/// The part panics once when the next run is at work; that run and one after it end.
async fn falls_once(name: &str, part: &'static str) -> (EngineFixture, Engine) {
    let fixture = EngineFixture::new(one);
    let engine = fixture.engine_with(named(name));
    seam::wish(name, part);
    for _ in 0..2 {
        let run = fixture.start(&engine, TWO, Value::Null).await;
        assert_eq!(fixture.result(run).await, Value::Int(2));
        fixture.gapless(run).await;
    }
    assert_eq!(engine.why_broken(), None);
    (fixture, engine)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_task_that_panics_begins_again_as_another_runner() {
    let fixture = EngineFixture::new(one);
    let engine = fixture.engine_with(named("session-falls"));
    let before = engine.runner();
    seam::wish("session-falls", "session");
    let again = async {
        while engine.runner() == before {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, again).await.expect("it begins again");
    let run = fixture.start(&engine, TWO, Value::Null).await;
    assert_eq!(fixture.result(run).await, Value::Int(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_session_task_owned_when_it_panicked_is_taken_up_at_once() {
    let fixture = EngineFixture::new(|task| {
        (&*task.step == "b" || task.token.attempt > 1).then(|| Ok(Value::Int(1)))
    });
    let long = lope_model::Span::from_secs(600);
    let engine = fixture.engine_with(Settings {
        lease: long,
        ..named("session-owns")
    });
    let run = fixture.start(&engine, TWO, Value::Null).await;
    fixture.hanging().await;
    seam::wish("session-owns", "session");
    engine.own(run);
    assert_eq!(fixture.result(run).await, Value::Int(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committer_that_panics_loses_nothing() {
    let (fixture, _engine) = falls_once("committer-falls", "committer").await;
    assert_eq!(fixture.calls(), 4, "no action ran twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timekeeper_that_panics_still_ends_what_takes_too_long() {
    let fixture = EngineFixture::new(|_| None);
    let engine = fixture.engine_with(named("timekeeper-falls"));
    seam::wish("timekeeper-falls", "timekeeper");
    let yaml = "name: slow\nsteps: { a: { action: never, timeout: 50ms, retries: 0 } }";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    assert_eq!(&*fixture.failure(run).await.kind, "Timeout");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_panics_still_fires() {
    let fixture = EngineFixture::new(one);
    let engine = fixture.engine_with(named("scheduler-falls"));
    // The workflow is there once it has run.
    let run = fixture.start(&engine, TWO, Value::Null).await;
    fixture.result(run).await;
    seam::wish("scheduler-falls", "scheduler");
    let now = fixture.store.upkeep.reading().await.unwrap().now;
    let second = lope_model::Span::from_secs(1);
    let schedule = Schedule::new("often", "two", Timing::every(second, now).unwrap(), now);
    store::add(&fixture.store, schedule, now)
        .await
        .unwrap()
        .unwrap();
    let fired = async {
        while fixture.calls() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, fired).await.expect("it fires");
    assert_eq!(engine.why_broken(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_panics_gives_its_runs_up_and_they_are_claimed_again() {
    let fixture = EngineFixture::new(one);
    let engine = fixture.engine_with(named("shard-falls"));
    seam::wish("shard-falls", "shard");
    let run = fixture.start(&engine, TWO, Value::Null).await;
    assert_eq!(fixture.result(run).await, Value::Int(2));
    fixture.gapless(run).await;
    let epoch = fixture.store.runs.run(run).await.unwrap().unwrap().epoch;
    assert!(epoch.0 > 1, "it was claimed again, under epoch {epoch}");
}

/// How often the next letter's stamp is missing.
static NO_STAMPS: AtomicU32 = AtomicU32::new(0);

fn stamp(letter: OutgoingMessage<'_>) -> Result<lope_store::tables::Append, String> {
    let missing = NO_STAMPS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
        left.checked_sub(1)
    });
    assert!(missing.is_err(), "no stamps for {}", letter.send.target);
    Err("the office is closed".to_owned())
}

/// One test, since the stamps are there for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_the_engine_panics_at_is_given_up_alone_and_set_aside_at_last() {
    let fixture = EngineFixture::new(|task| (&*task.action == "one").then(|| Ok(Value::Int(1))));
    let engine = fixture.engine_with(Settings {
        mailbox_send: Some(stamp),
        ..named("run-falls")
    });
    let other = fixture
        .start(
            &engine,
            "name: other\nsteps: { a: { action: hang } }",
            Value::Null,
        )
        .await;
    let token = fixture.hanging().await;
    NO_STAMPS.store(3, Ordering::SeqCst);
    let run = fixture.start(&engine, POST, Value::Null).await;
    let reason = fixture
        .stands(run, |record| record.parked.is_some())
        .await
        .parked
        .unwrap();
    assert_eq!(
        reason,
        "the engine panicked 3 times when it worked on it: no stamps for 7"
    );
    assert_eq!(
        (engine.why_broken(), NO_STAMPS.load(Ordering::SeqCst)),
        (None, 0)
    );
    let done = fixture
        .test_executor
        .kept
        .lock()
        .unwrap()
        .remove(&token)
        .expect("the other run's attempt was left alone");
    done.finish(Ok(Value::Int(7)), None);
    assert_eq!(fixture.result(other).await, Value::Int(7));
    let resumed = client::tell(&fixture.store, run, &EventKind::Resume, None)
        .await
        .unwrap();
    assert_eq!(resumed, lope_store::runs::Delivered::Accepted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_panics_in_any_verb_is_asked_again() {
    for verb in [
        "register",
        "heartbeat",
        "takeover",
        "owned",
        "claim",
        "load",
        "definition",
        "commit",
        "waiting",
        "latest",
    ] {
        let mut fixture = EngineFixture::new(|task| {
            if &*task.action == "hang" {
                None
            } else {
                one(task)
            }
        });
        let panicked = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&panicked);
        let hook = move |call: StoreCall| {
            let first = call.verb == verb && told.fetch_add(1, Ordering::SeqCst) == 0;
            assert!(!first, "{verb} was told to panic");
            InjectedFault::None
        };
        let sound = fixture.store.clone();
        let first = fixture.engine_with(Settings {
            claims: false,
            ..named("deploys")
        });
        let child =
            "name: child\nsteps: { nap: { sleep: 300ms }, done: { return: 1, needs: [nap] } }";
        fixture.start(&first, child, Value::Null).await;
        drop(first);
        fixture.store = with_faults(sound, Arc::new(hook));
        let engine = fixture.engine_with(named(verb));
        let hang = "name: hang\nsteps: { a: { action: hang } }";
        let resident = fixture.start(&engine, hang, Value::Null).await;
        let parent = "
name: parent
steps:
  child: { workflow: child }
  word: { wait: word }
  done: { return: '${{ child + word }}', needs: [child, word] }
";
        let plan = lope_definition::yaml::read(parent, "parent.yaml").unwrap();
        let plan = lope_flow::law::Plan::new(&plan).unwrap();
        client::deploy(&fixture.store, &plan).await.unwrap();
        let options = client::RunStartOptions {
            input: Some(Value::Null),
            ..client::RunStartOptions::default()
        };
        let (run, _) = client::start(
            &fixture.store,
            &plan,
            options,
            &crate::QueueLimits::new(),
            lope_model::Timestamp::from_millis(1),
        )
        .await
        .unwrap();
        let signal = EventKind::Signal {
            name: "word".into(),
            value: Value::Int(1),
        };
        client::tell(&fixture.store, run, &signal, None)
            .await
            .unwrap();
        assert_eq!(fixture.result(run).await, Value::Int(2), "{verb}");
        let called = async {
            while panicked.load(Ordering::SeqCst) == 0 {
                client::tell(&fixture.store, resident, &signal, None)
                    .await
                    .unwrap();
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, called)
            .await
            .unwrap_or_else(|_| panic!("{verb} is called in time"));
        drop(engine);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_whose_part_keeps_panicking_says_so_and_leaves_its_runs_to_others() {
    for part in ["session", "committer", "timekeeper", "shard"] {
        let name = format!("{part}-breaks");
        let fixture = EngineFixture::new(|task| {
            (&*task.workflow != "hang" || task.token.attempt > 1).then(|| Ok(Value::Int(1)))
        });
        // It is going to die, and the other takes its run up when its lease is over.
        let engine = fixture.engine_with(Settings {
            lease: short_lease().lease,
            ..named(&name)
        });
        let yaml = "name: hang\nsteps: { a: { action: one, timeout: 60s } }";
        let run = fixture.start(&engine, yaml, Value::Null).await;
        fixture.hanging().await;
        (0..FALLS_MAX).for_each(|_| seam::wish(&name, part));
        let nudge = async {
            loop {
                // Every part has something to do, and time to get up between two falls.
                engine.own(run);
                engine.dispatcher.deadline.notify_one();
                fixture.start(&engine, TWO, Value::Null).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let why = tokio::select! {
            why = timeout(PATIENCE, engine.broken()) => why.unwrap_or_else(|_| panic!("{part}: it is broken in time")),
            () = nudge => unreachable!("it never ends"),
        };
        assert!(
            matches!(why, Breakdown::Panicking { part: fallen, .. } if fallen == part),
            "{why}"
        );
        assert_eq!(engine.why_broken(), Some(why));
        let _other = fixture.engine_with(named("other"));
        assert_eq!(fixture.result(run).await, Value::Int(1), "{part}");
    }
}

struct Rude;

impl crate::executor::Executor for Rude {
    fn start(&self, _: Task, done: crate::executor::Done) {
        std::mem::forget(done);
    }

    fn cancel(&self, _: &crate::executor::Token) {
        panic!("do not disturb");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panics_of_executors_and_listeners_are_contained() {
    let fixture = EngineFixture::new(one);
    let executors: crate::Executors = [
        (
            "action".into(),
            fixture.test_executor.clone() as Arc<dyn crate::executor::Executor>,
        ),
        ("rude".into(), Arc::new(Rude)),
    ]
    .into();
    let listener: crate::NewsListener = Arc::new(|_| panic!("too loud"));
    let engine = Engine::begin_with_listener(
        fixture.store.clone(),
        executors,
        named("rude"),
        Some(listener),
    )
    .unwrap();
    let yaml = "name: rude\nsteps: { a: { action: x, executor: rude, timeout: 50ms, retries: 0, on_failure: skip }, b: { action: one } }";
    let run = fixture.start(&engine, yaml, Value::Null).await;
    assert_eq!(fixture.end(run).await.status.as_str(), "completed");
    let run = fixture.start(&engine, TWO, Value::Null).await;
    assert_eq!(fixture.result(run).await, Value::Int(2));
    assert_eq!(engine.why_broken(), None);
}
