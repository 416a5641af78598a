//! What is left when a recipe is stopped, and when one could not be started: nothing.

use std::collections::BTreeSet;

use lope_reactive::machine::{
    Arrival, EventOutcome, SpaceAction, SpaceCommand, SpaceInput, SpaceOutput, StreamEvent,
};
use lope_reactive::process::{entries, running_set};
use lope_reactive::{Json, limit};

use crate::fixture::{cell, json, space};
use crate::host::Host;

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

/// An action, a handler, a nested recipe and an effect.
fn recipe() -> serde_json::Value {
    let double = |from: serde_json::Value, to: &str| json!({"module": {"type": "native", "implementation": "double"}, "inputs": {"x": from}, "outputs": alias(&["internal", to])});
    let nested = json!({
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [double(alias(&["argument", "x"]), "out")]
    });
    json!({
        "initial": {"internal": {"stream": {"$stream": true}, "sum": 0}},
        "result": {"send": alias(&["internal", "stream"]), "sum": alias(&["internal", "sum"]), "out": alias(&["internal", "out"]),
            "nested": alias(&["internal", "nested"]), "page": alias(&["internal", "page"])},
        "nodes": [
            {"module": {"type": "native", "implementation": "add"},
             "inputs": {"x": alias(&["internal", "stream"]), "y": alias(&["internal", "sum"])}, "outputs": alias(&["internal", "sum"])},
            double(alias(&["argument", "x"]), "out"),
            {"module": {"type": "recipe", "implementation": nested}, "inputs": {"x": alias(&["argument", "x"])},
             "outputs": alias(&["internal", "nested"])},
            {"module": {"type": "ref", "implementation": "effect"}, "inputs": {"name": "fetch", "request": alias(&["argument", "x"])},
             "outputs": alias(&["internal", "page"])}
        ]
    })
}

fn event(id: &str) -> SpaceInput {
    SpaceInput::from(StreamEvent {
        id: id.into(),
        stream: cell("result/send"),
        payload: 5.into(),
    })
}

fn said_to_run(host: &Host) -> usize {
    let set = running_set(&space("home"));
    entries(host.machine.spaces().snapshot().at(&set)).len()
}

fn set_argument(host: &mut Host, value: i64) {
    let x = host.process("result").key("argument").key("x");
    host.edit(|_, transaction| transaction.set(&x, &Json::from(value)).unwrap());
}

#[test]
fn of_a_recipe_with_more_nodes_than_a_wave_takes_no_record_is_left_either() {
    let mut host = Host::new();
    host.run(Some(recipe()), Some(json!({"x": 1})), "result")
        .unwrap();
    let mut recorded = BTreeSet::new();
    note_records(&host, &mut recorded);
    assert!(recorded.len() >= 3, "{recorded:?}");
    host.machine.bound_waves(1);
    host.outputs.clear();
    host.stop("result");
    note_records(&host, &mut recorded);
    assert_eq!(recorded, BTreeSet::new());
    assert!(host.machine.is_idle(host.now));
}

/// What a store would have of nodes, after the waves that were told.
fn note_records(host: &Host, recorded: &mut BTreeSet<String>) {
    for output in &host.outputs {
        let SpaceOutput::Save(wave) = output else {
            continue;
        };
        for (name, record) in &wave.nodes {
            match record {
                Some(_) => recorded.insert(name.to_string()),
                None => recorded.remove(&**name),
            };
        }
    }
}

/// "Stop cancels actions, handlers, nested runs, and cleans up"
#[test]
fn stop_cancels_actions_handlers_nested_runs_and_effects_and_nothing_is_left_of_them() {
    let mut host = Host::new();
    host.run(Some(recipe()), Some(json!({"x": 1})), "result")
        .unwrap();
    host.turn(vec![event("first")]);
    let shown = json!({"sum": 5, "out": 2, "nested": {"out": 2}});
    for key in ["sum", "out", "nested"] {
        assert_eq!(
            host.get(&format!("result/{key}")),
            Json::from(&shown).child(key).cloned()
        );
    }
    let asked = host.outputs.iter().find_map(|output| match output {
        SpaceOutput::Effect(effect) => Some(effect.key.clone()),
        _ => None,
    });
    assert_eq!((host.running(), said_to_run(&host)), (2, 2));
    host.stop("result");
    assert_eq!((host.running(), said_to_run(&host)), (0, 0));
    let result = cell("result");
    let left = host
        .machine
        .with_program(|runner, spaces, _| runner.nodes_of(&result, &spaces.begin()));
    assert!(left.is_empty());
    assert_eq!(host.machine.next_deadline(host.now), None);
    let before = host.get("result");
    // Its inputs change, an event comes, the effect ends: nobody is there.
    set_argument(&mut host, 10);
    let key = asked.unwrap();
    let told = SpaceCommand {
        id: "told".into(),
        action: SpaceAction::EffectDone {
            key,
            outcome: Ok("page".into()),
        },
    };
    host.turn(vec![
        SpaceInput::Arrived(Arrival::Command(told)),
        event("second"),
    ]);
    assert_eq!(host.get("result"), before);
    let handled = |host: &Host| {
        let receipts = host.outputs.iter();
        receipts.filter(|output| matches!(output, SpaceOutput::Receipt(receipt) if &*receipt.event == "second")).count()
    };
    assert_eq!(handled(&host), 0, "it waits for a handler");
    let given_up = host.now.plus(limit::HANDLER_WAIT);
    assert_eq!(host.machine.next_deadline(host.now), Some(given_up));
    let mut after = host.restarted();
    assert_eq!((after.running(), after.get("result")), (0, before));
    // Whoever resumes it goes on from what is stored.
    after.run(None, None, "result").unwrap();
    assert_eq!(after.running(), 2);
    assert_eq!(after.get("result/out"), Some(20.into()));
    assert_eq!(after.get("result/nested/out"), Some(20.into()));
    after.turn(vec![event("third")]);
    assert_eq!(after.get("result/sum"), Some(10.into()));
}

/// "nothing half-initialised remains after an error"
#[test]
fn a_run_that_fails_deep_inside_leaves_everything_as_it_was() {
    let mut host = Host::new();
    host.run(Some(recipe()), Some(json!({"x": 1})), "result")
        .unwrap();
    let missing = json!({"result": {}, "nodes": [
        {"module": {"type": "ref", "implementation": "nobody"}, "inputs": {}, "outputs": alias(&["internal", "none"])}]});
    let outer = json!({"result": {"out": alias(&["internal", "out"])}, "nodes": [
        {"module": {"type": "native", "implementation": "double"}, "inputs": {"x": 1}, "outputs": alias(&["internal", "out"])},
        {"module": {"type": "recipe", "implementation": missing}, "inputs": {}, "outputs": alias(&["internal", "inner"])}]});
    let documents = |host: &Host| {
        let snapshot = host.machine.spaces().snapshot();
        let all = snapshot.documents(&space("home")).into_iter();
        all.map(|(id, value)| (id.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    let before = documents(&host);
    for result in ["result", "fresh"] {
        let command = SpaceCommand {
            id: result.into(),
            action: SpaceAction::Run {
                result: cell(result),
                recipe: Some(outer.clone().into()),
                argument: None,
                strict: true,
            },
        };
        host.turn(vec![SpaceInput::Arrived(Arrival::Command(command))]);
        let receipt = host.outputs.iter().rev().find_map(|output| match output {
            SpaceOutput::Receipt(receipt) => Some(receipt.clone()),
            _ => None,
        });
        let receipt = receipt.unwrap();
        assert_eq!(&*receipt.event, result);
        let EventOutcome::Failed(failure) = receipt.outcome else {
            panic!("{receipt:?}")
        };
        assert!(failure.message.contains("'nobody'"), "{failure:?}");
        assert_eq!(documents(&host), before);
        assert_eq!(host.running(), 2);
    }
    set_argument(&mut host, 4);
    assert_eq!(
        host.get("result/out"),
        Some(8.into()),
        "the old one runs on"
    );
}
