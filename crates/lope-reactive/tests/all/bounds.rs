//! Bounds: what is beyond one is an error that names it, and the rest of the space goes on.

use std::sync::Arc;

use lope_cells::read::BeyondBound;
use lope_cells::{Json, Schema, Spaces};
use lope_model::Timestamp;
use lope_reactive::hosting::{HostError, SpaceStore};
use lope_reactive::limit::{CHILDREN_MAX, DOCUMENTS_MAX, RUNS_PER_SLICE_MAX};
use lope_reactive::machine::{
    Arrival, EventOutcome, SpaceAction, SpaceCommand, SpaceInput, SpaceMachine, SpaceOutput,
};
use lope_reactive::runner::RecipeRun;
use lope_reactive::{Recipe, RecipeRunner};
use lope_store::MemoryStore;

use crate::fixture::{cell, json, link, set, space};
use crate::host::{Host, modules};

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

/// More parts than one read may have, and behind them a link.
fn too_much() -> Json {
    let list = Json::array((0..250_001).map(Json::from));
    Json::object([("list", list), ("other", link("other"))])
}

#[test]
fn a_read_that_leaves_something_out_says_so() {
    let mut spaces = Spaces::default();
    set(&mut spaces, "other", 1);
    set(&mut spaces, "big", too_much());
    let mut transaction = spaces.begin();
    let part = transaction.project(&cell("big/other"), &Schema::any());
    assert!(part.is_some() && transaction.beyond().is_none());
    transaction.project(&cell("big"), &Schema::any());
    let from = cell("big");
    assert_eq!(transaction.beyond(), Some(&BeyondBound::Parts { from }));
    let mut spaces = Spaces::default();
    for depth in 0..200 {
        let next = json!({ "next": link(&format!("d{}", depth + 1)) });
        set(&mut spaces, &format!("d{depth}"), next);
    }
    let mut transaction = spaces.begin();
    transaction.project(&cell("d0"), &Schema::any());
    let from = cell("d0");
    assert_eq!(transaction.beyond(), Some(&BeyondBound::Depth { from }));
}

#[test]
fn a_node_that_would_see_less_than_it_reads_fails_and_recovers() {
    let mut host = Host::new();
    host.set("other", 1);
    host.set("doc", too_much());
    let recipe = json!({
        "result": alias(&["internal", "out"]),
        "nodes": [{"module": {"type": "native", "implementation": "double"}, "inputs": {"doc": alias(&["argument", "doc"])},
            "outputs": alias(&["internal", "out"])}]
    });
    let argument = json!({ "doc": link("doc") });
    host.run(Some(recipe), Some(argument), "result").unwrap();
    let error = host.stored("result", "errors").unwrap();
    let error = error.child("0").unwrap().clone();
    assert_eq!(error.child("type"), Some(&"Limit".into()));
    let message = error.child("message").and_then(Json::as_str).unwrap();
    assert!(message.contains("PROJECTED_MAX"), "{message}");
    assert_eq!(host.get("result"), None);
    host.set("doc", json!({ "list": [1], "other": link("other") }));
    assert_eq!(host.get("result"), Some(0.into()), "it has no x");
    let errors = host.stored("result", "errors");
    assert!(errors.is_none_or(|errors| errors.child("0").is_none()));
}

#[test]
fn a_node_that_asks_for_too_many_children_starts_none() {
    let mut host = Host::scripted();
    let recipe = |count: usize| {
        json!({
            "result": alias(&["internal", "out"]),
            "nodes": [{"module": {"type": "javascript", "implementation": format!("({{op}}) => Array.from({{length: {count}}}, (_, i) => run(op, {{i}}, i))")},
                "inputs": {"op": {"result": alias(&["argument", "i"]), "nodes": []}}, "outputs": alias(&["internal", "out"])}]
        })
    };
    host.run(Some(recipe(CHILDREN_MAX + 1)), None, "result")
        .unwrap();
    assert_eq!(host.running(), 1);
    let errors = host.stored("result", "errors").unwrap();
    let message = errors.child("0").unwrap().child("message").cloned();
    assert_eq!(message, Some("more than 10000 children".into()));
    host.run(Some(recipe(3)), None, "result").unwrap();
    assert_eq!(host.get("result"), Some(json!([0, 1, 2]).into()));
}

/// Starts itself twice, without end.
fn bomb() -> serde_json::Value {
    json!({
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [{"module": {"type": "javascript", "implementation": "({d, self}) => [run(self, {d: d + 1, self}, 'a'), run(self, {d: d + 1, self}, 'b')]"},
            "inputs": {"d": alias(&["argument", "d"]), "self": alias(&["argument", "self"])}, "outputs": alias(&["internal", "out"])}]
    })
}

#[test]
fn a_recipe_that_starts_itself_twice_ends_at_a_bound_and_its_space_answers() {
    let mut host = Host::scripted();
    host.bound_processes(200);
    let argument = json!({ "d": 0, "self": bomb() });
    host.run(Some(bomb()), Some(argument), "bomb").unwrap();
    let running = host.running();
    assert!((150..=201).contains(&running), "{running}");
    let reports = host
        .machine
        .with_program(|runner, spaces, nodes| runner.report(spaces, nodes));
    let root = reports.iter().find(|report| report.parent.is_none());
    let root = root.unwrap();
    assert!(root.failing > 0, "{root:?}");
    let why = root.failures[0].why.child("message").cloned();
    let expected = "more than 200 processes would run in the space";
    assert_eq!(why, Some(expected.into()));
    assert_eq!(root.failures[0].why.child("type"), Some(&"Limit".into()));
    assert!(root.failures[0].path.starts_with("0/0/"), "{root:?}");
    let double = json!({
        "result": alias(&["internal", "out"]),
        "nodes": [{"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(&["argument", "x"])},
            "outputs": alias(&["internal", "out"])}]
    });
    let argument = json!({ "x": link("x") });
    host.set("x", 4);
    host.run(Some(double), Some(argument), "other").unwrap();
    host.set("x", 5);
    assert_eq!(host.get("other"), Some(10.into()), "the space answers");
    host.stop("bomb");
    assert_eq!(host.running(), 1, "what it started is stopped with it");
}

#[test]
fn a_wave_with_very_much_to_do_is_done_in_slices_and_saved_once() {
    let runner = RecipeRunner::new(
        space("home"),
        modules(),
        Box::new(lope_reactive::javascript::JavaScript::default()),
    );
    let mut machine = SpaceMachine::new(space("home"), Spaces::default(), runner);
    let nodes = (0..3 * RUNS_PER_SLICE_MAX).map(|node| {
        json!({"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(&["argument", "x"])},
            "outputs": alias(&["internal", &node.to_string()])})
    });
    let nodes: Vec<serde_json::Value> = nodes.collect();
    let recipe = json!({"result": alias(&["internal"]), "nodes": nodes});
    let recipe = Recipe::parse(&recipe.into()).unwrap();
    let argument = Json::from(json!({"x": 4}));
    let mut transaction = machine.spaces().begin();
    let result = cell("result");
    let asked = RecipeRun::at(&result).recipe(&recipe).argument(&argument);
    machine.program().run(&mut transaction, asked).unwrap();
    let now = Timestamp::from_millis(0);
    let mut inputs = vec![SpaceInput::Edit {
        ticket: 1,
        transaction,
    }];
    let mut outputs = Vec::new();
    let mut slices = 1;
    while !machine.handle_slice(now, &mut inputs, &mut outputs) {
        assert!(outputs.is_empty(), "nothing is saved before it has settled");
        assert!(machine.is_settling() && !machine.is_idle(now));
        assert_eq!(machine.next_deadline(now), Some(now));
        slices += 1;
    }
    assert!(slices > 3, "{slices}");
    let saves = outputs.iter();
    let saves = saves.filter(|output| matches!(output, SpaceOutput::Save(_)));
    assert_eq!(saves.count(), 1);
    assert!(!machine.is_settling());
}

#[tokio::test]
async fn a_read_from_outside_beyond_a_bound_is_refused_and_a_part_of_it_is_not() {
    let tables = MemoryStore::open().tables;
    let store = SpaceStore::open(Arc::clone(&tables), space("home"));
    let store = store.await.unwrap();
    let mut spaces = Spaces::default();
    let mut links = Vec::new();
    for number in 0..=DOCUMENTS_MAX {
        set(&mut spaces, &format!("d{number}"), number as i64);
        links.push(link(&format!("d{number}")));
    }
    set(&mut spaces, "all", Json::array(links));
    crate::hosting::save_as_it_is(&tables, &spaces).await;
    let refused = store.read(&cell("all")).await.unwrap_err();
    assert!(matches!(refused, HostError::TooManyDocuments), "{refused}");
    assert!(refused.to_string().contains("DOCUMENTS_MAX"), "{refused}");
    let last = format!("all/{DOCUMENTS_MAX}");
    let part = store.read(&cell(&last)).await.unwrap();
    assert_eq!(part, Some((DOCUMENTS_MAX as i64).into()));
    assert_eq!(store.read(&cell("nobody")).await.unwrap(), None);
}

/// A document, a wave and a message to another space that would be too large to be saved.
#[test]
fn a_write_that_could_not_be_saved_is_refused_and_the_space_goes_on() {
    let mut host = Host::scripted();
    let handler = "({n, list, out}) => { if (n < 0) { list.set([]); return }; list.push('x'.repeat(n)); if (n === 7) out.send('x'.repeat(17000000)) }";
    let recipe = json!({
        "initial": {"internal": {"add": {"$stream": true}, "list": [], "far": {"/": {"link@1": {"space": "shop", "id": cell("shop:s").id.as_str()}}}}},
        "result": {"add": alias(&["internal", "add"]), "list": alias(&["internal", "list"]), "count": alias(&["internal", "count"])},
        "nodes": [
            {"module": {"type": "javascript", "implementation": handler,
                "argumentSchema": {"properties": {"n": true, "list": {"asCell": true}, "out": {"asCell": true}}}},
             "inputs": {"n": alias(&["internal", "add"]), "list": alias(&["internal", "list"]), "out": alias(&["internal", "far"])}, "outputs": {}},
            {"module": {"type": "javascript", "implementation": "({list}) => list.length"}, "inputs": {"list": alias(&["internal", "list"])},
             "outputs": alias(&["internal", "count"])}
        ]
    });
    host.run(Some(recipe), None, "r").unwrap();
    let add = cell("r/add");
    for _ in 0..2 {
        assert_eq!(host.send(&add, 8_000_000), EventOutcome::Handled);
    }
    let EventOutcome::Failed(failure) = host.send(&add, 8_000_000) else {
        panic!("it has room for 16 MiB");
    };
    assert_eq!(&*failure.kind, "Limit");
    assert!(failure.message.contains("DOCUMENT_MAX"), "{failure:?}");
    assert_eq!(
        host.get("r/count"),
        Some(2.into()),
        "nothing of it is there"
    );
    assert_eq!(host.send(&add, 7_000), EventOutcome::Handled);
    assert_eq!(host.get("r/count"), Some(3.into()));
    assert_eq!(host.send(&add, -1), EventOutcome::Handled);
    assert_eq!(host.send(&add, 8_000_000), EventOutcome::Handled);
    let EventOutcome::Failed(failure) = host.send(&add, 7) else {
        panic!("no message is so long");
    };
    assert!(failure.message.contains("POST_MAX"), "{failure:?}");
    assert_eq!(host.posts(), []);
}

/// What a function throws may be longer than any row.
#[test]
fn a_failure_that_says_very_much_is_cut() {
    let mut host = Host::scripted();
    let recipe = json!({
        "initial": {"internal": {"add": {"$stream": true}}},
        "result": {"add": alias(&["internal", "add"])},
        "nodes": [{"module": {"type": "javascript", "implementation": "({n}) => { throw new Error('x'.repeat(n)) }"},
            "inputs": {"n": alias(&["internal", "add"])}, "outputs": {}}]
    });
    host.run(Some(recipe), None, "r").unwrap();
    let EventOutcome::Failed(failure) = host.send(&cell("r/add"), 20_000_000) else {
        panic!("it throws");
    };
    assert_eq!(failure.message.len(), 8 * 1_024);
}

/// "once per request": what came of it and cannot be kept is an error, not pending for ever.
#[test]
fn an_effect_whose_result_is_too_large_for_its_cell_fails() {
    let mut host = Host::new();
    let recipe = json!({
        "initial": {"internal": {"text": "x".repeat(9_000_000)}},
        "result": alias(&["internal", "out"]),
        "nodes": [{"module": {"type": "ref", "implementation": "effect"}, "inputs": {"name": "fetch", "request": 1},
            "outputs": alias(&["internal", "out"])}]
    });
    host.run(Some(recipe), None, "r").unwrap();
    let key = host.outputs.iter().find_map(|output| match output {
        SpaceOutput::Effect(effect) => Some(effect.key.clone()),
        _ => None,
    });
    let action = SpaceAction::EffectDone {
        key: key.unwrap(),
        outcome: Ok("x".repeat(9_000_000).into()),
    };
    let id = "done".into();
    let command = Arrival::Command(SpaceCommand { id, action });
    host.turn(vec![SpaceInput::Arrived(command)]);
    let out = host.get("r").unwrap();
    assert_eq!(out.child("pending"), Some(&false.into()), "{out}");
    let error = out.child("error").unwrap();
    assert_eq!(error.child("type"), Some(&"Limit".into()), "{error}");
}
