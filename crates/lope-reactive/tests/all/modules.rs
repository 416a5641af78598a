//! What nodes are made of: modules that are missing, raw modules, functions that are not what they
//! seem, recipes that are met as values.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use lope_model::Failure;
use lope_reactive::javascript::{JavaScript, ScriptHost};
use lope_reactive::module::{ChildRequest, Modules};
use lope_reactive::runner::{RecipeError, RecipeOptions, RecipeRun, run_request};
use lope_reactive::{Json, Link, Projected, Recipe, Spaces, Transaction};

use crate::fixture::{cell, json, link};
use crate::host::Host;

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

fn node(kind: &str, name: &str, inputs: serde_json::Value, to: &str) -> serde_json::Value {
    json!({"module": {"type": kind, "implementation": name}, "inputs": inputs, "outputs": alias(&["internal", to])})
}

/// A recipe that shows the cells of these nodes by name.
fn recipe(nodes: &[(&str, serde_json::Value)]) -> serde_json::Value {
    let shown = nodes
        .iter()
        .map(|(name, _)| ((*name).to_owned(), alias(&["internal", name])));
    let nodes: Vec<&serde_json::Value> = nodes.iter().map(|(_, node)| node).collect();
    json!({"result": serde_json::Value::Object(shown.collect()), "nodes": nodes})
}

fn with_modules(host: &mut Host, change: impl FnOnce(&mut Modules)) {
    host.machine
        .with_program(|runner, spaces, nodes| runner.change_modules(spaces, nodes, change));
}

/// "`ref` (missing → a warning on the process cell, that node skipped, the others run; `--strict`
/// fails)"
#[test]
fn a_missing_module_leaves_its_node_out_with_a_warning_and_fails_a_strict_run() {
    let mut host = Host::new();
    let lame = recipe(&[
        ("none", node("ref", "nobody", json!({}), "none")),
        (
            "out",
            node(
                "ref",
                "double",
                json!({"x": alias(&["argument", "x"])}),
                "out",
            ),
        ),
    ]);
    let known = Recipe::parse(&lame.clone().into()).unwrap();
    let strict = RecipeOptions { strict: true };
    let argument: Json = json!({"x": 4}).into();
    let before = host
        .machine
        .spaces()
        .snapshot()
        .documents(&cell("result").space)
        .len();
    let mut transaction = host.machine.spaces().begin();
    let result = cell("result");
    let run = RecipeRun::at(&result).recipe(&known).argument(&argument);
    let refused = host
        .machine
        .program()
        .run(&mut transaction, run.options(strict));
    let expected = RecipeError::MissingModule {
        node: 0,
        name: "nobody".into(),
    };
    assert_eq!(refused, Err(expected));
    assert!(
        transaction.operations().is_empty(),
        "nothing is half written"
    );
    let after = host
        .machine
        .spaces()
        .snapshot()
        .documents(&cell("result").space)
        .len();
    assert_eq!((before, host.running()), (after, 0));
    host.run(Some(lame), Some(json!({"x": 4})), "result")
        .unwrap();
    assert_eq!(host.get("result"), Some(json!({"out": 8}).into()));
    let warnings = host.stored("result", "warnings").unwrap();
    assert_eq!(
        warnings,
        json!({"0": "'nobody' is no module; the node is left out"}).into()
    );
    with_modules(&mut host, |modules| {
        modules.function("nobody", |_| Ok(Some(1.into())));
    });
    host.run(None, None, "result").unwrap();
    assert_eq!(
        host.get("result"),
        Some(json!({"none": 1, "out": 8}).into())
    );
    assert_eq!(
        host.stored("result", "warnings"),
        None,
        "it is not missing any more"
    );
}

/// A strict run of a nested recipe fails as a whole.
#[test]
fn a_module_that_is_missing_in_a_nested_recipe_fails_a_strict_run_too() {
    let mut host = Host::new();
    let inner = recipe(&[("none", node("ref", "nobody", json!({}), "none"))]);
    let outer = json!({"result": {}, "nodes": [
        {"module": {"type": "recipe", "implementation": inner}, "inputs": {}, "outputs": alias(&["internal", "inner"])}]});
    let outer = Recipe::parse(&outer.into()).unwrap();
    let mut transaction = host.machine.spaces().begin();
    let strict = RecipeOptions { strict: true };
    let result = cell("result");
    let run = RecipeRun::at(&result).recipe(&outer);
    let refused = host
        .machine
        .program()
        .run(&mut transaction, run.options(strict));
    assert!(
        matches!(refused, Err(RecipeError::MissingModule { .. })),
        "{refused:?}"
    );
}

/// "raw": a module sees cells instead of values, depends on what it looks at and on nothing else,
/// and may hand on a cell, start children and fail like any other.
#[test]
fn a_raw_module_sees_cells_and_depends_on_what_it_looks_at() {
    let mut host = Host::new();
    with_modules(&mut host, |modules| {
        modules.raw("choose", |call| {
            let target = |name: &str| {
                let link = call.inputs.child(name).and_then(Link::from_json);
                link.map(|link| link.target(call.base)).unwrap()
            };
            let which = target("which");
            let left = target("left");
            let right = target("right");
            let chosen = match call.transaction.get(&which) {
                Some(Json::Bool(true)) => left,
                Some(Json::Bool(false)) => right,
                _ => return Err(Failure::new("Undecided", "neither")),
            };
            // The cell itself, not its value.
            Ok(Some(
                Link::to(&chosen, call.base).absolute(call.base).to_json(),
            ))
        });
    });
    host.set("which", true);
    host.set("left", 1);
    host.set("right", 2);
    let inputs = json!({"which": alias(&["argument", "which"]), "left": alias(&["argument", "left"]),
        "right": alias(&["argument", "right"])});
    let choosing = recipe(&[("out", node("raw", "choose", inputs, "out"))]);
    let argument = json!({"which": serde_json::to_value(link("which")).unwrap(),
        "left": serde_json::to_value(link("left")).unwrap(), "right": serde_json::to_value(link("right")).unwrap()});
    host.run(Some(choosing), Some(argument), "result").unwrap();
    assert_eq!(
        (host.get("result/out"), host.runs("result")),
        (Some(1.into()), 1)
    );
    host.set("left", 10);
    host.set("right", 20);
    assert_eq!(
        host.get("result/out"),
        Some(10.into()),
        "the cell was handed on"
    );
    assert_eq!(host.runs("result"), 1, "it did not look at either");
    host.set("which", false);
    assert_eq!(
        (host.get("result/out"), host.runs("result")),
        (Some(20.into()), 2)
    );
    host.set("which", "maybe");
    assert_eq!(host.get("result/out"), None, "its output is undefined");
    let error = json!({"0": {"type": "Undecided", "message": "neither"}});
    assert_eq!(host.stored("result", "errors"), Some(error.into()));
    host.set("which", true);
    assert_eq!(
        (
            host.get("result/out"),
            host.stored("result", "errors")
                .unwrap_or_default()
                .child("0")
                .cloned()
        ),
        (Some(10.into()), None),
        "it recovers"
    );
}

#[test]
fn a_raw_module_starts_children_and_a_name_that_is_none_is_an_error_of_its_node() {
    let mut host = Host::new();
    with_modules(&mut host, |modules| {
        modules.raw("twins", |call| {
            let doubling = recipe(&[(
                "out",
                node(
                    "native",
                    "double",
                    json!({"x": alias(&["argument", "x"])}),
                    "out",
                ),
            )]);
            let results = (0..2).map(|number| {
                let request = ChildRequest {
                    key: number.into(),
                    recipe: doubling.clone().into(),
                    argument: json!({"x": number + 5}).into(),
                };
                call.run(request)
            });
            let results: Vec<_> = results.collect::<Result<_, _>>()?;
            Ok(Some(Json::array(results.iter().map(|at| {
                Link::to(at, call.base).absolute(call.base).to_json()
            }))))
        });
    });
    let parent = recipe(&[
        ("twins", node("raw", "twins", json!({}), "twins")),
        ("none", node("raw", "nobody", json!({}), "none")),
    ]);
    host.run(Some(parent), None, "result").unwrap();
    assert_eq!(
        host.get("result"),
        Some(json!({"twins": [{"out": 10}, {"out": 12}]}).into())
    );
    assert_eq!(host.running(), 3);
    let errors = host.stored("result", "errors").unwrap();
    let kind = errors
        .child("1")
        .and_then(|error| error.child("type"))
        .cloned();
    assert_eq!(kind, Some("UnknownModule".into()), "{errors}");
    host.stop("result");
    assert_eq!(host.running(), 0, "its children went with it");
}

/// "Test mode: run every computation twice and fail if the writes differ."
#[test]
fn in_the_test_mode_a_function_that_differs_is_an_error_on_its_node_and_the_others_run() {
    let mut host = Host::new();
    let calls = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&calls);
    with_modules(&mut host, |modules| {
        modules.function("moody", move |_| {
            Ok(Some(counted.fetch_add(1, Ordering::Relaxed).into()))
        });
    });
    let mixed = recipe(&[
        ("moody", node("native", "moody", json!({}), "moody")),
        (
            "out",
            node(
                "native",
                "double",
                json!({"x": alias(&["argument", "x"])}),
                "out",
            ),
        ),
    ]);
    host.run(Some(mixed), Some(json!({"x": 2})), "result")
        .unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 2, "it ran twice");
    assert_eq!(host.get("result"), Some(json!({"out": 4}).into()));
    let errors = host.stored("result", "errors").unwrap();
    let kind = errors
        .child("0")
        .and_then(|error| error.child("type"))
        .cloned();
    assert_eq!(kind, Some("Unstable".into()), "{errors}");
    assert_eq!(errors.child("1"), None);
}

/// "a result that contains a run request (recipe: link, id or inline)"
#[test]
fn a_run_request_names_its_recipe_by_link_by_id_or_inline() {
    let doubling = recipe(&[(
        "out",
        node(
            "native",
            "double",
            json!({"x": alias(&["argument", "x"])}),
            "out",
        ),
    )]);
    let parsed = Recipe::parse(&doubling.clone().into()).unwrap();
    let mut host = Host::new();
    host.set("kept", doubling.clone());
    // One that runs is stored under its id.
    host.run(Some(doubling.clone()), Some(json!({"x": 0})), "other")
        .unwrap();
    let ways: [(&str, Json); 3] = [
        ("link", link("kept")),
        ("id", parsed.id.clone().into()),
        ("inline", doubling.into()),
    ];
    with_modules(&mut host, |modules| {
        for (name, recipe) in ways.clone() {
            modules.function(name, move |value| {
                let argument = json!({"x": value.child("x").and_then(Json::as_int)});
                Ok(Some(run_request(recipe.clone(), argument.into(), None)))
            });
        }
    });
    let x = || json!({"x": alias(&["argument", "x"])});
    let asking = recipe(&[
        ("link", node("native", "link", x(), "link")),
        ("id", node("native", "id", x(), "id")),
        ("inline", node("native", "inline", x(), "inline")),
    ]);
    host.run(Some(asking), Some(json!({"x": 3})), "result")
        .unwrap();
    let each = json!({"out": 6});
    assert_eq!(
        host.get("result"),
        Some(json!({"link": each, "id": each, "inline": each}).into())
    );
}

/// "recipes that appear as values in inputs or outputs are discovered and cached too"
#[test]
fn recipes_that_appear_as_values_in_inputs_or_outputs_are_found_and_stay_as_they_are() {
    let in_input = recipe(&[("a", node("native", "double", json!({"x": 1}), "a"))]);
    let in_output = recipe(&[(
        "b",
        node(
            "native",
            "double",
            json!({"x": alias(&["argument", "x"])}),
            "b",
        ),
    )]);
    let id = |recipe: &serde_json::Value| Recipe::parse(&recipe.clone().into()).unwrap().id;
    let mut host = Host::new();
    let made: Json = in_output.clone().into();
    with_modules(&mut host, |modules| {
        modules.function("make", move |_| {
            Ok(Some(Json::object([("deep", made.clone())])))
        });
        modules.function("runs", |value| {
            let recipe = value
                .child("made")
                .and_then(|made| made.child("deep"))
                .cloned();
            Ok(recipe.map(|recipe| run_request(recipe, json!({"x": 21}).into(), None)))
        });
    });
    let parent = recipe(&[
        (
            "kept",
            node("passthrough", "", json!({"op": in_input}), "kept"),
        ),
        ("made", node("native", "make", json!({}), "made")),
        (
            "child",
            node(
                "native",
                "runs",
                json!({"made": alias(&["internal", "made"])}),
                "child",
            ),
        ),
    ]);
    let stranger = id(&recipe(&[]));
    host.run(Some(parent), None, "result").unwrap();
    let runner = host.machine.program();
    assert!(runner.known_recipe(&id(&in_input)).is_some(), "in an input");
    assert!(
        runner.known_recipe(&id(&in_output)).is_some(),
        "in an output"
    );
    assert!(runner.known_recipe(&stranger).is_none());
    let stored = host.stored("result", "internal").unwrap();
    assert_eq!(
        stored.child("kept"),
        Some(&json!({"op": in_input}).into()),
        "its aliases are its own"
    );
    assert_eq!(host.get("result/child"), Some(json!({"b": 42}).into()));
}

/// "Function cache by content"
#[test]
fn a_function_is_compiled_once_whoever_has_it() {
    let mut scripts = JavaScript::default();
    let sources = ["({x}) => x + 1", "({x}) => x + 2"];
    for round in 0..50 {
        for source in sources {
            // Each time another piece of memory with the same content.
            let source: Arc<str> = source.to_owned().into();
            let arguments = [Projected::Plain(json!({"x": round}).into())];
            scripts
                .call(&source, &arguments, &mut Transaction::default())
                .unwrap();
        }
    }
    assert_eq!(scripts.compiled(), 2);
}

/// Calls nothing, and keeps which pieces of memory it was to call.
#[derive(Debug)]
struct Noting(Arc<Mutex<Vec<Arc<str>>>>);

impl ScriptHost for Noting {
    fn call(
        &mut self,
        source: &Arc<str>,
        _: &[Projected],
        _: &mut Transaction,
    ) -> Result<Option<Json>, Failure> {
        self.0.lock().unwrap().push(Arc::clone(source));
        Ok(Some(1.into()))
    }
}

/// "refs resolved once": all nodes that name a module, in every process and run, call the same
/// function.
#[test]
fn a_ref_is_resolved_once_and_whoever_names_it_calls_the_same_function() {
    let called = Arc::new(Mutex::new(Vec::new()));
    let noting = Box::new(Noting(Arc::clone(&called)));
    let mut host = Host::with(noting, Spaces::default());
    with_modules(&mut host, |modules| {
        let module = json!({"type": "javascript", "implementation": "({x}) => x"});
        modules.document("same", &module.into()).unwrap();
    });
    let inputs = || json!({"x": alias(&["argument", "x"])});
    let twice = recipe(&[
        ("one", node("ref", "same", inputs(), "one")),
        ("two", node("ref", "same", inputs(), "two")),
    ]);
    for result in ["a", "b"] {
        host.run(Some(twice.clone()), Some(json!({"x": 0})), result)
            .unwrap();
        host.run(None, Some(json!({"x": 1})), result).unwrap();
    }
    let called = called.lock().unwrap();
    assert_eq!(called.len(), 2 * 2 * 2 * 2, "each twice in the test mode");
    assert!(called.iter().all(|source| Arc::ptr_eq(source, &called[0])));
}

/// Built-ins whose inputs are one cell that holds all of them.
#[test]
fn the_inputs_of_a_built_in_may_be_one_cell() {
    let all = |name: &str| {
        let node = json!({"module": {"type": "ref", "implementation": name}, "inputs": alias(&["argument"]), "outputs": alias(&["internal", "out"])});
        recipe(&[("out", node)])
    };
    let op = json!({"result": alias(&["internal", "out"]), "nodes": [node("native", "double", json!({"x": alias(&["argument", "element"])}), "out")]});
    let mut host = Host::new();
    let argument = json!({"list": [1, 2, 3], "op": op});
    host.run(Some(all("map")), Some(argument), "mapped")
        .unwrap();
    assert_eq!(
        host.get("mapped/out")
            .map(|list| list.as_array().map(lope_cells::json::Array::len)),
        Some(Some(3))
    );
    let argument = json!({"condition": true, "ifTrue": "yes", "ifFalse": "no"});
    host.run(Some(all("ifElse")), Some(argument), "chosen")
        .unwrap();
    assert_eq!(host.get("chosen/out"), Some("yes".into()));
    let at = host.process("chosen").key("argument").key("condition");
    host.edit(|_, transaction| transaction.set(&at, &false.into()).unwrap());
    assert_eq!(host.get("chosen/out"), Some("no".into()));
    let argument = json!({"name": "fetch", "request": "a"});
    host.run(Some(all("effect")), Some(argument), "asked")
        .unwrap();
    assert_eq!(host.get("asked/out/pending"), Some(true.into()));
}

#[test]
fn an_alias_may_be_a_text_wherever_a_recipe_is_a_value() {
    let tenfold = |argument: &str| {
        let of = |path: &str| json!({"$alias": path});
        let source = "({x}) => x * 10";
        json!({
            "result": {"y": of("internal/y")},
            "nodes": [{
                "module": {"type": "javascript", "implementation": source},
                "inputs": {"x": of(argument)},
                "outputs": of("internal/y")
            }]
        })
    };
    let starting = format!("({{x}}) => run({}, {{x}})", tenfold("argument/x"));
    let document = recipe(&[
        (
            "given",
            node(
                "ref",
                "map",
                json!({"list": alias(&["argument", "list"]), "op": alias(&["argument", "op"])}),
                "given",
            ),
        ),
        (
            "written",
            node(
                "ref",
                "map",
                json!({"list": alias(&["argument", "list"]), "op": tenfold("argument/element")}),
                "written",
            ),
        ),
        (
            "started",
            node(
                "javascript",
                &starting,
                json!({"x": alias(&["argument", "x"])}),
                "started",
            ),
        ),
    ]);
    let problems = Recipe::problems(&document.clone().into());
    assert_eq!(problems, []);
    let mut host = Host::scripted();
    let argument = json!({"x": 3, "list": [1, 2], "op": tenfold("argument/element")});
    host.run(Some(document), Some(argument), "result").unwrap();
    assert_eq!(
        host.get("result"),
        Some(
            json!({"given": [{"y": 10}, {"y": 20}], "written": [{"y": 10}, {"y": 20}], "started": {"y": 30}})
                .into()
        )
    );
}

#[test]
fn an_alias_that_is_none_is_told_whatever_it_looks_like() {
    for alias in [
        json!({"$alias": "elsewhere/x"}),
        json!({"$alias": 5}),
        json!({"$alias": {"path": "internal/x"}}),
        json!({"$alias": "internal/x", "beside": 1}),
        json!({"$alias": {"path": ["internal"]}, "beside": 1}),
    ] {
        let document = json!({"nodes": [], "result": {"out": alias}});
        let problems = Recipe::problems(&document.into());
        assert_eq!(problems.len(), 1, "{alias}: {problems:?}");
        assert_eq!(problems[0].at.to_string(), "/result/out/$alias");
    }
}
