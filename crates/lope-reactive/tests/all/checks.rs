//! What is wrong with a recipe, all of it, each with its place; and with links that people write.

use std::sync::Arc;

use lope_reactive::machine::{
    Arrival, EventOutcome, SpaceAction, SpaceCommand, SpaceInput, SpaceOutput,
};
use lope_reactive::{Json, Recipe};

use crate::fixture::{cell, json};
use crate::host::Host;

fn problems(node: serde_json::Value) -> Vec<String> {
    let document = json!({"nodes": [node], "result": 1});
    let problems = Recipe::problems(&document.into()).into_iter();
    problems.map(|problem| problem.to_string()).collect()
}

#[test]
fn what_is_wrong_with_a_node_hides_nothing_that_is_wrong_with_its_module() {
    let node = json!({"module": {"type": "javascrpt", "implementation": "x", "foo": 1}, "imputs": {}, "when": 1});
    let types = "javascript, native, raw, ref, passthrough, recipe, workflow";
    let fields = "it has module, inputs, outputs, name, description";
    let of_module = "it has type, implementation, wrapper, argumentSchema, resultSchema";
    assert_eq!(
        problems(node),
        [
            format!("/nodes/0/imputs: a node has no 'imputs'; {fields}"),
            format!("/nodes/0/when: a node has no 'when'; {fields}"),
            format!("/nodes/0/module/type: 'javascrpt' is no type of a module; there is {types}"),
            format!("/nodes/0/module/foo: a module has no 'foo'; {of_module}"),
        ]
    );
    let nested = json!({"nodes": [{"modul": 1}], "reslt": 1});
    let node = json!({"module": {"type": "recipe", "implementation": nested}, "imputs": {}});
    let of_recipe =
        "it has argumentSchema, resultSchema, initial, result, nodes, name, description";
    assert_eq!(
        problems(node),
        [
            format!("/nodes/0/imputs: a node has no 'imputs'; {fields}"),
            format!(
                "/nodes/0/module/implementation/nodes/0/modul: a node has no 'modul'; {fields}"
            ),
            "/nodes/0/module/implementation/nodes/0/module: a module expected".to_owned(),
            format!("/nodes/0/module/implementation/reslt: a recipe has no 'reslt'; {of_recipe}"),
        ]
    );
}

#[test]
fn a_module_without_implementation_is_told() {
    for kind in ["javascript", "native", "raw", "ref", "recipe", "workflow"] {
        assert_eq!(
            problems(json!({"module": {"type": kind}})),
            ["/nodes/0/module/implementation: missing: what the module does"],
            "{kind}"
        );
    }
    assert!(problems(json!({"module": {"type": "passthrough"}})).is_empty());
}

#[test]
fn a_built_in_that_lacks_an_input_is_told_unless_one_cell_holds_all_of_them() {
    let of = |name: &str, inputs: serde_json::Value| {
        problems(json!({"module": {"type": "ref", "implementation": name}, "inputs": inputs}))
    };
    let lacks = |name: &str, key: &str| format!("/nodes/0/inputs: `{name}` needs `{key}`");
    let op = json!({"nodes": [], "result": 1});
    assert_eq!(
        of("map", json!({"lst": [], "op": op})),
        [lacks("map", "list")]
    );
    assert_eq!(
        of("filter", json!(null)),
        [lacks("filter", "list"), lacks("filter", "op")]
    );
    assert_eq!(of("ifElse", json!({})), [lacks("ifElse", "condition")]);
    assert_eq!(
        of("effect", json!({"url": "http://a"})),
        [lacks("effect", "name"), lacks("effect", "request")]
    );
    assert!(of("map", json!({"$alias": "argument/all"})).is_empty());
    assert!(of("map", json!({"list": [], "op": {"$alias": "argument/op"}})).is_empty());
    assert!(of("one_of_ours", json!({})).is_empty());
}

#[test]
fn a_recipe_for_each_element_is_a_recipe_and_checked_like_one() {
    let of = |op: serde_json::Value| {
        let inputs = json!({"list": [], "op": op});
        problems(json!({"module": {"type": "ref", "implementation": "map"}, "inputs": inputs}))
    };
    assert_eq!(
        of(json!({"nodes": []})),
        ["/nodes/0/inputs/op: a recipe expected, with `nodes` and `result`"]
    );
    assert_eq!(
        of(json!({"nodes": [{"module": {"type": "javascript"}}], "result": {"$alias": "elsewhere"}})).len(),
        2
    );
}

#[test]
fn what_is_meant_as_a_link_and_is_none_is_refused_and_nothing_is_written() {
    let mut host = Host::new();
    let bad = Json::from(json!({"deep": {"/": {"link@1": {"path": [], "overwrite": "maybe"}}}}));
    let (at, elements) = (cell("doc"), vec![bad.clone()]);
    let result = at.clone();
    let actions = [
        SpaceAction::Set {
            at: at.clone(),
            value: Some(bad.clone()),
        },
        SpaceAction::Append {
            at: at.clone(),
            elements: elements.clone(),
        },
        SpaceAction::AddUnique { at, elements },
        SpaceAction::Run {
            result,
            recipe: Some(json!({"nodes": [], "result": 1}).into()),
            argument: Some(bad),
            strict: false,
        },
    ];
    for (number, action) in actions.into_iter().enumerate() {
        let id: Arc<str> = number.to_string().into();
        let command = SpaceCommand {
            id: Arc::clone(&id),
            action,
        };
        host.turn(vec![SpaceInput::Arrived(Arrival::Command(command))]);
        let outcome = host.outputs.iter().find_map(|output| match output {
            SpaceOutput::Receipt(receipt) if receipt.event == id => Some(&receipt.outcome),
            _ => None,
        });
        let Some(EventOutcome::Failed(failure)) = outcome else {
            panic!("{number}: {outcome:?}");
        };
        assert_eq!(
            failure.message,
            "'overwrite' of a link is \"redirect\" or nothing, not \"maybe\""
        );
        assert_eq!(host.get("doc"), None);
    }
}
