//! Schedules on a store whose clock is moved by hand, and with an engine: what is due is fired
//! once, whatever goes wrong.
//!
//! "Cron (with time zone and DST), interval, jitter, start/end, pause, overlap policy (skip, queue,
//! cancel-other, allow), catch-up policy for missed fires; a fire and its run are one transaction,
//! so two runners never both fire a tick."

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lope_engine::client;
use lope_engine::fire::{self, FiredDue};
use lope_engine::plans::Plans;
use lope_flow::law::Plan;
use lope_model::{Clock, Priority, RunId, Span, Timestamp, Value};
use lope_schedule::store::{self, ScheduleChange, ScheduleRecord};
use lope_schedule::timing::Timing;
use lope_schedule::{CatchUp, Overlap, Schedule, ScheduleEntry};
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use lope_store::runs::{FinalStatus, RunFilter, RunStatus};
use lope_store::{ManualClock, MemoryStore, Store, StoreError};

use fixture::{EngineFixture, settings};

const MINUTE: Span = Span::from_secs(60);
const FLOW: &str = "name: flow\nsteps: { a: { action: one } }";
const STRICT: &str = "name: flow\ninput: { type: object }\nsteps: { a: { action: one } }";

/// Deal with what is due, from the beginning of the line on.
async fn fire_due(store: &Store, limit: usize) -> Result<FiredDue, StoreError> {
    fire::fire_due(store, &Plans::default(), limit, 0).await
}

/// A store on a clock moved by hand, with a schedule that ticks every minute.
struct Scene {
    store: Store,
    clock: Arc<ManualClock>,
    began: Timestamp,
}

impl Scene {
    async fn new(change: impl FnOnce(&mut Schedule)) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        deploy(&store, FLOW).await;
        let began = clock.now();
        let mut schedule = schedule(began);
        change(&mut schedule);
        store::add(&store, schedule, began).await.unwrap().unwrap();
        Self {
            store,
            clock,
            began,
        }
    }

    fn minute(&self, count: u64) -> Timestamp {
        self.began.plus(MINUTE.times(count))
    }

    async fn at_minute(&self, count: u64) -> Vec<RunId> {
        self.at(self.minute(count)).await
    }

    /// Set the clock and deal with everything that is due.
    async fn at(&self, now: Timestamp) -> Vec<RunId> {
        self.clock.set_wall(now);
        let mut started = Vec::new();
        for _ in 0..1_000 {
            let looked = fire_due(&self.store, 10).await.unwrap();
            started.extend(looked.started);
            if looked.due == 0 {
                return started;
            }
        }
        panic!("something is due for ever");
    }

    async fn record(&self) -> ScheduleRecord {
        store::find(&self.store, "minutely").await.unwrap().unwrap()
    }

    /// The ticks for which there are runs, in order; each once.
    async fn ticks(&self) -> Vec<Timestamp> {
        ticks(&self.store).await
    }

    async fn end(&self, run: RunId) {
        let engine = EngineFixture::on(self.store.clone(), |_| Some(Ok(Value::Null)));
        let working = engine.engine_with(lope_engine::Settings {
            claims: false,
            ..settings()
        });
        working.own(run);
        engine.end(run).await;
        working.shutdown(Duration::from_secs(5)).await.unwrap();
    }
}

fn schedule(now: Timestamp) -> Schedule {
    Schedule {
        input: Value::map([("n", Value::Int(1))]),
        overlap: Overlap::Allow,
        catch_up: CatchUp::All,
        tags: BTreeMap::from([("colour".to_owned(), "red".to_owned())]),
        ..Schedule::new(
            "minutely",
            "flow",
            Timing::every(MINUTE, now.plus(MINUTE)).unwrap(),
            now,
        )
    }
}

async fn deploy(store: &Store, yaml: &str) {
    let definition = lope_definition::yaml::read(yaml, "test.yaml").unwrap();
    client::deploy(store, &Plan::new(&definition).unwrap())
        .await
        .unwrap();
}

async fn ticks(store: &Store) -> Vec<Timestamp> {
    let runs = store
        .runs
        .list(RunFilter {
            limit: 10_000,
            ..RunFilter::default()
        })
        .await
        .unwrap();
    assert!(
        runs.iter()
            .all(|run| run.tags["schedule"] == "minutely" && run.tags["colour"] == "red")
    );
    let ticks: BTreeSet<Timestamp> = runs
        .iter()
        .map(|run| run.tags["tick"].parse().unwrap())
        .collect();
    assert_eq!(ticks.len(), runs.len(), "a tick has two runs: {runs:?}");
    ticks.into_iter().collect()
}

#[tokio::test]
async fn a_tick_starts_a_run_that_says_where_it_comes_from() {
    let scene = Scene::new(|it| it.priority = Priority::HIGHEST).await;
    assert_eq!(scene.at_minute(0).await, []);
    let started = scene.at_minute(1).await;
    let record = scene.store.runs.run(started[0]).await.unwrap().unwrap();
    assert_eq!(
        (record.workflow.as_str(), record.priority),
        ("flow", Priority::HIGHEST)
    );
    assert_eq!(scene.ticks().await, [scene.minute(1)]);
    let booked = scene.record().await;
    assert_eq!((booked.last_run, booked.running), (Some(started[0]), true));
    assert_eq!(scene.at_minute(1).await, []);
}

/// The version that was deployed last at the moment of the tick.
#[tokio::test]
async fn a_tick_starts_the_version_that_is_deployed_then() {
    let scene = Scene::new(|_| {}).await;
    let first = scene.at_minute(1).await[0];
    deploy(&scene.store, STRICT).await;
    let second = scene.at_minute(2).await[0];
    let version = async |run| scene.store.runs.run(run).await.unwrap().unwrap().version;
    assert_ne!(version(first).await, version(second).await);
}

#[tokio::test]
async fn a_tick_that_cannot_start_a_run_says_why_and_the_next_one_tries_again() {
    let scene = Scene::new(|it| {
        it.workflow = "later".to_owned();
        it.input = Value::Int(5);
    });
    let scene = scene.await;
    assert_eq!(scene.at_minute(1).await, []);
    let trouble = scene.record().await.entry.standing.trouble.unwrap();
    assert_eq!(
        (
            trouble.tick,
            trouble.message.contains("no workflow 'later'")
        ),
        (scene.minute(1), true),
        "{trouble:?}"
    );
    deploy(&scene.store, &STRICT.replace("name: flow", "name: later")).await;
    assert_eq!(scene.at_minute(2).await, []);
    let trouble = scene.record().await.entry.standing.trouble.unwrap();
    assert!(trouble.message.contains("expected object"), "{trouble:?}");
    deploy(&scene.store, &FLOW.replace("name: flow", "name: later")).await;
    assert_eq!(scene.at_minute(3).await.len(), 1);
    let counts = scene.record().await.entry.standing.counts;
    assert_eq!((counts.fired, counts.failed), (1, 2));
}

/// "catch-up policy for missed fires": a runner that was away for an hour.
#[tokio::test]
async fn an_hour_of_missed_ticks_is_caught_up_as_the_schedule_says() {
    for (catch_up, started, missed) in [
        (CatchUp::None, 0, 60),
        (CatchUp::Last, 1, 59),
        (CatchUp::All, 60, 0),
    ] {
        let scene = Scene::new(|it| it.catch_up = catch_up).await;
        let runs = scene.at(scene.minute(60).plus(Span::from_secs(30))).await;
        assert_eq!(
            (
                runs.len(),
                scene.record().await.entry.standing.counts.missed
            ),
            (started, missed),
            "{catch_up:?}"
        );
        assert_eq!(scene.at_minute(61).await.len(), 1);
        assert_eq!(scene.ticks().await.len(), started + 1);
    }
}

/// "overlap policy (skip, queue, cancel-other, allow)", with a run that goes on until somebody ends
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_meets_a_run_that_is_still_going() {
    let skip = Scene::new(|it| it.overlap = Overlap::Skip).await;
    let first = skip.at_minute(1).await[0];
    assert_eq!(skip.at_minute(2).await, []);
    skip.end(first).await;
    assert_eq!(skip.at_minute(3).await.len(), 1);
    assert_eq!(skip.ticks().await, [skip.minute(1), skip.minute(3)]);

    let queue = Scene::new(|it| it.overlap = Overlap::Queue).await;
    let first = queue.at_minute(1).await[0];
    assert_eq!(
        (queue.at_minute(2).await, queue.at_minute(3).await),
        (vec![], vec![])
    );
    queue.end(first).await;
    let second = queue.at_minute(3).await;
    assert_eq!(
        (second.len(), queue.ticks().await),
        (1, vec![queue.minute(1), queue.minute(2)])
    );
    queue.end(second[0]).await;
    assert_eq!(queue.at_minute(3).await.len(), 1);
    assert_eq!(
        queue.ticks().await,
        (1..=3).map(|count| queue.minute(count)).collect::<Vec<_>>()
    );

    let allow = Scene::new(|_| {}).await;
    assert_eq!(
        (
            allow.at_minute(1).await.len(),
            allow.at_minute(2).await.len()
        ),
        (1, 1)
    );

    let cancel = Scene::new(|it| it.overlap = Overlap::CancelOther).await;
    let first = cancel.at_minute(1).await[0];
    let second = cancel.at_minute(2).await[0];
    cancel.end(first).await;
    let status = async |run| cancel.store.runs.run(run).await.unwrap().unwrap().status;
    assert_eq!(
        status(first).await,
        RunStatus::Final(FinalStatus::Cancelled)
    );
    assert!(matches!(status(second).await, RunStatus::Live(_)));
}

#[tokio::test]
async fn pause_resume_replace_and_remove_take_effect_between_ticks() {
    let scene = Scene::new(|_| {}).await;
    scene.at_minute(1).await;
    let change = async |how: &dyn Fn(&mut ScheduleEntry)| {
        assert!(matches!(
            store::change(&scene.store, "minutely", how).await.unwrap(),
            ScheduleChange::Done(_)
        ));
    };
    change(&ScheduleEntry::pause).await;
    assert_eq!(scene.at_minute(5).await, []);
    let now = scene.minute(5);
    change(&|entry| entry.resume(now)).await;
    assert_eq!(
        (
            scene.at_minute(5).await.len(),
            scene.at_minute(6).await.len()
        ),
        (0, 1)
    );
    let two = Schedule {
        timing: Timing::every(MINUTE.times(2), scene.minute(8)).unwrap(),
        ..schedule(now)
    };
    store::put(&scene.store, two, scene.minute(6))
        .await
        .unwrap();
    assert_eq!(
        (
            scene.at_minute(7).await.len(),
            scene.at_minute(8).await.len()
        ),
        (0, 1)
    );
    assert!(scene.store.runs.unschedule("minutely", None).await.unwrap());
    assert_eq!(scene.at_minute(60).await, []);
    assert_eq!(
        scene.ticks().await,
        [1, 6, 8].map(|count| scene.minute(count))
    );
    assert_eq!(
        store::change(&scene.store, "minutely", |_| {})
            .await
            .unwrap(),
        ScheduleChange::Missing
    );
}

/// What a runner has read is gone by the time it writes: nothing is started.
#[tokio::test]
async fn a_schedule_that_changes_while_it_fires_starts_nothing() {
    for how in ["pause", "remove", "replace"] {
        let scene = Scene::new(|_| {}).await;
        let (meddled, now, done) = (scene.store.clone(), scene.began, AtomicU64::new(0));
        let hook = move |call: StoreCall| {
            if call.verb == "schedule" && done.fetch_add(1, Ordering::SeqCst) == 0 {
                at_once(meddle(&meddled, how, now));
            }
            InjectedFault::None
        };
        let slow = with_faults(scene.store.clone(), Arc::new(hook));
        scene.clock.set_wall(scene.minute(1));
        assert_eq!(fire_due(&slow, 10).await.unwrap().started, [], "{how}");
        assert_eq!(
            (
                fire_due(&scene.store, 10).await.unwrap().due,
                scene.ticks().await
            ),
            (0, vec![]),
            "{how}"
        );
    }
}

async fn meddle(store: &Store, how: &str, now: Timestamp) {
    match how {
        "remove" => assert!(store.runs.unschedule("minutely", None).await.unwrap()),
        "pause" => drop(
            store::change(store, "minutely", ScheduleEntry::pause)
                .await
                .unwrap(),
        ),
        _ => {
            let later = Schedule {
                from: Some(now.plus(MINUTE.times(9))),
                ..schedule(now)
            };
            store::put(store, later, now).await.unwrap();
        }
    }
}

/// Drive a future of the memory store, which never waits, to its end.
fn at_once(work: impl Future<Output = ()>) {
    let mut work = std::pin::pin!(work);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(work.as_mut().poll(&mut context).is_ready());
}

/// The store fails, loses an answer, or the runner dies at each call in turn: every tick still has
/// one run.
#[tokio::test]
async fn whatever_call_fails_every_tick_has_one_run() {
    let fault = |kind: u64| match kind {
        0 => InjectedFault::Fail(StoreError::unavailable("on purpose")),
        1 => InjectedFault::LoseAnswer,
        2 => InjectedFault::CrashBefore,
        _ => InjectedFault::CrashAfter,
    };
    for kind in 0..4 {
        for broken in 0..12 {
            let scene = Scene::new(|_| {}).await;
            let hook = move |call: StoreCall| {
                if call.number == broken {
                    fault(kind)
                } else {
                    InjectedFault::None
                }
            };
            let mut store = with_faults(scene.store.clone(), Arc::new(hook));
            for count in 1..=4 {
                scene.clock.set_wall(scene.minute(count));
                for _ in 0..20 {
                    match fire_due(&store, 10).await {
                        Ok(looked) if looked.due == 0 => break,
                        Ok(_)
                        | Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. }) => {}
                        // It died; another one goes on.
                        Err(StoreError::Closed) => store = scene.store.clone(),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            let expected: Vec<Timestamp> = (1..=4).map(|count| scene.minute(count)).collect();
            assert_eq!(
                scene.ticks().await,
                expected,
                "fault {kind} at call {broken}"
            );
            assert_eq!(scene.record().await.entry.standing.counts.fired, 4);
        }
    }
}

/// "two runners never both fire a tick": eight that look all the time, while the clock goes on and
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_runners_fire_each_tick_once() {
    let scene = Scene::new(|_| {}).await;
    let over = Arc::new(AtomicU64::new(0));
    let runners: Vec<_> = (0..8)
        .map(|_| {
            let (store, over) = (scene.store.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                while over.load(Ordering::SeqCst) == 0 {
                    fire_due(&store, 10).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for count in [1, 2, 3, 10, 4, 11, 40, 5, 41] {
        scene.clock.set_wall(scene.minute(count));
        let come = async {
            while store::find(&scene.store, "minutely")
                .await
                .unwrap()
                .unwrap()
                .entry
                .standing
                .next
                <= Some(scene.minute(count))
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), come)
            .await
            .expect("the ticks are dealt with in time");
    }
    over.store(1, Ordering::SeqCst);
    for runner in runners {
        runner.await.unwrap();
    }
    assert_eq!(
        scene.ticks().await,
        (1..=41)
            .map(|count| scene.minute(count))
            .collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_run_at_once_leaves_the_ticks_alone() {
    let scene = Scene::new(|it| it.paused = true).await;
    let schedule = scene.record().await.entry.schedule;
    let run = fire::at_once(&scene.store, &Plans::default(), &schedule, scene.began)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        scene.store.runs.run(run).await.unwrap().unwrap().tags["schedule"],
        "minutely"
    );
    assert_eq!(scene.record().await.last_run, None);
    let unknown = Schedule {
        workflow: "nobody".to_owned(),
        ..schedule
    };
    let why = fire::at_once(&scene.store, &Plans::default(), &unknown, scene.began)
        .await
        .unwrap()
        .unwrap_err();
    assert!(why.contains("no workflow 'nobody'"), "{why}");
}

/// A schedule that a later version has written is left alone for a while, and not looked at again
/// and again.
#[tokio::test]
async fn a_schedule_that_cannot_be_read_is_put_off() {
    let scene = Scene::new(|_| {}).await;
    let mut stored = scene
        .store
        .runs
        .find_schedule("minutely")
        .await
        .unwrap()
        .unwrap()
        .schedule;
    let over = Some(stored.revision);
    (stored.revision, stored.body) = (
        lope_model::Revision::from_bytes([7; 16]),
        b"from the future".to_vec(),
    );
    let write = lope_store::runs::ScheduleWrite {
        schedule: stored,
        over,
        admit: None,
        mail: None,
    };
    scene.store.runs.schedule(write).await.unwrap();
    assert_eq!(scene.at_minute(1).await, []);
    let left = scene
        .store
        .runs
        .find_schedule("minutely")
        .await
        .unwrap()
        .unwrap()
        .schedule;
    assert_eq!(
        (left.due, left.body),
        (Some(scene.minute(2)), b"from the future".to_vec())
    );
}

/// The real thing: an engine beside its other work, in real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_fires_what_is_due_and_runs_it() {
    let fixture = EngineFixture::new(|_| Some(Ok(Value::Int(1))));
    deploy(&fixture.store, FLOW).await;
    let engine = fixture.engine();
    let now = fixture.store.upkeep.reading().await.unwrap().now;
    let second = Span::from_secs(1);
    let schedule = Schedule {
        timing: Timing::every(second, now).unwrap(),
        ..schedule(now)
    };
    let mut news = engine.subscribe();
    store::add(&fixture.store, schedule, now)
        .await
        .unwrap()
        .unwrap();
    let fired = async {
        while fixture.calls() < 2 {
            news.recv().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(120), fired)
        .await
        .expect("two ticks are fired in time");
    engine.shutdown(Duration::from_secs(5)).await.unwrap();
    let ticks = ticks(&fixture.store).await;
    let expected: Vec<Timestamp> = (1..=ticks.len() as u64)
        .map(|count| now.plus(second.times(count)))
        .collect();
    assert_eq!(ticks, expected);
}

/// One that cannot start its run stands in nobody's way.
#[tokio::test]
async fn many_schedules_are_dealt_with_in_one_look() {
    let scene = Scene::new(|_| {}).await;
    for number in 0..20 {
        let workflow = if number % 5 == 0 { "nobody" } else { "flow" };
        let timing = Timing::every(MINUTE, scene.minute(1)).unwrap();
        let schedule = Schedule::new(&format!("s{number:02}"), workflow, timing, scene.began);
        store::add(&scene.store, schedule, scene.began)
            .await
            .unwrap()
            .unwrap();
    }
    scene.clock.set_wall(scene.minute(1));
    let looked = fire_due(&scene.store, 100).await.unwrap();
    assert_eq!((looked.due, looked.started.len()), (21, 17));
    let looked = fire_due(&scene.store, 100).await.unwrap();
    assert_eq!((looked.due, looked.next_due), (0, Some(scene.minute(2))));
}

/// An engine that works on its own runs alone starts nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_claims_nothing_fires_nothing() {
    let fixture = EngineFixture::new(|_| Some(Ok(Value::Int(1))));
    let engine = fixture.engine_with(lope_engine::Settings {
        claims: false,
        ..settings()
    });
    let now = fixture.store.upkeep.reading().await.unwrap().now;
    let due = Schedule {
        timing: Timing::every(MINUTE, Timestamp::EPOCH).unwrap(),
        ..schedule(now)
    };
    store::add(&fixture.store, due, now.minus(MINUTE.times(9)))
        .await
        .unwrap()
        .unwrap();
    let run = fixture.start(&engine, FLOW, Value::Null).await;
    fixture.result(run).await;
    engine.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(
        fixture
            .store
            .runs
            .list(RunFilter {
                limit: 9,
                ..RunFilter::default()
            })
            .await
            .unwrap()
            .len(),
        1
    );
}
