//! What `cargo xtask bench counts` counts the instructions of: steps by the law alone, by a shard's
//! machine, by that and the slots; commits on stores. In: a name and how many units; nothing comes out.

#![allow(
    clippy::unwrap_used,
    reason = "a count that cannot be had ends the program"
)]

use std::hint::black_box;
use std::sync::Arc;

use lope::workflows::{self, Plan};
use lope_engine::client::{self, RunStartOptions};
use lope_engine::executor::{Task, TaskOutcome};
use lope_engine::shard::{Adoption, Home, Past, Shard, ShardInput, ShardOutput, ShardSettings};
use lope_engine::slots::{SlotCommand, SlotScheduler};
use lope_engine::{QueueLimits, Settings};
use lope_model::{Epoch, Moment, RunnerId, Timestamp, Value};
use lope_store::Store;
use lope_store::bench::committers;
use lope_store::memory::MemoryStore;
use lope_store::runs::CommitReply;

const SEQUENCE: &str = "
name: sequence
steps:
  start: { let: 0, set: round }
  rounds:
    while: round < input
    max: 100000000
    needs: [start]
    steps:
      step: { action: nothing, with: { number: '${{ round }}' } }
      next: { let: '${{ round + 1 }}', set: round, needs: [step] }
";

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let name = words.next().unwrap_or_default();
    let units: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    match name.as_str() {
        "law" => law(units),
        "shard" => shard(units, None),
        "slots" => shard(
            units,
            Some(SlotScheduler::new(Settings::default().concurrency)),
        ),
        "memory" => commits(units, async |_| MemoryStore::open()),
        "sqlite" => commits(units, async |folder| {
            let options = lope_sqlite::SqliteOptions::new(folder.join("counts.db"));
            lope_sqlite::SqliteStore::open(options).unwrap()
        }),
        "postgres" => commits(units, async |_| {
            let url = std::env::var("LOPE_TEST_POSTGRES").unwrap();
            // The server outlives this program; each count has runs of its own.
            let schema = format!("counts_{}", std::process::id());
            let options = lope_postgres::PostgresOptions::new(&url).unwrap();
            let options = options.in_schema(&schema).unwrap();
            lope_postgres::PostgresStore::open(options).await.unwrap()
        }),
        other => {
            let names = "law, shard, slots, memory, sqlite or postgres";
            println!("{names}, not '{other}': see cargo xtask bench counts");
        }
    }
}

fn plan() -> Arc<Plan> {
    workflows::read(SEQUENCE, "counts").unwrap()
}

fn law(steps: u64) {
    let input = vec![Value::Int(steps.cast_signed())];
    let ended = lope_flow::law::drive(&plan(), input, |_| lope::Settled::Done(Value::Null));
    black_box(ended);
}

/// A run of so many steps, whose commits and attempts are answered at once. With slots, each attempt
/// asks for one first, and for nothing else.
fn shard(steps: u64, mut slots: Option<SlotScheduler>) {
    let owner = RunnerId::from_uuid(uuid::Uuid::from_u128(1));
    let mut shard = Shard::new(ShardSettings::of(&Settings::default()), owner);
    shard.listen(false);
    let mut inputs = vec![ShardInput::Adopt(Box::new(newborn(owner, steps)))];
    let mut outputs = Vec::new();
    while let Some(input) = inputs.pop() {
        shard.handle(Timestamp::EPOCH, input, &mut outputs);
        let answer = |output| answer(output, slots.as_mut());
        inputs.extend(outputs.drain(..).filter_map(answer));
    }
    assert!(shard.is_empty(), "the run has not ended");
}

fn answer(output: ShardOutput, slots: Option<&mut SlotScheduler>) -> Option<ShardInput> {
    match output {
        ShardOutput::Commit(it) => {
            let reply = CommitReply::Done {
                mail: 0,
                undelivered: Vec::new(),
            };
            Some(ShardInput::Committed(it.run, it.epoch, reply))
        }
        ShardOutput::Start(task) => {
            let task = match slots {
                Some(slots) => through(slots, task),
                None => task,
            };
            let outcome = TaskOutcome::new(task.token, Ok(Value::Null));
            Some(ShardInput::Outcome(outcome))
        }
        _ => None,
    }
}

/// An attempt that has its slot, and has ended.
fn through(slots: &mut SlotScheduler, task: Box<Task>) -> Box<Task> {
    let mut commands = Vec::new();
    slots.submit(Moment(0), task, &mut commands);
    let Some(SlotCommand::Start(task)) = commands.pop() else {
        panic!("there is a slot");
    };
    slots.settled(Moment(0), &task.token, Some(&Value::Null), &mut commands);
    task
}

fn newborn(owner: RunnerId, steps: u64) -> Adoption {
    let options = RunStartOptions {
        input: Some(Value::Int(steps.cast_signed())),
        ..RunStartOptions::default()
    };
    let plan = plan();
    let client::PendingRun { admit, start } =
        client::new_run(&plan, options, &QueueLimits::new(), Timestamp::EPOCH);
    Adoption {
        run: admit.run,
        epoch: Epoch(1),
        owner,
        plan,
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

/// One owner of one run, a row a commit.
fn commits(units: u64, open: impl AsyncFnOnce(&std::path::Path) -> Store) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = open(folder.path()).await;
        committers(&store, 1, units).await.unwrap();
    });
}
