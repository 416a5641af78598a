//! The shard by itself, where the simulator found a fault: every seed of one world hits the same
//! line, and this says which.

use std::sync::Arc;

use lope_flow::law::Plan;
use lope_model::{Epoch, RunId, RunnerId, Timestamp, Value};

use super::*;
use crate::QueueLimits;
use crate::client::{self, RunStartOptions};

const OWNER: RunnerId = RunnerId::from_bytes([1; 16]);
const NOW: Timestamp = Timestamp::from_millis(1_000);

fn adoption(run: RunId, epoch: u64) -> ShardInput {
    let yaml = "{ name: one, steps: { a: { action: one } } }";
    let definition = lope_definition::yaml::read(yaml, "test.yaml").unwrap();
    let plan = Arc::new(Plan::new(&definition).unwrap());
    let options = RunStartOptions {
        input: Some(Value::Null),
        ..RunStartOptions::default()
    };
    let client::PendingRun { admit, start } =
        client::new_run_as(run, &plan, options, &QueueLimits::new(), NOW);
    ShardInput::Adopt(Box::new(Adoption {
        run,
        epoch: Epoch(epoch),
        owner: OWNER,
        plan,
        home: Home::default(),
        parent: None,
        past: Past::Born {
            start,
            size: admit.rows[0].body.len(),
        },
        mail: Vec::new(),
        seen: 0,
    }))
}

/// Seeds 1902 and 14448 of 20,000: the run was given back under the claim of the late message, which
/// the store refuses, and stayed with a runner that did not hold it.
#[test]
fn a_shard_that_falls_over_a_late_message_gives_back_the_run_as_it_was_held() {
    let settings = ShardSettings::of(&crate::Settings::default());
    let mut shard = Shard::new(settings, OWNER);
    let run = RunId::from_bytes([9; 16]);
    let mut out = Vec::new();
    shard.handle(NOW, adoption(run, 5), &mut out);
    assert!(shard.holds(run));
    shard.handle(NOW, adoption(run, 3), &mut out);
    assert!(shard.holds(run));
    out.clear();
    assert!(shard.expel("told to", &mut out));
    assert!(!shard.holds(run));
    let fell = out.iter().find_map(|output| match output {
        ShardOutput::Fell { run, epoch, .. } => Some((*run, *epoch)),
        _ => None,
    });
    assert_eq!(fell, Some((run, Epoch(5))));
}
