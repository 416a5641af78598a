//! Reactive spaces from the command line: recipes, cells, streams, and what they survive.

use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::stage::{Home, guide, until};

fn example(name: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reactive");
    examples.join(name).display().to_string()
}

fn get(home: &Home, cell: &str) -> Value {
    home.lope(&["--json", "cells", "get", cell]).done().json()
}

fn up(home: &Home) -> Child {
    let mut command = home.command(&["up", "--http", "off"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn kill(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[test]
fn a_counter_counts_each_event_once_and_tells_why() {
    let home = Home::new();
    home.lope(&["recipes", "check", &example("counter.yaml")])
        .done();
    home.lope(&[
        "recipes",
        "run",
        &example("counter.yaml"),
        "--into",
        "home/counter",
    ])
    .done();
    for _ in 0..2 {
        let sent = home.lope(&[
            "--json",
            "streams",
            "send",
            "home/counter/add",
            "5",
            "--id",
            "five",
        ]);
        assert_eq!(
            sent.done().json(),
            json!({ "event": "five", "outcome": "handled" })
        );
    }
    home.lope(&["streams", "send", "home/counter/add", "2"])
        .done();
    let shown = get(&home, "home/counter");
    assert_eq!((&shown["count"], &shown["double"]), (&json!(7), &json!(14)));
    let why = home.lope(&["recipes", "why", "home/counter"]).done().out;
    assert!(
        why.contains(
            "node 0 (javascript): 2 runs\n  runs when an event comes\n  its last event was '"
        ),
        "{why}"
    );
    assert!(
        why.contains("node 1 (javascript): 3 runs"),
        "it ran for each change alone: {why}"
    );
    assert!(
        why.contains("changed home/process-of-counter/internal/count"),
        "{why}"
    );
    let process = home.lope(&["--json", "recipes", "show", "home/counter"]);
    let process = process.done().json()["process"]
        .as_str()
        .unwrap()
        .to_owned();
    let count = format!("home/{process}/internal/count");
    let history = home.lope(&["--json", "cells", "history", &count]).done();
    let history = history.json();
    for same in [
        "home/counter/count",
        "home/process-of-counter/internal/count",
    ] {
        let told = home.lope(&["--json", "cells", "history", same]).done();
        assert_eq!(told.json(), history, "{same}");
        assert_eq!(get(&home, same), json!(7));
    }
    let held: Vec<&Value> = history.as_array().unwrap().iter().collect();
    let values: Vec<&Value> = held.iter().map(|entry| &entry["value"]).collect();
    assert_eq!(
        values[values.len() - 2..],
        [&json!(5), &json!(7)],
        "{history}"
    );
    assert!(
        held[held.len() - 2]["by"]
            .as_str()
            .unwrap()
            .contains("'five'")
    );
    let links = home
        .lope(&["--json", "cells", "links", "home/counter"])
        .done();
    assert_eq!(links.json()[1]["target"], json!(count));
    let list = home.lope(&["recipes", "list"]).done().out;
    assert!(
        list.contains("home/counter") && list.contains("at rest"),
        "{list}"
    );
    home.lope(&["recipes", "stop", "home/counter"]).done();
    let list = home.lope(&["recipes", "list"]).done().out;
    assert!(!list.contains("home/counter"), "{list}");
    home.lope(&["recipes", "run", "--into", "home/counter"])
        .done();
    home.lope(&["streams", "send", "home/counter/add", "1"])
        .done();
    assert_eq!(get(&home, "home/counter/count"), json!(8), "it goes on");
}

#[test]
fn cells_are_set_and_a_node_that_fails_is_told() {
    let home = Home::new();
    home.lope(&["cells", "set", "home/list", "[1]"]).done();
    home.lope(&["cells", "set", "home/list", "2", "--append"])
        .done();
    assert_eq!(get(&home, "home/list"), json!([1, 2]));
    home.lope(&["cells", "set", "home/list/0", "4", "--add"])
        .done();
    assert_eq!(get(&home, "home/list/0"), json!(5));
    let refused = home.lope(&["cells", "set", "home/list", "1", "--add"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("not a number"), "{}", refused.err);
    home.lope(&["cells", "set", "home/list", "--remove"]).done();
    assert_eq!(home.lope(&["cells", "get", "home/list"]).code, 1);
    let recipe = home.file(
        "failing.yaml",
        "result: { $alias: internal/x }\nnodes:\n  - module: { type: javascript, implementation: \"() => { throw new Error('no') }\" }\n    inputs: {}\n    outputs: { $alias: internal/x }\n",
    );
    let run = ["recipes", "run", recipe.as_str(), "--into", "home/failing"];
    let begun = home.lope(&run).done();
    assert_eq!(begun.out.trim(), "home/failing runs");
    for told in [
        "node 0 in home/failing: Error: no",
        "'lope recipes why home/failing'",
    ] {
        assert!(begun.err.contains(told), "{}", begun.err);
    }
    let shown = home.lope(&["recipes", "show", "home/failing"]).done().out;
    assert!(shown.contains("    failed: Error: no"), "{shown}");
}

#[test]
fn a_cycle_is_reported_with_its_nodes_and_the_rest_goes_on() {
    let home = Home::new();
    home.lope(&[
        "recipes",
        "run",
        &example("cycle.yaml"),
        "--into",
        "home/cycle",
        "--argument",
        "{\"x\": 1}",
    ])
    .done();
    assert_eq!(get(&home, "home/cycle/calm"), json!(10));
    let why = home.lope(&["recipes", "why", "home/cycle"]).done().out;
    assert!(why.contains("non-settling: 10 runs in one pass"), "{why}");
    let cycle = "around the cycle: process-of-cycle/0, process-of-cycle/1";
    assert!(why.contains(cycle), "{why}");
    home.lope(&[
        "recipes",
        "run",
        "--into",
        "home/cycle",
        "--argument",
        "{\"x\": 2}",
    ])
    .done();
    assert_eq!(
        get(&home, "home/cycle/calm"),
        json!(20),
        "the rest of the space answers"
    );
}

#[test]
fn a_form_starts_a_workflow_and_its_cell_shows_what_came_of_it() {
    let home = Home::new();
    home.lope(&["workflows", "deploy", &example("greet.yaml")])
        .done();
    home.lope(&[
        "recipes",
        "run",
        &example("form.yaml"),
        "--into",
        "home/form",
    ])
    .done();
    home.lope(&["streams", "send", "home/form/submit", "{\"name\": \"Ada\"}"])
        .done();
    assert_eq!(
        get(&home, "home/form/order/pending"),
        json!(true),
        "nobody works yet"
    );
    let first = up(&home);
    until("the order is done", || {
        get(&home, "home/form/order/pending") == json!(false)
    });
    assert_eq!(get(&home, "home/form/order/result"), json!("Hello, Ada!"));
    home.lope(&["streams", "send", "home/form/submit", "{\"name\": \"Bo\"}"])
        .done();
    kill(first);
    let second = up(&home);
    until("the second order is done", || {
        let result = home.lope(&["--json", "cells", "get", "home/form/order/result"]);
        result.code == 0 && result.json() == json!("Hello, Bo!")
    });
    kill(second);
    let runs = home.lope(&["--json", "runs", "list"]).done().json();
    assert_eq!(
        runs.as_array().unwrap().len(),
        2,
        "each order started one run: {runs}"
    );
}

#[test]
fn runners_killed_again_and_again_count_each_of_a_hundred_events_once() {
    let home = Home::new();
    home.lope(&[
        "recipes",
        "run",
        &example("counter.yaml"),
        "--into",
        "home/counter",
    ])
    .done();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = format!("sqlite:{}", home.path().join(".lope/lope.db").display());
    let mut sent = 0;
    for round in 1..=5 {
        let runner = up(&home);
        runtime.block_on(async {
            let client = lope::Client::open(&url).await.unwrap();
            let identity = lope::reactive::process_identity();
            let options = lope::reactive::PoolOptions::new(identity);
            let spaces = client.space_client(options).await.unwrap();
            let stream = lope::reactive::CellAddress::parse("home/counter/add").unwrap();
            let store = spaces.space(&stream.space);
            for number in 0..20 {
                let event = lope::reactive::StreamEvent {
                    id: format!("{round}-{number}").into(),
                    stream: stream.clone(),
                    payload: 1.into(),
                };
                // Twice: it is the same event.
                store.send(&event).await.unwrap();
                store.send(&event).await.unwrap();
            }
            client.close().await.unwrap();
        });
        sent += 20;
        // Somewhere in the middle: behind the first of this round, before or behind the last.
        until("some of the round are counted", || {
            get(&home, "home/counter/count").as_i64().unwrap() > sent - 20
        });
        kill(runner);
    }
    home.lope(&["streams", "send", "home/counter/add", "0"])
        .done();
    let shown = get(&home, "home/counter");
    assert_eq!(
        (&shown["count"], &shown["double"]),
        (&json!(100), &json!(200))
    );
    let check = home.lope(&["store", "check"]);
    assert_eq!(check.code, 0, "{check:?}");
}

#[test]
fn every_command_of_the_guide_to_reactive_spaces_prints_what_the_guide_says() {
    assert_eq!(guide("reactive.md"), 7);
}

#[test]
fn a_workflow_that_is_deployed_later_is_started_by_itself() {
    let home = Home::new();
    home.lope(&[
        "recipes",
        "run",
        &example("form.yaml"),
        "--into",
        "home/form",
    ])
    .done();
    let runner = up(&home);
    home.lope(&["streams", "send", "home/form/submit", "{\"name\": \"Ada\"}"])
        .done();
    until("its cell says what it waits for", || {
        let order = get(&home, "home/form/order");
        let why =
            json!({ "type": "UnknownWorkflow", "message": "no workflow 'greet' is deployed" });
        order["error"] == why && order["pending"] == json!(true)
    });
    let why = home.lope(&["recipes", "why", "home/form", "1"]).done().out;
    let waits =
        "  has to run because what it asked for is not done: no workflow 'greet' is deployed";
    assert!(why.lines().any(|line| line == waits), "{why}");
    // What is not wanted any more is never started.
    home.lope(&["streams", "send", "home/form/submit", "{\"name\": \"Bo\"}"])
        .done();
    home.lope(&["workflows", "deploy", &example("greet.yaml")])
        .done();
    until("the order is done", || {
        get(&home, "home/form/order/pending") == json!(false)
    });
    let order = get(&home, "home/form/order");
    assert_eq!(order["result"], json!("Hello, Bo!"), "{order}");
    assert_eq!(order.get("error"), None, "{order}");
    kill(runner);
    let runs = home.lope(&["--json", "runs", "list"]).done().json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
}

#[test]
fn effects_that_ask_for_each_other_without_end_are_slowed_down_and_told() {
    let home = Home::new();
    let flip = home.file(
        "flip.yaml",
        "name: flip\nsteps:\n  done:\n    return: ${{ 1 - input.n }}\n",
    );
    home.lope(&["workflows", "deploy", &flip]).done();
    let recipe = home.file(
        "loop.yaml",
        r#"
name: loop
initial: { internal: { n: 0, rounds: 0 } }
result: { n: { $alias: internal/n }, rounds: { $alias: internal/rounds } }
nodes:
  - module: { type: workflow, implementation: flip }
    inputs: { n: { $alias: internal/n } }
    outputs: { $alias: internal/order }
  - module:
      type: javascript
      argumentSchema: { properties: { order: true, n: true, rounds: { asCell: true } } }
      implementation: "({order, n, rounds}) => { if (order?.pending !== false || order.result === n) return n; rounds.increment(1); return order.result }"
    inputs: { order: { $alias: internal/order }, n: { $alias: internal/n }, rounds: { $alias: internal/rounds } }
    outputs: { $alias: internal/n }
"#,
    );
    home.lope(&["recipes", "run", &recipe, "--into", "home/loop"])
        .done();
    let runner = up(&home);
    let rounds = || get(&home, "home/loop/rounds").as_i64().unwrap();
    until("it goes round and round", || rounds() > 100);
    until("it is told", || {
        let why = home.lope(&["recipes", "why", "home/loop"]).done().out;
        why.contains("effects and reads of other spaces follow from each other")
            && why.contains("around the cycle: home/process-of-loop/0")
    });
    let (started, before) = (std::time::Instant::now(), rounds());
    home.lope(&["cells", "set", "home/other", "1"]).done();
    until("it goes on", || rounds() > before + 1);
    let most = started.elapsed().as_millis() as i64 / 250 + 2;
    assert!(
        rounds() - before <= most,
        "{} in {:?}",
        rounds() - before,
        started.elapsed()
    );
    kill(runner);
}
