//! What runs and in which order follows from the cells alone: whoever takes a space over goes on as the one
//! before, whatever came when.

use std::sync::{Arc, Mutex};

use lope_reactive::Json;
use lope_reactive::machine::EventOutcome;
use lope_reactive::process::{ProcessOwner, child_result, process_of};
use lope_reactive::runner::RecipeRunner;

use crate::fixture::{cell, json, link, space};
use crate::host::Host;

fn alias(path: &[&str]) -> serde_json::Value {
    json!({"$alias": {"path": path}})
}

fn native(name: &str, inputs: serde_json::Value, outputs: serde_json::Value) -> serde_json::Value {
    json!({"module": {"type": "native", "implementation": name}, "inputs": inputs, "outputs": outputs})
}

/// Adds up what comes to the stream that its argument leads to.
fn adding() -> serde_json::Value {
    json!({
        "initial": {"internal": {"sum": 0}},
        "result": {"sum": alias(&["internal", "sum"])},
        "nodes": [native("add", json!({"x": alias(&["argument", "s"]), "y": alias(&["internal", "sum"])}), alias(&["internal", "sum"]))]
    })
}

/// "one handler per stream (the last registered)"
#[test]
fn the_handler_that_was_started_last_has_the_stream_after_a_restart_too() {
    for order in [["one", "other"], ["other", "one"]] {
        let [first, last] = order;
        let mut host = Host::new();
        host.set("s", json!({"$stream": true}));
        for result in order {
            host.run(Some(adding()), Some(json!({"s": link("s")})), result)
                .unwrap();
        }
        assert_eq!(host.send(&cell("s"), 5), EventOutcome::Handled);
        assert_eq!(host.get(&format!("{last}/sum")), Some(5.into()));
        let mut host = host.restarted();
        assert_eq!(host.send(&cell("s"), 7), EventOutcome::Handled);
        assert_eq!(
            host.get(&format!("{last}/sum")),
            Some(12.into()),
            "{order:?}"
        );
        assert_eq!(host.get(&format!("{first}/sum")), Some(0.into()));
        // What is started again is the last one from then on.
        host.stop(first);
        host.run(None, None, first).unwrap();
        let mut host = host.restarted();
        assert_eq!(host.send(&cell("s"), 1), EventOutcome::Handled);
        assert_eq!(host.get(&format!("{first}/sum")), Some(1.into()));
        assert_eq!(host.get(&format!("{last}/sum")), Some(12.into()));
    }
}

/// "Order: data edges, then parent before child, then registration."
#[test]
fn after_a_restart_nodes_run_in_the_order_in_which_they_were_started() {
    let results: Vec<String> = (0..8).map(|index| format!("r{index}")).collect();
    let noting = |inner: Option<serde_json::Value>| {
        let mut nodes = vec![native(
            "note",
            json!({"name": alias(&["argument", "name"])}),
            alias(&["internal", "out"]),
        )];
        nodes.extend(inner.map(|inner| {
            json!({"module": {"type": "recipe", "implementation": inner},
                "inputs": {"name": ["child of", alias(&["argument", "name"])]}, "outputs": alias(&["internal", "child"])})
        }));
        json!({"result": {"out": alias(&["internal", "out"]), "child": alias(&["internal", "child"])}, "nodes": nodes})
    };
    let mut host = Host::new();
    for (index, result) in results.iter().enumerate() {
        let inner = (index % 2 == 0).then(|| noting(None));
        host.run(Some(noting(inner)), Some(json!({"name": result})), result)
            .unwrap();
    }
    let mut host = host.restarted();
    let noted = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&noted);
    host.machine
        .with_program(|runner: &mut RecipeRunner, spaces, nodes| {
            runner.change_modules(spaces, nodes, |modules| {
                modules.function("note", move |value| {
                    let name = value.child("name").cloned().unwrap_or_default();
                    notes.lock().unwrap().push(name.clone());
                    Ok(Some(name))
                });
            });
        });
    host.turn(Vec::new());
    let mut ran = noted.lock().unwrap().clone();
    // Every computation runs twice in tests.
    ran.dedup();
    let own = results.iter().map(|result| json!(result));
    let below = results
        .iter()
        .step_by(2)
        .map(|result| json!(["child of", result]));
    let expected: Vec<Json> = own.chain(below).map(Json::from).collect();
    assert_eq!(ran, expected, "parents first, then as they were started");
}

#[test]
fn a_node_is_a_handler_while_its_input_leads_to_a_stream() {
    let mut host = Host::new();
    host.run(Some(adding()), Some(json!({"s": link("s")})), "result")
        .unwrap();
    assert_eq!(host.get("result/sum"), Some(0.into()), "it computes");
    host.set("s", json!({"$stream": true}));
    assert_eq!(host.send(&cell("s"), 5), EventOutcome::Handled);
    assert_eq!(host.get("result/sum"), Some(5.into()));
    let mut host = host.restarted();
    assert_eq!(host.send(&cell("s"), 1), EventOutcome::Handled);
    assert_eq!(host.get("result/sum"), Some(6.into()));
    // The link leads on to another stream, then to a value.
    host.set("t", json!({"$stream": true}));
    let at = host.process("result").key("argument").key("s");
    let lead = |host: &mut Host, to: &str| {
        let to = link(to);
        host.edit(|_, transaction| lope_cells::write::replace(transaction, &at, &to).unwrap());
    };
    lead(&mut host, "t");
    assert_eq!(host.send(&cell("t"), 2), EventOutcome::Handled);
    assert_eq!(host.get("result/sum"), Some(8.into()));
    host.set("n", 100);
    lead(&mut host, "n");
    host.turn(Vec::new());
    let runs = host.runs("result");
    assert!(runs > 0, "it computes again");
}

/// "Write-redirect: … writing follows and the redirect stays."
#[test]
fn who_writes_through_a_redirect_runs_while_somebody_reads_behind_it() {
    let doubling = json!({
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [native("double", json!({"x": alias(&["argument", "x"])}), alias(&["internal", "out"]))]
    });
    let writing = |outputs: serde_json::Value| json!({"result": {}, "nodes": [native("double", json!({"x": alias(&["argument", "x"])}), outputs)]});
    let mut host = Host::new();
    host.set("target", json!({"n": 0}));
    host.run(
        Some(doubling),
        Some(json!({"x": link("target/n")})),
        "reader",
    )
    .unwrap();
    let argument = json!({"x": 4, "out": link("target/n")});
    host.run(
        Some(writing(alias(&["argument", "out"]))),
        Some(argument),
        "writer",
    )
    .unwrap();
    assert_eq!(host.get("target/n"), Some(8.into()));
    assert_eq!(host.get("reader/out"), Some(16.into()));
    let argument = json!({"x": 5, "out": link("target/n")});
    host.run(None, Some(argument), "writer").unwrap();
    assert_eq!(host.get("reader/out"), Some(20.into()));
    // The redirect comes to lead there only later.
    let at = host.process("writer").key("argument").key("out");
    host.stop("writer");
    host.set("target/n", 1);
    host.run(
        None,
        Some(json!({"x": 6, "out": link("nowhere")})),
        "writer",
    )
    .unwrap();
    assert_eq!(host.get("reader/out"), Some(2.into()));
    let mut to = lope_reactive::Link::from_json(&link("target/n")).unwrap();
    to.redirect = true;
    let base = cell("target");
    let to = to.absolute(&base).to_json();
    host.edit(|_, transaction| lope_cells::write::replace(transaction, &at, &to).unwrap());
    assert_eq!(host.get("reader/out"), Some(24.into()));
    let host = host.restarted();
    assert_eq!(host.get("reader/out"), Some(24.into()));
}

/// "internal = schema defaults, then `initial.internal`, then what was stored"; what people took away or
/// changed stays so.
#[test]
fn an_update_leaves_what_people_changed_as_it_is() {
    let child = json!({
        "initial": {"internal": {"seed": {"a": 1, "b": 2}}},
        "result": {"out": alias(&["internal", "out"])},
        "nodes": [native("add", json!({"x": alias(&["argument", "x"]), "y": alias(&["argument", "y"])}), alias(&["internal", "out"]))]
    });
    let parent = json!({
        "initial": {"internal": {"seed": {"a": 1, "b": 2}}},
        "result": {"kid": alias(&["internal", "kid"])},
        "nodes": [{"module": {"type": "recipe", "implementation": child},
            "inputs": {"x": 4, "y": alias(&["argument", "y"])}, "outputs": alias(&["internal", "kid"])}]
    });
    let mut host = Host::new();
    host.run(Some(parent), Some(json!({"y": 1})), "result")
        .unwrap();
    assert_eq!(host.get("result/kid/out"), Some(5.into()));
    let own = host.process("result");
    let owner = ProcessOwner {
        process: own.id.clone(),
        node: 0,
    };
    let kid = child_result(&owner, &space("home"), &Json::Null);
    let kid = process_of(&host.machine.spaces().begin(), &kid);
    host.edit(|_, transaction| {
        for process in [&own, &kid] {
            let seed = process.key("internal").key("seed");
            transaction.remove(&seed.key("a")).unwrap();
            transaction.set(&seed.key("b"), &3.into()).unwrap();
        }
        let x = kid.key("argument").key("x");
        transaction.set(&x, &10.into()).unwrap();
    });
    assert_eq!(host.get("result/kid/out"), Some(11.into()));
    for argument in [Some(json!({"y": 2})), None] {
        host.run(None, argument, "result").unwrap();
        assert_eq!(host.get("result/kid/out"), Some(12.into()));
        for process in [&own, &kid] {
            let seed = process.key("internal").key("seed");
            assert_eq!(host.get_at(&seed), Some(json!({"b": 3}).into()));
        }
    }
}
