//! The examples of reactive spaces that are more than a few nodes, and effects that reach out of a
//! space: requests over HTTP, actions in Python.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::fixture::spaces::example;
use crate::python::Ground;
use crate::stage::{Home, until};

const CATEGORIES: [&str; 8] = [
    "rent", "food", "travel", "health", "school", "phone", "fun", "gifts",
];

/// What the sheet shows, computed from its argument alone.
fn budget(argument: &Value) -> Value {
    let number = |value: &Value| value.as_i64().unwrap();
    let spent = |category: &str, month: usize| {
        let actual = &argument["actual"][month.to_string()][category];
        let actual = actual.as_i64();
        actual.unwrap_or_else(|| number(&argument["plan"][category]))
    };
    let months: Vec<usize> = (0..12).collect();
    let earned = |month: usize| {
        let raise = if month < 6 {
            0
        } else {
            number(&argument["raise"])
        };
        number(&argument["salary"]) + raise + number(&argument["other"])
    };
    let out = |month: usize| {
        CATEGORIES
            .iter()
            .map(|category| spent(category, month))
            .sum::<i64>()
    };
    let left = |month: usize| earned(month) - out(month);
    let saved = |month: usize| number(&argument["saved"]) + (0..=month).map(left).sum::<i64>();
    let percent = |part: i64, of: i64| (100.0 * part as f64 / of as f64).round() as i64;
    let each =
        |what: &dyn Fn(usize) -> Value| months.iter().map(|month| what(*month)).collect::<Vec<_>>();
    let over = |category: &str| {
        months
            .iter()
            .map(|month| spent(category, *month))
            .sum::<i64>()
    };
    let quarter = |of: &dyn Fn(usize) -> i64, quarter: usize| {
        (3 * quarter..3 * quarter + 3).map(of).sum::<i64>()
    };
    let year = |of: &dyn Fn(usize) -> i64| months.iter().map(|month| of(*month)).sum::<i64>();
    let lefts: Vec<i64> = months.iter().map(|month| left(*month)).collect();
    let place = |wanted: i64| lefts.iter().position(|left| *left == wanted);
    let tax = (year(&earned) as f64 * number(&argument["tax"]) as f64 / 100.0).round() as i64;
    let mut sorted = CATEGORIES;
    sorted.sort_unstable();
    let most = sorted
        .into_iter()
        .rev()
        .max_by_key(|category| over(category));
    json!({
        "months": {
            "earned": each(&|month| json!(earned(month))),
            "out": each(&|month| json!(out(month))),
            "left": lefts,
            "saved": each(&|month| json!(saved(month))),
            "share": each(&|month| json!(percent(out(month), earned(month)))),
            "sign": each(&|month| json!(if left(month) < 0 { "red" } else { "black" })),
        },
        "categories": CATEGORIES.iter().map(|category| ((*category).to_owned(), over(category))).collect::<BTreeMap<_, _>>(),
        "quarters": (0..4).map(|number| json!({
            "earned": quarter(&earned, number), "out": quarter(&out, number), "left": quarter(&left, number),
        })).collect::<Vec<_>>(),
        "year": {
            "earned": year(&earned), "out": year(&out), "left": year(&left),
            "mean": (year(&out) as f64 / 12.0).round() as i64,
            "best": place(*lefts.iter().max().unwrap()), "worst": place(*lefts.iter().min().unwrap()),
            "red": lefts.iter().filter(|left| **left < 0).count(),
            "most": most, "tax": tax, "net": year(&left) - tax, "saved": saved(11) - tax,
            "reached": saved(11) - tax >= number(&argument["goal"]),
        },
    })
}

/// How often each formula ran, by the cell it writes.
fn runs(home: &Home) -> BTreeMap<String, u64> {
    let why = home.lope(&["--json", "recipes", "show", "home/budget"]);
    let why = why.done().json();
    let nodes = why["nodes"].as_array().unwrap().iter();
    let cell = |node: &Value| {
        node["writes"][0]
            .as_str()
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned()
    };
    nodes
        .map(|node| (cell(node), node["runs"].as_u64().unwrap()))
        .collect()
}

/// "a budget sheet of 200 formulas": its cells are those of a calculation that shares nothing with
/// it, and a change runs the formulas it reaches and no others.
#[test]
fn a_budget_of_two_hundred_formulas_is_right_and_a_change_runs_what_it_reaches() {
    let home = Home::new();
    let sheet = example("budget.js");
    let checked = home.lope(&["--json", "recipes", "check", &sheet]).done();
    assert_eq!(checked.json()[0]["nodes"], json!(200), "{}", checked.out);
    let argument = example("budget.json");
    let text = std::fs::read_to_string(&argument).unwrap();
    let mut planned: Value = serde_json::from_str(&text).unwrap();
    let given = format!("@{argument}");
    home.lope(&[
        "recipes",
        "run",
        &sheet,
        "--into",
        "home/budget",
        "--argument",
        &given,
    ])
    .done();
    let shown = || {
        home.lope(&["--json", "cells", "get", "home/budget"])
            .done()
            .json()
    };
    assert_eq!(shown(), budget(&planned));
    let before = runs(&home);
    assert_eq!(before.len(), 200);
    assert!(before.values().all(|runs| *runs == 1), "{before:?}");
    planned["actual"]["3"]["food"] = json!(480);
    home.lope(&[
        "recipes",
        "run",
        "--into",
        "home/budget",
        "--argument",
        &planned.to_string(),
    ])
    .done();
    assert_eq!(shown(), budget(&planned));
    let after = runs(&home);
    let ran = after.iter().filter(|(cell, runs)| before[*cell] != **runs);
    let ran: BTreeSet<&str> = ran.map(|(cell, _)| &**cell).collect();
    let saved = (3..12).map(|month| format!("saved{month}"));
    let mut reached: BTreeSet<String> = saved.collect();
    reached.extend(
        "food3 out3 left3 share3 sign3 food outQuarter1 leftQuarter1 yearOut yearLeft yearMean \
         yearBest yearWorst yearMost yearNet yearSaved yearReached"
            .split_whitespace()
            .map(str::to_owned),
    );
    assert_eq!(ran, reached.iter().map(String::as_str).collect());
    assert!(
        after.values().all(|runs| *runs <= 2),
        "each once: {after:?}"
    );
}

/// A server that answers each request with its number and what was asked.
fn echo() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let text = whole_request(&mut stream);
            let first = text.lines().next().unwrap_or_default().to_owned();
            let status = if first.contains("/missing") {
                "404 Not Found"
            } else {
                "200 OK"
            };
            let body = json!({ "asked": first }).to_string();
            seen.lock().unwrap().push(first);
            // Who went away needs no answer.
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    (url, asked)
}

/// A request with its body.
fn whole_request(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut bytes = [0; 4_096];
    loop {
        let length = stream.read(&mut bytes).unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        let head = text.split_once("\r\n\r\n");
        let is_whole = head.is_some_and(|(head, body)| {
            let head = head.to_lowercase();
            let mut lines = head
                .lines()
                .filter_map(|line| line.strip_prefix("content-length:"));
            let wanted = lines
                .next()
                .map_or(0, |length| length.trim().parse().unwrap());
            body.len() >= wanted
        });
        if is_whole || length == 0 {
            return text;
        }
    }
}

/// A runner that ends with its test.
struct EffectRunner(Child);

impl EffectRunner {
    fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for EffectRunner {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn effect_recipe(name: &str) -> String {
    format!(
        "result: {{ done: {{ $alias: internal/done }} }}\nnodes:\n  - module: {{ type: ref, implementation: effect }}\n    inputs: {{ name: {name}, request: {{ $alias: argument/request }} }}\n    outputs: {{ $alias: internal/done }}\n"
    )
}

/// "effects (pending/result/error/requestHash; once per request; after commit)": a request over HTTP
/// is a durable run of one step.
#[test]
fn a_request_over_http_is_an_effect_and_its_answer_or_error_lands_in_the_cell() {
    let home = Home::new();
    let (url, asked) = echo();
    let recipe = home.file("http.yaml", &effect_recipe("http"));
    let ask = |request: Value| {
        let argument = json!({ "request": request }).to_string();
        home.lope(&[
            "recipes",
            "run",
            &recipe,
            "--into",
            "home/http",
            "--argument",
            &argument,
        ])
        .done();
    };
    let shown = || {
        home.lope(&["--json", "cells", "get", "home/http/done"])
            .done()
            .json()
    };
    ask(json!({ "url": format!("{url}/one") }));
    assert_eq!(shown()["pending"], json!(true), "nobody works yet");
    let _runner = EffectRunner::start(home.command(&["up", "--http", "off"]));
    until("the answer is there", || shown()["pending"] == json!(false));
    let first = shown();
    assert_eq!(first["result"]["status"], json!(200), "{first}");
    assert_eq!(
        first["result"]["body"],
        json!({ "asked": "GET /one HTTP/1.1" })
    );
    assert!(
        first["requestHash"].is_string() && first.get("error").is_none(),
        "{first}"
    );
    ask(json!({ "url": format!("{url}/one") }));
    ask(json!({ "url": format!("{url}/missing"), "method": "POST", "body": { "n": 1 } }));
    until("the error is there", || shown().get("error").is_some());
    let second = shown();
    assert_eq!(second["error"]["type"], json!("HttpStatus"), "{second}");
    assert!(second.get("result").is_none() && second["requestHash"] != first["requestHash"]);
    ask(json!({ "url": format!("{url}/missing"), "accept": [404] }));
    until("a status that is accepted is an answer", || {
        shown()["result"]["status"] == json!(404)
    });
    ask(json!({ "nothing": 1 }));
    until("a request that is none is told", || {
        shown()["error"]["type"] == json!("BadInput")
    });
    assert_eq!(
        *asked.lock().unwrap(),
        [
            "GET /one HTTP/1.1",
            "POST /missing HTTP/1.1",
            "GET /missing HTTP/1.1"
        ],
        "once per request"
    );
}

const APP: &str = r#"
from lope import action

@action
async def greet(name: str) -> str:
    if name == "nobody":
        raise ValueError("nobody is there")
    return "Hello " + name
"#;

/// "Python actions as effects"
#[test]
fn an_action_in_python_is_an_effect_and_its_error_lands_in_the_cell() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let recipe = ground.file("action.yaml", &effect_recipe("action"));
    let ask = |name: &str| {
        let request = json!({ "action": "greet", "with": { "name": name } });
        let argument = json!({ "request": request }).to_string();
        let args = [
            "recipes",
            "run",
            &recipe,
            "--into",
            "home/mail",
            "--argument",
            &argument,
        ];
        let ran = ground.lope(&args);
        assert!(ran.status.success(), "{ran:?}");
    };
    let shown = || ground.json(&["--json", "cells", "get", "home/mail/done"]);
    ask("Ann");
    let _runner = EffectRunner::start(ground.command(&["up", "--http", "off", "--python", "app"]));
    until("the greeting is there", || {
        shown()["result"] == json!("Hello Ann")
    });
    ask("nobody");
    until("the error is there", || {
        shown()["error"] == json!({ "type": "ValueError", "message": "nobody is there" })
    });
    assert_eq!(shown()["pending"], json!(false));
}

/// "`ref` (missing → a warning on the process cell, that node skipped, the others run; `--strict`
/// fails)"
#[test]
fn a_strict_run_fails_when_a_module_is_missing_and_leaves_nothing() {
    let home = Home::new();
    let recipe = home.file(
        "lame.yaml",
        "result: { sum: { $alias: internal/sum } }\nnodes:\n  - module: { type: ref, implementation: nobody }\n    inputs: {}\n    outputs: { $alias: internal/none }\n  - module: { type: javascript, implementation: \"() => 5\" }\n    inputs: {}\n    outputs: { $alias: internal/sum }\n",
    );
    let refused = home.lope(&["recipes", "run", &recipe, "--into", "home/lame", "--strict"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("names 'nobody', which is no module"),
        "{}",
        refused.err
    );
    assert!(
        !home
            .lope(&["recipes", "list"])
            .done()
            .out
            .contains("home/lame")
    );
    assert_eq!(home.lope(&["cells", "get", "home/lame"]).code, 1);
    home.lope(&["recipes", "run", &recipe, "--into", "home/lame"])
        .done();
    let shown = home.lope(&["recipes", "show", "home/lame"]).done().out;
    assert!(
        shown.contains("  warning: node 0: 'nobody' is no module; the node is left out"),
        "{shown}"
    );
    let sum = home
        .lope(&["--json", "cells", "get", "home/lame/sum"])
        .done();
    assert_eq!(sum.json(), json!(5), "the others run");
}
