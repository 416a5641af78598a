//! What commands for reactive spaces answer when something is wrong, missing or too much.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::stage::{Home, Watch, until};

const COUNTER: &str = r#"
name: counter
initial: { internal: { count: 0, add: { $stream: true } } }
result: { count: { $alias: internal/count }, add: { $alias: internal/add } }
nodes:
  - module:
      type: javascript
      argumentSchema: { properties: { n: true, count: { asCell: true } } }
      implementation: "({n, count}) => { if (n < 0) throw new RangeError('below zero'); count.increment(n) }"
    inputs: { n: { $alias: internal/add }, count: { $alias: internal/count } }
    outputs: {}
"#;

/// Starts itself twice, without end.
const BOMB: &str = r#"
name: bomb
result: { out: { $alias: internal/out } }
nodes:
  - module: { type: javascript, implementation: "({d, self}) => [run(self, {d: d + 1, self}, 'a'), run(self, {d: d + 1, self}, 'b')]" }
    inputs: { d: { $alias: argument/d }, self: { $alias: argument/self } }
    outputs: { $alias: internal/out }
"#;

fn bomb_argument() -> String {
    let alias = |path: [&str; 2]| json!({ "$alias": { "path": path } });
    let code =
        "({d, self}) => [run(self, {d: d + 1, self}, 'a'), run(self, {d: d + 1, self}, 'b')]";
    let recipe = json!({ "name": "bomb", "result": { "out": alias(["internal", "out"]) }, "nodes": [{
        "module": { "type": "javascript", "implementation": code },
        "inputs": { "d": alias(["argument", "d"]), "self": alias(["argument", "self"]) },
        "outputs": alias(["internal", "out"]),
    }] });
    json!({ "d": 0, "self": recipe }).to_string()
}

fn up(home: &Home) -> Child {
    let mut command = home.command(&["up", "--http", "off"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn get(home: &Home, cell: &str) -> Value {
    home.lope(&["--json", "cells", "get", cell]).done().json()
}

#[test]
fn a_runner_ends_in_time_though_a_space_has_very_much_to_do() {
    let home = Home::new();
    let recipe = home.file("bomb.yaml", BOMB);
    let argument = bomb_argument();
    home.lope(&["cells", "set", "home/x", "1"]).done();
    let mut runner = up(&home);
    until("the runner has the space", || {
        let list = home.lope(&["cells", "set", "home/x", "1", "--add"]);
        list.code == 0
    });
    let mut sender = home.command(&[
        "recipes",
        "run",
        &recipe,
        "--into",
        "home/bomb",
        "--argument",
        &argument,
    ]);
    let mut sender = sender
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("it is under way", || {
        let list = home.lope(&["--json", "recipes", "list"]).json();
        list[0]["waiting"]
            .as_u64()
            .is_some_and(|waiting| waiting > 0)
            || list[0]["recipes"] != json!([])
    });
    let asked = Instant::now();
    kill_process(Pid::from_child(&runner), Signal::TERM).unwrap();
    let status = runner.wait().unwrap();
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "{:?}",
        asked.elapsed()
    );
    assert!(status.code().is_some(), "{status}: it ended by itself");
    kill_process(Pid::from_child(&sender), Signal::KILL).unwrap();
    sender.wait().unwrap();
}

#[test]
fn what_fails_in_nested_processes_is_told_at_the_root() {
    let home = Home::new();
    let recipe = home.file(
        "nested.yaml",
        r#"
name: nested
initial: { internal: { items: [{ id: a, n: 1 }, { id: b, n: 0 }] } }
result: { all: { $alias: internal/all }, kid: { $alias: internal/kid } }
nodes:
  - module: { type: ref, implementation: map }
    inputs:
      list: { $alias: internal/items }
      op:
        result: { $alias: internal/y }
        nodes:
          - module: { type: javascript, implementation: "({element}) => { if (!element.n) throw new Error('zero'); return 1 / element.n }" }
            inputs: { element: { $alias: argument/element } }
            outputs: { $alias: internal/y }
    outputs: { $alias: internal/all }
  - module:
      type: recipe
      implementation:
        result: { $alias: internal/z }
        nodes:
          - module: { type: javascript, implementation: "() => { throw new Error('kid fails') }" }
            inputs: {}
            outputs: { $alias: internal/z }
          - module: { type: ref, implementation: nosuch }
            inputs: {}
            outputs: { $alias: internal/w }
    inputs: {}
    outputs: { $alias: internal/kid }
"#,
    );
    home.lope(&["recipes", "run", &recipe, "--into", "home/nested"])
        .done();
    let list = home.lope(&["--json", "recipes", "list"]).done().json();
    assert_eq!(list[0]["recipes"][0]["failing"], json!(3), "{list}");
    for verb in ["show", "why"] {
        let told = home.lope(&["recipes", verb, "home/nested"]).done().out;
        for expected in [
            "  node 0/0 in home/nested/all/1: Error: zero",
            "  node 1/0 in home/nested/kid: Error: kid fails",
            "  node 1/1 in home/nested/kid: 'nosuch' is no module; the node is left out",
        ] {
            let mut lines = told.lines();
            assert!(
                lines.any(|line| line == expected),
                "{verb}: {expected}: {told}"
            );
        }
        assert!(told.contains("runs into home/nested/kid\n"), "{told}");
        assert!(
            told.contains("1 recipe") || told.contains("node 1 (recipe)"),
            "{told}"
        );
    }
}

#[test]
fn what_a_handler_did_is_told() {
    let home = Home::new();
    let recipe = home.file("counter.yaml", COUNTER);
    home.lope(&[
        "recipes", "run", &recipe, "--space", "home", "--result", "counter",
    ])
    .done();
    home.lope(&["streams", "send", "home/counter/add", "2", "--id", "two"])
        .done();
    let failed = home.lope(&["streams", "send", "home/counter/add", "-1", "--id", "bad"]);
    assert_eq!(failed.code, 1);
    home.lope(&["streams", "send", "home/counter/add", "3", "--id", "three"])
        .done();
    let why = home.lope(&["recipes", "why", "home/counter"]).done().out;
    for expected in [
        "node 0 (javascript): 3 runs",
        "its last event was 'three'",
        "failed last with 'bad': RangeError: below zero",
        "writes home/process-of-counter/internal/count",
    ] {
        assert!(why.contains(expected), "{expected}: {why}");
    }
    assert_eq!(
        get(&home, "home/process-of-counter/internal/count"),
        json!(5)
    );
}

#[test]
fn commands_for_what_is_not_there_say_so() {
    let home = Home::new();
    home.lope(&["cells", "set", "home/x", "1"]).done();
    for command in [
        ["recipes", "run", "--into", "home/nobody"].as_slice(),
        &["recipes", "stop", "home/nobody"],
        &["recipes", "stop", "home/x"],
        &["recipes", "show", "home/nobody"],
    ] {
        let said = home.lope(command);
        assert_eq!(said.code, 1, "{command:?}");
        let cell = command.last().unwrap();
        assert!(
            said.err.contains(&format!("nothing runs at {cell}")),
            "{}",
            said.err
        );
    }
    let inline = r#"home/data:application/json,{"a/b":[1,{"c":"d/e"}]}"#;
    assert_eq!(get(&home, inline), json!({ "a/b": [1, { "c": "d/e" }] }));
    assert_eq!(get(&home, &format!("{inline}/a~1b/1/c")), json!("d/e"));
}

#[test]
fn the_state_of_what_runs_is_not_run_into_and_not_taken_away() {
    let home = Home::new();
    let file = home.file("counter.yaml", COUNTER);
    home.lope(&["recipes", "run", &file, "--into", "home/counter"])
        .done();
    home.lope(&["streams", "send", "home/counter/add", "4"])
        .done();
    let state = "home/process-of-counter";
    for words in [
        &["recipes", "run", &file, "--into", state][..],
        &["cells", "set", state, "--remove"],
        &["cells", "set", state, "5"],
        &["cells", "set", &format!("{state}/resultRef"), "5"],
    ] {
        let said = home.lope(words);
        assert_eq!(said.code, 1, "{words:?}: {}", said.err);
        let typed = words.iter().find(|word| word.starts_with(state)).unwrap();
        let expected = format!(
            "error: {typed} is the state of a recipe that runs: its 'argument' and what is 'internal' \
             may be changed"
        );
        assert_eq!(said.err.trim_end(), expected, "{words:?}");
    }
    assert_eq!(get(&home, "home/counter/count"), 4);
    home.lope(&["cells", "set", &format!("{state}/internal/count"), "7"])
        .done();
    assert_eq!(get(&home, "home/counter/count"), 7);
    home.lope(&["store", "check"]).done();
}

#[test]
fn links_in_a_circle_are_named_and_can_be_taken_away_and_a_stream_is_not_set() {
    let home = Home::new();
    let id = |name: &str| {
        let said = home.lope(&["--json", "cells", "set", &format!("home/{name}"), "1"]);
        let cell = said.done().json()["cell"].as_str().unwrap().to_owned();
        cell.strip_prefix("home/").unwrap().to_owned()
    };
    let (a, b) = (id("a"), id("b"));
    let redirect =
        |id: &str| json!({ "/": { "link@1": { "id": id, "overwrite": "redirect" } } }).to_string();
    home.lope(&["cells", "set", "home/a", &redirect(&b)]).done();
    home.lope(&["cells", "set", &format!("home/{b}"), &redirect(&a)])
        .done();
    let circle = home.lope(&["cells", "get", "home/a"]);
    assert_eq!(circle.code, 1);
    assert_eq!(
        circle.err.lines().next(),
        Some("error: more than 100 links lead on from home/a: they lead in a circle, perhaps")
    );
    home.lope(&["cells", "set", "home/a", "--remove"]).done();
    home.lope(&["cells", "set", "home/a", "2"]).done();
    assert_eq!(
        (get(&home, "home/a"), get(&home, "home/b")),
        (json!(2), json!(2))
    );
    let recipe = home.file("counter.yaml", COUNTER);
    home.lope(&["recipes", "run", &recipe, "--into", "home/counter"])
        .done();
    refused(
        &home,
        &["cells", "set", "home/counter/add", "5"],
        1,
        "error: home/counter/add is a stream: events are sent to it, as with 'lope streams send'",
    );
    home.lope(&["streams", "send", "home/counter/add", "5"])
        .done();
    assert_eq!(get(&home, "home/counter/count"), json!(5));
}

#[test]
fn a_cell_that_stands_for_one_of_another_space_is_set_there() {
    let home = Home::new();
    let said = home
        .lope(&["--json", "cells", "set", "away/doc", "1"])
        .done();
    let cell = said.json()["cell"].as_str().unwrap().to_owned();
    let id = cell.strip_prefix("away/").unwrap();
    let redirect =
        json!({ "/": { "link@1": { "id": id, "space": "away", "overwrite": "redirect" } } });
    home.lope(&["cells", "set", "home/doc", &redirect.to_string()])
        .done();
    home.lope(&["cells", "set", "home/doc", "7"]).done();
    assert_eq!(
        (get(&home, "away/doc"), get(&home, "home/doc")),
        (json!(7), json!(7))
    );
    home.lope(&["cells", "set", "home/doc", "1", "--add"])
        .done();
    assert_eq!(get(&home, "away/doc"), json!(8));
    let most = i64::MAX.to_string();
    let refused = home.lope(&["cells", "set", "away/doc", &most, "--add"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("64 bits"), "{}", refused.err);
    assert_eq!(
        home.lope(&["cells", "set", "away/doc", "9223372036854775808", "--add"])
            .code,
        2
    );
    assert_eq!(get(&home, "away/doc"), json!(8));
    home.lope(&["mailbox", "dead", "away"]).done();
}

#[test]
fn a_recipe_file_with_fields_that_mean_nothing_is_refused_with_their_lines() {
    let home = Home::new();
    let recipe = home.file(
        "bad.yaml",
        "name: 5\nargumentSchema: 7\ninitial: { internal: {}, bogus: 1 }\nresult: { $alias: internal/b }\nnodes:\n  - module:\n      type: javascript\n      implementation: '() => 1'\n      wrapper: nosuch\n      argumentSchema: { properties: { a: { type: nothing } } }\n      arguments: 1\n    inputs: {}\n    outputs: { $alias: internal/b }\n",
    );
    let said = home.lope(&["--json", "recipes", "check", &recipe]);
    assert_eq!(said.code, 2);
    let problems = said.json()[0]["problems"].as_array().unwrap().clone();
    let lines: Vec<u64> = problems
        .iter()
        .map(|problem| problem["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [1, 2, 3, 9, 10, 11], "{problems:?}");
    assert_eq!(
        home.lope(&["recipes", "run", &recipe, "--into", "home/bad"])
            .code,
        2
    );
}

/// What a watch prints, line by line.
struct Watching {
    child: Runner,
    lines: Lines<BufReader<ChildStdout>>,
    _watch: Watch,
}

impl Watching {
    fn start(home: &Home, args: &[&str]) -> Self {
        let mut command = home.command(args);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        Self {
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            _watch: Watch::over(&child),
            child: Runner(child),
        }
    }

    fn next(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }
}

#[test]
fn a_watch_prints_a_cell_live_whenever_it_changes_and_only_then() {
    let home = Home::new();
    let recipe = home.file("counter.yaml", COUNTER);
    home.lope(&["recipes", "run", &recipe, "--into", "home/counter"])
        .done();
    let count = "home/counter/count";
    let mut plain = Watching::start(&home, &["cells", "watch", count, "--count", "3"]);
    let mut json = Watching::start(&home, &["--json", "cells", "watch", "home/list"]);
    assert_eq!(plain.next(), "0", "what it holds now");
    for (n, shown) in [("2", "2"), ("0", ""), ("3", "5")] {
        home.lope(&["streams", "send", "home/counter/add", n])
            .done();
        if !shown.is_empty() {
            assert_eq!(plain.next(), shown, "though nobody but commands hosts it");
        }
    }
    assert!(plain.lines.next().is_none(), "as many as were asked for");
    assert_eq!(plain.child.0.wait().unwrap().code(), Some(0));
    let shown = |line: String| serde_json::from_str::<Value>(&line).unwrap()["value"].clone();
    let first = shown(json.next());
    assert_eq!(first, Value::Null, "nothing is there yet");
    for value in [json!([1]), json!([1, {"a": "b"}]), json!("x")] {
        home.lope(&["cells", "set", "home/list", &value.to_string()])
            .done();
        home.lope(&["cells", "set", "home/other", "1", "--add"])
            .done();
        assert_eq!(shown(json.next()), value);
    }
    kill_process(Pid::from_child(&json.child.0), Signal::TERM).unwrap();
    assert!(json.lines.next().is_none());
    json.child.0.wait().unwrap();
}

/// One node for each way to do harm, and one that does none.
const HOSTILE: &str = r#"
name: hostile
result: { good: { $alias: internal/good } }
nodes:
  - { module: { type: javascript, implementation: "({x}) => { for (;;) {} }" }, inputs: { x: { $alias: argument/x } }, outputs: { $alias: internal/a } }
  - { module: { type: javascript, implementation: "({x}) => { const a = []; for (;;) a.push(new Array(100000).fill(x)) }" }, inputs: { x: { $alias: argument/x } }, outputs: { $alias: internal/b } }
  - { module: { type: javascript, implementation: "({x}) => { const f = () => f() + 1; return f() }" }, inputs: { x: { $alias: argument/x } }, outputs: { $alias: internal/c } }
  - { module: { type: javascript, implementation: "({x}) => { Object.prototype.y = x; Object.defineProperty(Array.prototype, 'map', { value: () => 666 }) }" }, inputs: { x: { $alias: argument/x } }, outputs: { $alias: internal/d } }
  - { module: { type: javascript, implementation: "({x}) => 'x'.repeat(2 ** 29)" }, inputs: { x: { $alias: argument/x } }, outputs: { $alias: internal/e } }
  - { module: { type: javascript, implementation: "({x}) => /^(a+)+$/.test('a'.repeat(50) + 'b')" }, inputs: { x: { $alias: argument/x } }, outputs: { $alias: internal/f } }
  - { module: { type: javascript, implementation: "({x}) => [x, {}.y ?? null].map(it => it)" }, inputs: { x: { $alias: argument/x } }, outputs: { $alias: internal/good } }
"#;

#[test]
fn hostile_scripts_are_errors_on_their_nodes_and_other_spaces_are_unharmed() {
    let home = Home::new();
    let wanted = HOSTILE.replace(
        "result: { good",
        "result: { a: { $alias: internal/a }, b: { $alias: internal/b }, c: { $alias: internal/c }, d: { $alias: internal/d }, \
         e: { $alias: internal/e }, f: { $alias: internal/f }, good",
    );
    let hostile = home.file("hostile.yaml", &wanted);
    let counter = home.file("counter.yaml", COUNTER);
    home.lope(&["recipes", "run", &counter, "--into", "good/counter"])
        .done();
    let runner = Runner(up(&home));
    for x in 1..=2 {
        let argument = json!({ "x": x }).to_string();
        let run = ["recipes", "run", &hostile, "--into", "evil/hostile"];
        home.lope(&[&run[..], &["--argument", &argument]].concat())
            .done();
        home.lope(&["streams", "send", "good/counter/add", "1"])
            .done();
        assert_eq!(get(&home, "good/counter/count"), json!(x), "unharmed");
        assert_eq!(get(&home, "evil/hostile"), json!({ "good": [x, null] }));
        let errors = get(&home, "evil/process-of-hostile/errors");
        let kinds: Vec<(&String, &Value)> = errors
            .as_object()
            .unwrap()
            .iter()
            .map(|(node, error)| (node, &error["type"]))
            .collect();
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(node, kind)| format!("{node} {}", kind.as_str().unwrap()))
            .collect();
        let expected = [
            "0 Limit",
            "1 Limit",
            "2 Limit",
            "3 TypeError",
            "4 Limit",
            "5 Limit",
        ];
        assert_eq!(kinds, expected, "{errors}");
    }
    drop(runner);
}

/// A process that is killed in the end.
struct Runner(Child);

impl Drop for Runner {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A failed command: what it says, and with which code.
#[track_caller]
fn refused(home: &Home, args: &[&str], code: i32, says: &str) {
    let said = home.lope(args);
    assert_eq!((said.code, said.err.trim_end()), (code, says), "{args:?}");
}

#[test]
fn errors_name_cells_as_they_were_typed() {
    let home = Home::new();
    let counter = home.file("counter.yaml", COUNTER);
    home.lope(&["recipes", "run", &counter, "--into", "home/counter"])
        .done();
    let list = r#"{"list": [1], "text": "x"}"#;
    home.lope(&["cells", "set", "home/doc", list]).done();
    let circle = r#"{"/": {"link@1": {"path": []}}}"#;
    home.lope(&["cells", "set", "home/circle", circle]).done();
    let hint = "\n  hint: 'lope recipes list' shows what runs";
    for (cell, verb) in [
        ("home/nothing", "get"),
        ("home/doc/none", "get"),
        ("home/nothing", "links"),
    ] {
        let says = format!("error: there is nothing at {cell}{hint}");
        refused(&home, &["cells", verb, cell], 1, &says);
    }
    refused(
        &home,
        &["cells", "set", "home/doc/text", "1", "--add"],
        1,
        "error: home/doc/text is a text, not a number",
    );
    refused(
        &home,
        &[
            "cells",
            "set",
            "home/process-of-counter/internal",
            "1",
            "--append",
        ],
        1,
        "error: home/process-of-counter/internal is an object, not a list",
    );
    let bad = r#"{"a": [{"/": {"link@1": {"id": "data:application/json,{bad"}}}]}"#;
    refused(
        &home,
        &["cells", "set", "home/fresh", bad],
        1,
        "error: the link at home/fresh/a/0 is to an inline document that is no JSON: 'data:application/json,' and \
         JSON, percent-encoded, expected",
    );
    let said = home.lope(&["cells", "get", "home/circle"]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("lead on from home/circle: "),
        "{}",
        said.err
    );
    // A node whose write fails, and a handler.
    let failing = home.file(
        "failing.yaml",
        r#"
initial: { internal: { text: x, go: { $stream: true } } }
result: { go: { $alias: internal/go }, out: { $alias: internal/out } }
nodes:
  - module:
      type: javascript
      argumentSchema: { properties: { text: { asCell: true } } }
      implementation: "({text}) => { text.increment(1) }"
    inputs: { text: { $alias: internal/text } }
    outputs: { $alias: internal/out }
  - module:
      type: javascript
      argumentSchema: { properties: { n: true, text: { asCell: true } } }
      implementation: "({n, text}) => { text.increment(n) }"
    inputs: { n: { $alias: internal/go }, text: { $alias: internal/text } }
    outputs: {}
"#,
    );
    home.lope(&["recipes", "run", &failing, "--into", "home/failing"])
        .done();
    let shown = home.lope(&["recipes", "show", "home/failing"]).done().out;
    // What a script's function throws has the type that the script sees.
    let names = "TypeError: home/process-of-failing/internal/text is a text, not a number";
    let failed = format!("    failed: {names}");
    assert!(shown.lines().any(|line| line == failed), "{shown}");
    let says = format!("error: {names}");
    refused(
        &home,
        &["streams", "send", "home/failing/go", "1"],
        1,
        &says,
    );
}

#[test]
fn an_element_that_is_removed_leaves_no_hole() {
    let home = Home::new();
    let list = r#"{"list": [1, {"id": "b", "n": 2}, 3]}"#;
    home.lope(&["cells", "set", "home/doc", list]).done();
    let removed = home.lope(&["cells", "set", "home/doc/list/0", "--remove"]);
    assert_eq!(removed.done().out.trim_end(), "home/doc/list/0 is removed");
    assert_eq!(
        get(&home, "home/doc/list"),
        json!([{ "id": "b", "n": 2 }, 3])
    );
    home.lope(&["cells", "set", "home/doc/list/1", "--remove"])
        .done();
    home.lope(&["cells", "set", "home/doc/list/0", "--remove"])
        .done();
    assert_eq!(get(&home, "home/doc"), json!({ "list": [] }));
}

#[test]
fn an_id_that_was_used_for_something_else_is_refused_and_nothing_is_done() {
    let home = Home::new();
    let counter = home.file("counter.yaml", COUNTER);
    home.lope(&["recipes", "run", &counter, "--into", "home/counter"])
        .done();
    let send = |n: &str, more: &[&str]| {
        let send = ["streams", "send", "home/counter/add", n, "--id", "same"];
        home.lope(&[&send[..], more].concat())
    };
    for _ in 0..2 {
        assert_eq!(send("5", &[]).done().out.trim_end(), "same handled");
    }
    for more in [&[][..], &["--no-wait"]] {
        let said = send("6", more);
        let says =
            "error: something else was sent under the id 'same' before\n  hint: give another --id";
        assert_eq!((said.code, said.err.trim_end()), (3, says));
    }
    assert_eq!(get(&home, "home/counter/count"), json!(5));
}

#[test]
fn a_run_that_was_refused_leaves_no_space_behind() {
    let home = Home::new();
    let missing = home.file(
        "missing.yaml",
        "result: { $alias: internal/x }\nnodes:\n  - module: { type: ref, implementation: nosuch }\n    inputs: {}\n    outputs: { $alias: internal/x }\n",
    );
    refused(
        &home,
        &["recipes", "run", &missing, "--into", "shop/x", "--strict"],
        1,
        "error: node 0 of the recipe names 'nosuch', which is no module",
    );
    assert_eq!(home.lope(&["recipes", "run", "--into", "yard/x"]).code, 1);
    let list = home.lope(&["--json", "recipes", "list"]).done().json();
    assert_eq!(list, json!([]));
    assert!(
        home.lope(&["store", "check"])
            .done()
            .out
            .contains("is sound")
    );
    home.lope(&["recipes", "run", &missing, "--into", "shop/x"])
        .done();
    let list = home.lope(&["--json", "recipes", "list"]).done().json();
    assert_eq!(list[0]["space"], json!("shop"), "{list}");
}
