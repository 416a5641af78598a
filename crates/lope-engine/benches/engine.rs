//! The engine alone: a store in memory and an executor that answers at once, so that what is left
//! is what the machines, their threads and their queues cost. Prints a line for each shape:
//! one-step runs, steps one after the other, steps at once; and the same for the machines by
//! themselves, on one thread, with a store and an executor that only say yes.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lope_definition::executor;
use lope_engine::client::{self, RunStartOptions};
use lope_engine::executor::{Done, Executor, Task, TaskOutcome, Token};
use lope_engine::shard::{Adoption, Home, Past, Shard, ShardInput, ShardOutput, ShardSettings};
use lope_engine::slots::{SlotCommand, SlotScheduler};
use lope_engine::{Engine, Executors, QueueLimits, Settings};
use lope_flow::law::Plan;
use lope_model::{Epoch, Moment, RunnerId, Timestamp, Value};
use lope_store::Store;
use lope_store::bench::{Figure, Stopwatch};
use lope_store::memory::MemoryStore;
use lope_store::runs::{CommitReply, RunFilter, RunStatus};

const ONE: &str = "
name: one
steps:
  only: { action: nothing, with: { number: '${{ input }}' } }
";
const SEQUENCE: &str = "
name: sequence
steps:
  start: { let: 0, set: round }
  rounds:
    while: round < input
    max: 1000000
    needs: [start]
    steps:
      step: { action: nothing, with: { number: '${{ round }}' } }
      next: { let: '${{ round + 1 }}', set: round, needs: [step] }
";
const FAN: &str = "
name: fan
steps:
  all:
    each: ${{ range(input) }}
    as: number
    parallel: max
    steps:
      step: { action: nothing, with: { number: '${{ number }}' } }
  done: { return: '${{ size(all) }}' }
";
/// Name, workflow, runs, steps of each.
const SHAPES: [(&str, &str, u64, i64); 5] = [
    ("one-step runs", ONE, 200_000, 1),
    ("steps of 100 runs", SEQUENCE, 100, 2_000),
    ("steps of one run", SEQUENCE, 1, 50_000),
    ("fan-out of 10,000", FAN, 1, 10_000),
    ("fan-out of 100,000", FAN, 1, 100_000),
];
/// Callers that admit runs at the same time.
const CALLERS: u64 = 256;

struct Nothing;

impl Executor for Nothing {
    fn start(&self, _task: Task, done: Done) {
        done.finish(Ok(Value::Null), None);
    }

    fn cancel(&self, _token: &Token) {}
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads");
    // `cargo bench` passes flags of its own; the first plain word chooses shapes by a part of their
    // name.
    let wanted = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with('-'))
        .unwrap_or_default();
    runtime.block_on(async {
        for (name, text, runs, each) in SHAPES.iter().filter(|shape| shape.0.contains(&wanted)) {
            println!("{name:<20} {}", measure(text, *runs, *each).await);
            println!("  machines only      {}", machines(text, *runs, *each));
        }
    });
}

async fn measure(text: &str, runs: u64, each: i64) -> Figure {
    let store = MemoryStore::open();
    let mut executors = Executors::new();
    executors.insert(executor::ACTION.into(), Arc::new(Nothing));
    let engine =
        Arc::new(Engine::begin(store.clone(), executors, Settings::default()).expect("threads"));
    let definition = lope_definition::yaml::read(text, "bench").expect("a workflow");
    let plan = Arc::new(Plan::new(&definition).expect("a sound workflow"));
    client::deploy(&store, &plan)
        .await
        .expect("memory does not fail");
    first(&store, &engine, &plan).await;
    let watch = Stopwatch::start();
    let callers = runs.min(CALLERS);
    let working: Vec<_> = (0..callers)
        .map(|caller| {
            let mine = runs / callers + u64::from(caller < runs % callers);
            tokio::spawn(admit(Arc::clone(&engine), Arc::clone(&plan), mine, each))
        })
        .collect();
    for caller in working {
        caller.await.expect("a caller does not panic");
    }
    while engine.residents() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let figure = watch.stop(runs * each.unsigned_abs());
    completed(&store).await;
    figure
}

/// What shard and slots alone make of it, `CALLERS` runs at a time.
fn machines(text: &str, runs: u64, each: i64) -> Figure {
    let definition = lope_definition::yaml::read(text, "bench").expect("a workflow");
    let plan = Arc::new(Plan::new(&definition).expect("a sound workflow"));
    let owner = RunnerId::from_uuid(uuid::Uuid::from_u128(1));
    let mut shard = Shard::new(ShardSettings::of(&Settings::default()), owner);
    shard.listen(false);
    let mut slots = SlotScheduler::new(Settings::default().concurrency);
    let (mut inputs, mut outputs, mut commands, mut begun) =
        (Vec::new(), Vec::new(), Vec::new(), 0);
    let watch = Stopwatch::start();
    while begun < runs || !shard.is_empty() {
        while begun < runs && shard.len() + inputs.len() < CALLERS as usize {
            inputs.push(ShardInput::Adopt(Box::new(newborn(&plan, owner, each))));
            begun += 1;
        }
        let now = now();
        inputs
            .drain(..)
            .for_each(|input| shard.handle(now, input, &mut outputs));
        for output in outputs.drain(..) {
            match output {
                ShardOutput::Commit(it) => {
                    let reply = CommitReply::Done {
                        mail: 0,
                        undelivered: Vec::new(),
                    };
                    inputs.push(ShardInput::Committed(it.run, it.epoch, reply));
                }
                ShardOutput::Start(task) => slots.submit(Moment(0), task, &mut commands),
                _ => {}
            }
        }
        while let Some(act) = commands.pop() {
            if let SlotCommand::Start(task) = act {
                let outcome = TaskOutcome::new(task.token, Ok(Value::Null));
                slots.settled(Moment(0), &outcome.token, Some(&Value::Null), &mut commands);
                inputs.push(ShardInput::Outcome(outcome));
            }
        }
    }
    watch.stop(runs * each.unsigned_abs())
}

fn newborn(plan: &Arc<Plan>, owner: RunnerId, each: i64) -> Adoption {
    let options = RunStartOptions {
        input: Some(Value::Int(each)),
        ..RunStartOptions::default()
    };
    let client::PendingRun { admit, start } =
        client::new_run(plan, options, &QueueLimits::new(), now());
    Adoption {
        run: admit.run,
        epoch: Epoch(1),
        owner,
        plan: Arc::clone(plan),
        home: Home::default(),
        parent: None,
        past: Past::Born {
            start,
            size: admit.rows[0].body.len(),
        },
        mail: Vec::new(),
        seen: 0,
    }
}

/// One run to its end: from then on the engine is registered and takes what is born here.
async fn first(store: &Store, engine: &Engine, plan: &Arc<Plan>) {
    let options = RunStartOptions {
        input: Some(Value::Int(1)),
        ..RunStartOptions::default()
    };
    let new_run = client::new_run(plan, options, &QueueLimits::new(), now());
    let run = new_run.admit.run;
    engine
        .admit(new_run, plan)
        .await
        .expect("memory does not fail");
    client::wait(store, run)
        .await
        .expect("memory does not fail");
}

async fn admit(engine: Arc<Engine>, plan: Arc<Plan>, runs: u64, each: i64) {
    for _ in 0..runs {
        let options = RunStartOptions {
            input: Some(Value::Int(each)),
            ..RunStartOptions::default()
        };
        engine
            .admit(
                client::new_run(&plan, options, &QueueLimits::new(), now()),
                &plan,
            )
            .await
            .expect("memory does not fail");
    }
}

/// A run that failed would be a fast one.
async fn completed(store: &Store) {
    let filter = RunFilter {
        limit: 100,
        ..RunFilter::default()
    };
    for run in store.runs.list(filter).await.expect("memory does not fail") {
        assert_eq!(
            run.status.as_str(),
            "completed",
            "{:?}",
            run.error
                .map(|error| String::from_utf8_lossy(&error).into_owned())
        );
        assert!(matches!(run.status, RunStatus::Final(_)));
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970");
    Timestamp::from_millis(
        i64::try_from(since.as_millis()).expect("a clock before the year 292 million"),
    )
}
