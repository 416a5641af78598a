//! The runner of recipes: process cells, updates in place, children, failures, restarts.

use lope_model::Failure;
use lope_reactive::machine::{EventOutcome, SpaceOutput};
use lope_reactive::runner::{RecipeError, RecipeOptions, RecipeRun, run_request};
use lope_reactive::{Json, Link, Projected, Recipe};

use crate::fixture::{cell, json, link};
use crate::host::Host;

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

fn native(name: &str, inputs: serde_json::Value, to: &str) -> serde_json::Value {
    let module = json!({"type": "native", "implementation": name});
    json!({"module": module, "inputs": inputs, "outputs": alias(&["internal", to])})
}

/// Doubles its argument `x`.
fn doubling() -> serde_json::Value {
    json!({
        "argumentSchema": {"type": "object", "properties": {"x": {"type": "number", "default": 4}}},
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [native("double", json!({"x": alias(&["argument", "x"])}), "out")]
    })
}

/// Adds up what it is sent, and shows twice the sum.
fn counter() -> serde_json::Value {
    json!({
        "initial": {"internal": {"stream": {"$stream": true}, "sum": 0}},
        "result": {"send": alias(&["internal", "stream"]), "sum": alias(&["internal", "sum"]), "twice": alias(&["internal", "twice"])},
        "nodes": [
            native("add", json!({"x": alias(&["internal", "stream"]), "y": alias(&["internal", "sum"])}), "sum"),
            native("double", json!({"x": alias(&["internal", "sum"])}), "twice")
        ]
    })
}

#[test]
fn the_life_of_a_process_cell() {
    let mut host = Host::new();
    // First run.
    let returned = host
        .run(Some(doubling()), Some(json!({"x": 1})), "result")
        .unwrap();
    assert_eq!(returned, cell("result"));
    assert_eq!(host.get("result"), Some(json!({"out": 2}).into()));
    let recipe = Recipe::parse(&doubling().into()).unwrap();
    assert_eq!(
        host.stored("result", "TYPE"),
        Some(recipe.id.clone().into())
    );
    let spell = Link::from_json(&host.stored("result", "spell").unwrap()).unwrap();
    let spell = spell.target(&host.process("result"));
    assert_eq!(
        host.machine.spaces().snapshot().at(&spell),
        Some(&recipe.document),
        "readable, and the recipe itself"
    );
    assert_eq!(
        host.stored("result", "argument"),
        Some(json!({"x": 1}).into())
    );
    let result_ref = Link::from_json(&host.stored("result", "resultRef").unwrap()).unwrap();
    assert_eq!(result_ref.target(&host.process("result")), cell("result"));
    let process = host.process("result");
    // The same again changes nothing.
    let revision = host
        .machine
        .spaces()
        .snapshot()
        .revision(&cell("result").space);
    host.run(Some(doubling()), Some(json!({"x": 1})), "result")
        .unwrap();
    host.run(None, None, "result").unwrap();
    assert_eq!(
        host.machine
            .spaces()
            .snapshot()
            .revision(&cell("result").space),
        revision
    );
    assert_eq!(host.runs("result"), 1, "no restart");
    // Another argument, with and without the recipe.
    host.run(None, Some(json!({"x": 2})), "result").unwrap();
    assert_eq!(
        (host.get("result/out"), host.runs("result")),
        (Some(4.into()), 2),
        "in place: the node ran once more"
    );
    host.run(Some(doubling()), Some(json!({})), "result")
        .unwrap();
    assert_eq!(
        (host.get("result/out"), host.runs("result")),
        (Some(8.into()), 3),
        "the default fills in"
    );
    // Another recipe.
    host.run(Some(counter()), Some(json!({})), "result")
        .unwrap();
    assert_eq!(host.get("result/sum"), Some(0.into()));
    assert_eq!(
        host.process("result"),
        process,
        "reused through the source link"
    );
    assert_eq!(
        host.stored("result", "internal").unwrap().child("out"),
        None,
        "internal state is seeded anew"
    );
    assert_ne!(host.stored("result", "TYPE"), Some(recipe.id.into()));
    assert_eq!(host.running(), 1);
}

#[test]
fn without_a_recorded_recipe_nothing_happens_and_the_result_cell_comes_back() {
    let mut host = Host::new();
    assert_eq!(
        host.run(None, Some(json!({"x": 1})), "result").unwrap(),
        cell("result")
    );
    assert_eq!((host.get("result"), host.running()), (None, 0));
    host.run(Some(doubling()), Some(json!({"x": 1})), "result")
        .unwrap();
    host.stop("result");
    assert_eq!(host.running(), 0);
    host.run(None, Some(json!({"x": 5})), "result").unwrap();
    assert_eq!(
        (host.get("result/out"), host.running()),
        (Some(10.into()), 1),
        "the recorded one is resumed"
    );
}

#[test]
fn a_recipe_whose_setup_fails_leaves_the_old_one_running() {
    let mut host = Host::new();
    host.run(Some(doubling()), Some(json!({"x": 1})), "result")
        .unwrap();
    let broken =
        json!({"result": {}, "nodes": [{"module": {"type": "ref", "implementation": "nobody"}}]});
    let recipe = Recipe::parse(&broken.into()).unwrap();
    let refused = host.edit(|runner, transaction| {
        let strict = RecipeOptions { strict: true };
        let result = cell("result");
        let run = RecipeRun::at(&result).recipe(&recipe);
        runner.run(transaction, run.options(strict))
    });
    assert_eq!(
        refused,
        Err(RecipeError::MissingModule {
            node: 0,
            name: "nobody".into()
        })
    );
    host.run(None, Some(json!({"x": 3})), "result").unwrap();
    assert_eq!(host.get("result/out"), Some(6.into()));
    for (bad, place) in [
        (json!({"nodes": 1}), "/nodes"),
        (json!({"nodes": [{}]}), "/nodes/0/module"),
        (
            json!({"nodes": [{"module": {"type": "odd"}}]}),
            "/nodes/0/module/type",
        ),
        (
            json!({"nodes": [{"module": {"type": "native"}}]}),
            "/nodes/0/module/implementation",
        ),
        (json!({"nodes": [], "node": []}), "/node"),
        (
            json!({"nodes": [{"module": {"type": "recipe", "implementation": {"nodes": 0}}}]}),
            "/nodes/0/module/implementation/nodes",
        ),
    ] {
        let error = Recipe::parse(&bad.into()).unwrap_err();
        assert_eq!(error.at.to_string(), place);
    }
}

#[test]
fn a_missing_module_is_a_warning_and_the_other_nodes_run() {
    let mut host = Host::new();
    let mut recipe = doubling();
    recipe["nodes"].as_array_mut().unwrap().insert(0, json!({
        "module": {"type": "ref", "implementation": "nobody"}, "inputs": {}, "outputs": alias(&["internal", "none"])}));
    recipe["nodes"].as_array_mut().unwrap().push(json!({
        "module": {"type": "ref", "implementation": "double"}, "inputs": {"x": 50}, "outputs": alias(&["internal", "more"])}));
    recipe["result"]["more"] = alias(&["internal", "more"]);
    host.run(Some(recipe), Some(json!({"x": 1})), "result")
        .unwrap();
    assert_eq!(
        host.get("result"),
        Some(json!({"out": 2, "more": 100}).into()),
        "a name that is known is resolved"
    );
    let warning = host.stored("result", "warnings").unwrap();
    assert!(
        warning
            .child("0")
            .and_then(Json::as_str)
            .unwrap()
            .contains("'nobody'")
    );
}

#[test]
fn linked_arguments_are_followed_both_ways_also_after_a_restart() {
    let mut host = Host::new();
    host.set("source", json!({"n": 3, "seen": 0}));
    let recipe = json!({
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [
            native("double", json!({"x": alias(&["argument", "x"])}), "out"),
            {"module": {"type": "native", "implementation": "double"}, "inputs": {"x": alias(&["argument", "x"])},
             "outputs": alias(&["argument", "back"])}
        ]
    });
    let mut with_back = recipe.clone();
    with_back["result"]["back"] = alias(&["argument", "back"]);
    host.run(
        Some(with_back),
        Some(json!({"x": link("source/n"), "back": link("source/seen")})),
        "result",
    )
    .unwrap();
    let argument = host.stored("result", "argument").unwrap();
    assert!(
        Link::from_json(argument.child("x").unwrap())
            .unwrap()
            .redirect
    );
    assert_eq!(host.get("result/out"), Some(6.into()));
    assert_eq!(host.get("source/seen"), Some(6.into()), "writes flow back");
    host.set("source/n", 4);
    assert_eq!(
        (host.get("result/out"), host.get("source/seen")),
        (Some(8.into()), Some(8.into()))
    );
    let mut host = host.restarted();
    host.set("source/n", 5);
    assert_eq!(
        (host.get("result/out"), host.get("source/seen")),
        (Some(10.into()), Some(10.into()))
    );
    host.run(None, Some(json!({"x": 1, "back": 0})), "result")
        .unwrap();
    assert_eq!(
        host.get("source/n"),
        Some(5.into()),
        "another argument replaces the link, it does not write through it"
    );
    host.run(
        None,
        Some(json!({"/": {"link@1": {"id": cell("all").id.as_str()}}})),
        "result",
    )
    .unwrap();
    host.set("all", json!({"x": 100}));
    assert_eq!(
        host.get("result/out"),
        Some(200.into()),
        "the whole argument may be a link"
    );
}

#[test]
fn internal_state_is_defaults_then_initial_then_what_was_stored_and_separate_per_instance() {
    let mut host = Host::new();
    let recipe = json!({
        "argumentSchema": {"type": "object", "properties": {"internal": {"type": "object", "properties": {
            "a": {"default": 1}, "b": {"default": 1}, "c": {"default": 1}}}}},
        "initial": {"internal": {"b": 2, "c": 2, "list": [1]}},
        "result": {"$alias": {"path": ["internal"]}}, "nodes": []
    });
    host.run(Some(recipe.clone()), None, "one").unwrap();
    host.run(Some(recipe.clone()), None, "two").unwrap();
    assert_eq!(
        host.get("one"),
        Some(json!({"a": 1, "b": 2, "c": 2, "list": [1]}).into())
    );
    host.set("one/c", 3);
    host.set("one/list", json!([1, 2]));
    host.stop("one");
    host.run(Some(recipe), None, "one").unwrap();
    assert_eq!(
        host.get("one"),
        Some(json!({"a": 1, "b": 2, "c": 3, "list": [1, 2]}).into())
    );
    assert_eq!(
        host.get("two"),
        Some(json!({"a": 1, "b": 2, "c": 2, "list": [1]}).into())
    );
}

/// "defaults fill in, nested, and are copied per instance"
#[test]
fn defaults_of_an_argument_are_copied_per_instance() {
    let mut host = Host::new();
    let recipe = json!({
        "argumentSchema": {"type": "object", "properties": {"conf": {"type": "object", "properties": {
            "depth": {"default": 2}, "list": {"default": [1]}, "deep": {"type": "object", "properties": {"x": {"default": 1}}}}}}},
        "result": {"conf": alias(&["argument", "conf"])}, "nodes": []
    });
    let fresh = || {
        Some(Json::from(
            json!({"depth": 2, "list": [1], "deep": {"x": 1}}),
        ))
    };
    for result in ["one", "two"] {
        host.run(Some(recipe.clone()), None, result).unwrap();
        assert_eq!(host.get(&format!("{result}/conf")), fresh());
    }
    host.set("one/conf/list", json!([1, 2]));
    host.set("one/conf/deep/x", 5);
    let changed = json!({"depth": 2, "list": [1, 2], "deep": {"x": 5}});
    assert_eq!(host.get("one/conf"), Some(changed.into()));
    host.run(Some(recipe), Some(json!({"conf": {"depth": 7}})), "three")
        .unwrap();
    assert_eq!(host.get("two/conf"), fresh());
    let filled = json!({"depth": 7, "list": [1], "deep": {"x": 1}});
    assert_eq!(host.get("three/conf"), Some(filled.into()));
}

#[test]
fn an_event_runs_its_handler_with_the_event_in_place_of_the_stream() {
    let mut host = Host::new();
    host.run(Some(counter()), None, "result").unwrap();
    for (payload, sum) in [(5, 5), (7, 12)] {
        assert_eq!(
            host.send(&cell("result/send"), payload),
            EventOutcome::Handled
        );
        assert_eq!(
            (host.get("result/sum"), host.get("result/twice")),
            (Some(sum.into()), Some((sum * 2).into()))
        );
    }
    let mut host = host.restarted();
    host.send(&cell("result/send"), 1);
    assert_eq!(
        host.get("result/sum"),
        Some(13.into()),
        "state and handler are there after a restart"
    );
    host.stop("result");
    host.now = host.now.plus(lope_model::Span::from_millis(1));
    let before = host.get("result/sum");
    host.set("elsewhere", 1);
    assert_eq!(host.get("result/sum"), before);
}

#[test]
fn the_handler_wrapper_gets_event_and_context() {
    let mut host = Host::new();
    host.machine.with_program(|runner, spaces, nodes| {
        runner.change_modules(spaces, nodes, |modules| {
            modules.native("push", |argument, transaction| {
                let Projected::Array(parts) = argument else {
                    return Err(Failure::new("TypeError", "two arguments"));
                };
                let (Projected::Plain(event), Projected::Object(context)) = (&parts[0], &parts[1])
                else {
                    return Err(Failure::new("TypeError", "an event and cells"));
                };
                let Projected::Cell(log) = &context["log"] else {
                    return Err(Failure::new("TypeError", "a cell"));
                };
                transaction
                    .append(&log.address, std::slice::from_ref(event))
                    .unwrap();
                Ok(None)
            });
        });
    });
    let recipe = json!({
        "initial": {"internal": {"s": {"$stream": true}, "log": []}},
        "result": {"s": alias(&["internal", "s"]), "log": alias(&["internal", "log"])},
        "nodes": [{
            "module": {"type": "native", "implementation": "push", "wrapper": "handler",
                "argumentSchema": {"properties": {"log": {"asCell": true}}}},
            "inputs": {"$event": alias(&["internal", "s"]), "$ctx": {"log": alias(&["internal", "log"])}}, "outputs": {}
        }]
    });
    host.run(Some(recipe), None, "result").unwrap();
    assert_eq!(
        host.send(&cell("result/s"), json!({"n": 1})),
        EventOutcome::Handled
    );
    assert_eq!(host.send(&cell("result/s"), "two"), EventOutcome::Handled);
    assert_eq!(
        host.get("result/log"),
        Some(json!([{"n": 1}, "two"]).into())
    );
}

fn nesting() -> serde_json::Value {
    json!({
        "result": {"nested": alias(&["internal", "nested"]), "more": alias(&["internal", "more"])},
        "nodes": [
            {"module": {"type": "recipe", "implementation": doubling()}, "inputs": {"x": alias(&["argument", "x"])},
             "outputs": alias(&["internal", "nested"])},
            native("double", json!({"x": alias(&["internal", "nested", "out"])}), "more")
        ]
    })
}

#[test]
fn a_nested_recipe_has_a_result_cell_of_its_own_and_the_output_links_to_it() {
    let mut host = Host::new();
    host.run(Some(nesting()), Some(json!({"x": 3})), "result")
        .unwrap();
    assert_eq!(
        host.get("result"),
        Some(json!({"nested": {"out": 6}, "more": 12}).into())
    );
    let output = host.stored("result", "internal").unwrap();
    let child = Link::from_json(output.child("nested").unwrap())
        .unwrap()
        .target(&cell("result"));
    assert_eq!(
        host.get_at(&child.key("out")),
        Some(6.into()),
        "a consumer may read the child's result cell"
    );
    assert_eq!(host.running(), 2);
    host.run(None, Some(json!({"x": 5})), "result").unwrap();
    assert_eq!(host.get("result/more"), Some(20.into()));
    let mut host = host.restarted();
    assert_eq!(host.running(), 2);
    host.run(None, Some(json!({"x": 6})), "result").unwrap();
    assert_eq!(host.get("result/more"), Some(24.into()));
    host.run(Some(doubling()), Some(json!({"x": 1})), "result")
        .unwrap();
    assert_eq!(
        (host.running(), host.get("result")),
        (1, Some(json!({"out": 2}).into())),
        "the old child went with the old recipe"
    );
    host.stop("result");
    assert_eq!(host.running(), 0);
}

#[test]
fn stopping_a_parent_stops_its_children_unless_they_were_started_in_their_own_right() {
    let mut host = Host::new();
    host.run(Some(nesting()), Some(json!({"x": 3})), "result")
        .unwrap();
    let output = host.stored("result", "internal").unwrap();
    let child = Link::from_json(output.child("nested").unwrap())
        .unwrap()
        .target(&cell("result"));
    host.stop("result");
    assert_eq!(host.running(), 0, "the child stopped with it");
    host.run(None, None, "result").unwrap();
    host.edit(|runner, transaction| {
        runner.run(transaction, RecipeRun::at(&child)).unwrap();
    });
    host.stop("result");
    assert_eq!(host.running(), 1, "elevated");
    host.set("elsewhere", 1);
    let process = lope_reactive::process::process_of(&host.machine.spaces().begin(), &child);
    host.edit(|_, transaction| {
        let argument = process.key("argument").key("x");
        lope_cells::write::replace(transaction, &argument, &10.into()).unwrap();
    });
    assert_eq!(
        host.get_at(&child.key("out")),
        Some(20.into()),
        "and it goes on"
    );
}

#[test]
fn a_run_request_in_a_result_starts_a_child_that_is_kept_while_it_is_asked_for() {
    let mut host = Host::new();
    host.machine.with_program(|runner, spaces, nodes| {
        runner.change_modules(spaces, nodes, |modules| {
            modules.function("ask", |value| {
                let x = value.child("x").and_then(Json::as_int).unwrap_or(0);
                let child = |n: i64| run_request(doubling().into(), json!({"x": n}).into(), None);
                Ok(Some(Json::array((0..x).map(child))))
            });
        });
    });
    let recipe = json!({
        "result": {"list": alias(&["internal", "list"])},
        "nodes": [native("ask", json!({"x": alias(&["argument", "x"])}), "list")]
    });
    host.run(Some(recipe), Some(json!({"x": 2})), "result")
        .unwrap();
    assert_eq!(
        host.get("result"),
        Some(json!({"list": [{"out": 0}, {"out": 2}]}).into())
    );
    assert_eq!(host.running(), 3);
    host.run(None, Some(json!({"x": 3})), "result").unwrap();
    assert_eq!(
        host.get("result/list"),
        Some(json!([{"out": 0}, {"out": 2}, {"out": 4}]).into())
    );
    assert_eq!(host.running(), 4, "those that were there are kept");
    host.run(None, Some(json!({"x": 1})), "result").unwrap();
    assert_eq!(
        (host.get("result/list"), host.running()),
        (Some(json!([{"out": 0}]).into()), 2)
    );
    host.stop("result");
    assert_eq!(host.running(), 0);
}

#[test]
fn a_recipe_that_starts_itself_ends_with_an_error() {
    let mut host = Host::new();
    host.machine.with_program(|runner, spaces, nodes| {
        runner.change_modules(spaces, nodes, |modules| {
            modules.function("again", |value| {
                let me = value.child("me").cloned().unwrap_or_default();
                Ok(Some(run_request(
                    me.clone(),
                    Json::object([("me", me)]),
                    None,
                )))
            });
        });
    });
    let recipe = json!({
        "result": {"next": alias(&["internal", "next"])},
        "nodes": [native("again", json!({"me": alias(&["argument", "me"])}), "next")]
    });
    host.run(Some(recipe.clone()), Some(json!({"me": recipe})), "result")
        .unwrap();
    let deep = |output: &SpaceOutput| matches!(output, SpaceOutput::Failed { failure, .. } if failure.message.contains("deep"));
    assert!(host.outputs.iter().any(deep));
    assert_eq!(host.running(), lope_reactive::limit::PROCESS_DEPTH_MAX + 1);
}

#[test]
fn a_failing_node_is_recorded_on_the_process_cell_and_recovers() {
    let mut host = Host::new();
    let recipe = json!({
        "result": {"out": alias(&["internal", "out"]), "more": alias(&["internal", "more"])},
        "nodes": [
            native("positive", json!({"x": alias(&["argument", "x"])}), "out"),
            native("double", json!({"x": alias(&["argument", "y"])}), "more")
        ]
    });
    host.run(Some(recipe), Some(json!({"x": 1, "y": 1})), "result")
        .unwrap();
    host.run(None, Some(json!({"x": -1, "y": 2})), "result")
        .unwrap();
    assert_eq!(
        host.get("result"),
        Some(json!({"more": 4}).into()),
        "the other node is unharmed"
    );
    assert_eq!(
        host.stored("result", "errors"),
        Some(json!({"0": {"type": "Negative", "message": "below zero"}}).into())
    );
    host.run(None, Some(json!({"x": 2, "y": 2})), "result")
        .unwrap();
    assert_eq!(
        host.get("result"),
        Some(json!({"out": 2, "more": 4}).into())
    );
    assert_eq!(host.stored("result", "errors"), Some(json!({}).into()));
}

#[test]
fn a_passthrough_forwards_its_inputs() {
    let mut host = Host::new();
    let recipe = json!({
        "result": {"both": alias(&["internal", "both"])},
        "nodes": [{"module": {"type": "passthrough"}, "inputs": {"x": alias(&["argument", "x"]), "k": 7},
            "outputs": alias(&["internal", "both"])}]
    });
    host.run(Some(recipe), Some(json!({"x": 1})), "result")
        .unwrap();
    assert_eq!(
        host.get("result"),
        Some(json!({"both": {"x": 1, "k": 7}}).into())
    );
    host.run(None, Some(json!({"x": 2})), "result").unwrap();
    assert_eq!(host.get("result/both/x"), Some(2.into()));
}

#[test]
fn if_else_computes_the_selected_branch_only() {
    let mut host = Host::new();
    let recipe = json!({
        "result": {"chosen": alias(&["internal", "chosen"])},
        "nodes": [
            native("double", json!({"x": alias(&["argument", "x"])}), "yes"),
            native("positive", json!({"x": alias(&["argument", "x"])}), "no"),
            {"module": {"type": "ref", "implementation": "ifElse"},
             "inputs": {"condition": alias(&["argument", "c"]), "ifTrue": alias(&["internal", "yes"]), "ifFalse": alias(&["internal", "no"])},
             "outputs": alias(&["internal", "chosen"])}
        ]
    });
    host.run(Some(recipe), Some(json!({"x": -4, "c": true})), "result")
        .unwrap();
    assert_eq!(host.get("result/chosen"), Some((-8).into()));
    assert_eq!(
        host.stored("result", "errors"),
        None,
        "the other branch would have failed"
    );
    host.run(None, Some(json!({"x": 5, "c": true})), "result")
        .unwrap();
    host.run(None, Some(json!({"x": 5, "c": false})), "result")
        .unwrap();
    assert_eq!(host.get("result/chosen"), Some(5.into()));
    host.run(None, Some(json!({"x": 6, "c": false})), "result")
        .unwrap();
    assert_eq!(host.get("result/chosen"), Some(6.into()));
    let internal = host.stored("result", "internal").unwrap();
    assert_eq!(internal.child("yes"), Some(&10.into()), "left as it was");
}

fn mapping(module: &str, op: serde_json::Value) -> serde_json::Value {
    json!({
        "result": {"list": alias(&["internal", "list"])},
        "nodes": [{"module": {"type": "ref", "implementation": module},
            "inputs": {"list": alias(&["argument", "items"]), "op": op}, "outputs": alias(&["internal", "list"])}]
    })
}

fn of_element(name: &str) -> serde_json::Value {
    json!({
        "result": alias(&["internal", "out"]),
        "nodes": [native(name, json!({"x": alias(&["argument", "element", "n"])}), "out")]
    })
}

#[test]
fn map_keeps_a_child_per_element_by_its_identity() {
    let mut host = Host::new();
    let item = |id: &str, n: i64| json!({"id": id, "n": n});
    host.set("items", json!([item("a", 1), item("b", 2)]));
    host.run(
        Some(mapping("map", of_element("double"))),
        Some(json!({"items": link("items")})),
        "result",
    )
    .unwrap();
    assert_eq!(host.get("result/list"), Some(json!([2, 4]).into()));
    let before: Vec<_> = host.machine.program().running().cloned().collect();
    host.set(
        "items",
        json!([item("b", 2), item("new", 10), item("a", 1)]),
    );
    assert_eq!(host.get("result/list"), Some(json!([4, 20, 2]).into()));
    let after: Vec<_> = host.machine.program().running().cloned().collect();
    assert!(
        before.iter().all(|process| after.contains(process)) && after.len() == 4,
        "a reorder keeps the children"
    );
    host.set("items/0/n", 50);
    assert_eq!(host.get("result/list"), Some(json!([100, 20, 2]).into()));
    host.set("items", json!([item("a", 1)]));
    assert_eq!(
        (host.get("result/list"), host.running()),
        (Some(json!([2]).into()), 2)
    );
}

#[test]
fn what_map_started_for_an_element_goes_on_where_it_was_when_the_element_comes_back() {
    let mut host = Host::new();
    let item = |id: &str| json!({"id": id, "n": 0});
    let counting = json!({
        "initial": {"internal": {"count": 0}},
        "result": {"count": alias(&["internal", "count"])},
        "nodes": [native("double", json!({"x": alias(&["argument", "element", "n"])}), "out")]
    });
    host.set("items", json!([item("a"), item("b")]));
    let argument = json!({"items": link("items")});
    host.run(Some(mapping("map", counting)), Some(argument), "result")
        .unwrap();
    host.set("result/list/1/count", 9);
    for gone in [json!([item("a")]), json!("no list at all")] {
        host.set("items", gone);
        host.set("items", json!([item("b"), item("a")]));
        assert_eq!(host.get("result/list/0/count"), Some(9.into()));
        assert_eq!(host.get("result/list/1/count"), Some(0.into()));
    }
}

#[test]
fn filter_keeps_the_elements_for_which_the_recipe_says_so() {
    let mut host = Host::new();
    let items =
        |numbers: &[i64]| json!(numbers.iter().map(|n| json!({"n": n})).collect::<Vec<_>>());
    host.set("items", items(&[5, 50, 7, 70]));
    host.run(
        Some(mapping("filter", of_element("isBig"))),
        Some(json!({"items": link("items")})),
        "result",
    )
    .unwrap();
    assert_eq!(host.get("result/list"), Some(items(&[50, 70]).into()));
    host.set("items/0/n", 500);
    assert_eq!(host.get("result/list"), Some(items(&[500, 50, 70]).into()));
    host.set("items", items(&[1]));
    assert_eq!(host.get("result/list"), Some(items(&[]).into()));
}

#[test]
fn filter_waits_for_all_that_it_asked_and_runs_once_for_them() {
    let mut host = Host::new();
    let items = |from: i64, to: i64| json!((from..to).map(|n| json!({"n": n})).collect::<Vec<_>>());
    host.set("items", items(0, 300));
    let argument = json!({"items": link("items")});
    let filter = mapping("filter", of_element("isBig"));
    host.run(Some(filter), Some(argument), "result").unwrap();
    assert_eq!(host.get("result/list"), Some(items(11, 300).into()));
    let runs = |host: &mut Host| {
        let reports = host
            .machine
            .with_program(|runner, spaces, nodes| runner.report(spaces, nodes));
        let root = reports.iter().find(|report| report.parent.is_none());
        let filter = root.unwrap().nodes[0].clone();
        assert!(filter.writes.len() < 5, "{:?}", filter.writes);
        filter.runs
    };
    // To ask, and to hear the answers.
    assert_eq!(runs(&mut host), 2);
    host.set("items", items(5, 305));
    assert_eq!(host.get("result/list"), Some(items(11, 305).into()));
    assert!(runs(&mut host) <= 5, "{}", runs(&mut host));
    let is_report = |output: &SpaceOutput| matches!(output, SpaceOutput::NonSettling(_));
    assert!(!host.outputs.iter().any(is_report));
}

#[test]
fn a_changed_module_is_used_from_then_on() {
    let mut host = Host::new();
    host.run(Some(doubling()), Some(json!({"x": 3})), "result")
        .unwrap();
    host.machine.with_program(|runner, spaces, nodes| {
        runner.change_modules(spaces, nodes, |modules| {
            modules.function("double", |_| Ok(Some("other".into())));
        });
    });
    host.turn(Vec::new());
    assert_eq!(host.get("result/out"), Some("other".into()));
}

#[test]
fn an_edited_recipe_is_another_one_and_cell_ids_do_not_depend_on_it() {
    let one = Recipe::parse(&doubling().into()).unwrap();
    let same = Recipe::parse(&Json::parse(&doubling().to_string()).unwrap()).unwrap();
    let mut edited = doubling();
    edited["result"]["more"] = json!(1);
    assert_eq!(one.id, same.id);
    assert_ne!(one.id, Recipe::parse(&edited.clone().into()).unwrap().id);
    let mut host = Host::new();
    host.run(Some(nesting()), Some(json!({"x": 1})), "result")
        .unwrap();
    let ids = |host: &Host| {
        let space = cell("result").space;
        let known = host
            .machine
            .spaces()
            .snapshot()
            .documents(&space)
            .into_keys()
            .cloned();
        known.collect::<std::collections::BTreeSet<_>>()
    };
    let before = ids(&host);
    let mut other = nesting();
    other["nodes"][0]["module"]["implementation"] = edited;
    host.run(Some(other), Some(json!({"x": 1})), "result")
        .unwrap();
    assert_eq!(
        ids(&host).difference(&before).count(),
        2,
        "only the two recipes' own documents"
    );
}

#[test]
fn an_uncommitted_run_has_started_nothing() {
    let mut host = Host::new();
    let recipe = Recipe::parse(&doubling().into()).unwrap();
    let mut transaction = host.machine.spaces().begin();
    host.machine
        .program()
        .run(
            &mut transaction,
            RecipeRun::at(&cell("result")).recipe(&recipe),
        )
        .unwrap();
    transaction.abort();
    host.turn(Vec::new());
    assert_eq!((host.running(), host.get("result")), (0, None));
}

#[test]
fn a_cyclic_recipe_is_reported_and_the_rest_of_the_space_stays_responsive() {
    let mut host = Host::new();
    let cyclic = json!({
        "result": {"a": alias(&["internal", "a"])},
        "nodes": [
            native("add", json!({"x": alias(&["internal", "b"]), "y": 1}), "a"),
            native("add", json!({"x": alias(&["internal", "a"]), "y": 1}), "b")
        ]
    });
    host.run(Some(doubling()), Some(json!({"x": 1})), "fine")
        .unwrap();
    host.run(Some(cyclic), None, "result").unwrap();
    let result = cell("result");
    let nodes: Vec<_> = host.machine.with_program(|runner, spaces, _| {
        runner
            .nodes_of(&result, &spaces.begin())
            .into_iter()
            .map(|(_, key)| key)
            .collect()
    });
    let report = host.outputs.iter().find_map(|output| match output {
        SpaceOutput::NonSettling(report) => Some(report.clone()),
        _ => None,
    });
    let report = report.unwrap();
    assert_eq!(
        report.cycle.into_iter().collect::<Vec<_>>(),
        nodes,
        "which nodes"
    );
    assert!(
        report.reason.unwrap().to_string().contains("changed"),
        "and why"
    );
    let why = host.machine.nodes().why(report.node).unwrap();
    assert_eq!(why.waits_until, Some(report.until));
    host.run(None, Some(json!({"x": 21})), "fine").unwrap();
    assert_eq!(host.get("fine/out"), Some(42.into()));
    host.stop("result");
    assert_eq!(
        host.machine.next_deadline(host.now),
        None,
        "nothing is left of it"
    );
}

#[test]
fn a_recipe_with_a_list_of_things_with_ids_is_stored_as_it_is() {
    let mut host = Host::new();
    let mut recipe = doubling();
    recipe["nodes"].as_array_mut().unwrap().push(json!({
        "module": {"type": "passthrough"}, "inputs": [{"id": "a", "n": 1}, {"id": "b", "n": 2}],
        "outputs": alias(&["internal", "list"])}));
    recipe["result"]["list"] = alias(&["internal", "list"]);
    host.run(Some(recipe), Some(json!({"x": 1})), "result")
        .unwrap();
    let list = json!([{"id": "a", "n": 1}, {"id": "b", "n": 2}]);
    assert_eq!(host.get("result/list"), Some(list.clone().into()));
    let id = host.stored("result", "TYPE").unwrap();
    let stored = Recipe::stored_as(id.as_str().unwrap());
    let stored = host
        .machine
        .spaces()
        .snapshot()
        .document(&cell("result").space, &stored);
    assert_eq!(
        Recipe::parse(stored.unwrap()).unwrap().id,
        id.as_str().unwrap().into()
    );
    let mut host = host.restarted();
    host.run(None, Some(json!({"x": 2})), "result").unwrap();
    assert_eq!(
        (host.get("result/out"), host.running()),
        (Some(4.into()), 1)
    );
    assert_eq!(host.get("result/list"), Some(list.into()));
    assert_eq!(host.runs("result"), 2, "each node once");
}

#[test]
fn an_event_that_came_before_its_recipe_is_handled_once_it_runs() {
    let mut host = Host::new();
    let early = lope_reactive::machine::StreamEvent {
        id: "early".into(),
        stream: cell("result/send"),
        payload: 5.into(),
    };
    host.turn(vec![early.into()]);
    host.run(Some(counter()), None, "result").unwrap();
    assert_eq!(
        host.get("result/sum"),
        Some(5.into()),
        "its stream is there by now"
    );
    // The cell that leads to it holds something else for a while; the handler stays.
    host.set("result", 7);
    let later = lope_reactive::machine::StreamEvent {
        id: "later".into(),
        stream: cell("result/send"),
        payload: 4.into(),
    };
    host.turn(vec![later.into()]);
    host.run(Some(counter()), None, "result").unwrap();
    assert_eq!(
        host.get("result/sum"),
        Some(9.into()),
        "its stream is there again"
    );
}

/// "A result that contains a run request … starts a child owned by that node", and every event is another one.
#[test]
fn each_event_starts_a_child_of_its_own() {
    let mut host = Host::scripted();
    let child = json!({
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [native("double", json!({"x": alias(&["argument", "x"])}), "out")]
    });
    let source = "({ event, key, child }) => ({ list: [run(child, { x: event }, key)] })";
    let recipe = |key: Option<&str>| {
        json!({
            "initial": {"internal": {"stream": {"$stream": true}}},
            "result": {"send": alias(&["internal", "stream"]), "last": alias(&["internal", "last"])},
            "nodes": [{"module": {"type": "javascript", "implementation": source},
                "inputs": {"event": alias(&["internal", "stream"]), "key": key, "child": child}, "outputs": alias(&["internal", "last"])}]
        })
    };
    let unnamed = source
        .replace("key, child }", "child }")
        .replace(", key)", ")");
    let mut first = recipe(None);
    first["nodes"][0]["module"]["implementation"] = unnamed.into();
    host.run(Some(first), None, "result").unwrap();
    let mut links = Vec::new();
    for x in [1, 2, 3] {
        assert_eq!(host.send(&cell("result/send"), x), EventOutcome::Handled);
        assert_eq!(host.get("result/last/list/0/out"), Some((2 * x).into()));
        links.push(
            host.stored("result", "internal")
                .unwrap()
                .child("last")
                .cloned(),
        );
    }
    assert_eq!(host.running(), 4, "each has a child of its own");
    assert!(links[0] != links[1] && links[1] != links[2]);
    // One that has a key keeps the same child.
    host.run(Some(recipe(Some("k"))), None, "other").unwrap();
    for x in [1, 2] {
        assert_eq!(host.send(&cell("other/send"), x), EventOutcome::Handled);
    }
    assert_eq!(host.running(), 6);
}
