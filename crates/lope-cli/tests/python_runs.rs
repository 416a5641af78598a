//! Runs of workflows in Python through the binary: places in the source, objects made by workers,
//! runs that are left and gone on with, children of other realms, workers from elsewhere.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::python;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use python::Ground;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
/// A token is at least sixteen letters long.
const TOKEN: &str = "a-token-for-this-test";

const APP: &str = r#"
import asyncio
import os
from dataclasses import dataclass
from lope import action, workflow

@dataclass
class Box:
    side: int
    area: int = 0

    def __post_init__(self) -> None:
        self.area = self.side * self.side

@action
async def echo(value: str) -> str:
    return value

@action
async def gate(path: str) -> str:
    while not os.path.exists(path):
        await asyncio.sleep(0.01)
    return "open"

@workflow
async def boxed(n: int) -> int:
    box = Box(n)
    return box.area

@workflow
async def looks(prices: dict[str, int]) -> int:
    known = len(prices)
    return known + prices["missing"]

@workflow
async def gated(path: str) -> str:
    first = await echo("it is ")
    return first + await gate(path)

@workflow
async def greets(name: str) -> str:
    return await echo("Hello " + name)
"#;

const PARENT: &str = "
name: parent
steps:
  child: { workflow: greets, with: { name: Ann } }
  done: { return: '${{ child }}' }
";

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(ground: &Ground, args: &[&str]) -> Process {
    let mut command = ground.command(args);
    Process(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    )
}

/// Ask again and again until the answer is a yes.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn line_of(text: &str) -> usize {
    APP.lines().position(|line| line.contains(text)).unwrap() + 1
}

/// "dataclass, pydantic and enum construction": what only Python can make is made by a worker.
#[test]
fn an_object_with_a_say_in_its_making_is_made_by_a_worker() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let ended = ground.json(&["run", "app.py:boxed", "--input", "3", "--json"]);
    assert_eq!(
        (&ended["status"], &ended["result"]),
        (&json!("completed"), &json!(9)),
        "{ended}"
    );
    let shown = ground.json(&["runs", "show", ended["run_id"].as_str().unwrap(), "--json"]);
    let executions = shown["executions"].as_array().unwrap();
    assert!(
        executions.iter().any(|it| it["worker"]
            .as_str()
            .is_some_and(|worker| worker.starts_with("python-"))),
        "{shown}"
    );
}

/// "Definitions keep source positions, so that graphs, errors and the dashboard point at the user's
/// lines."
#[test]
fn errors_and_steps_name_the_line_they_were_written_on() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let ended = ground.json(&[
        "run",
        "app.py:looks",
        "--input",
        r#"{"prices": {}}"#,
        "--json",
    ]);
    let place = format!("app.py:{}", line_of("prices[\"missing\"]"));
    assert_eq!(
        (&ended["error"]["type"], &ended["error"]["source"]),
        (&json!("KeyError"), &json!(place)),
        "{ended}"
    );
    let run = ended["run_id"].as_str().unwrap();
    let said = ground.lope(&["runs", "wait", run]);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains(&format!("failed: KeyError: 'missing' ({place})")),
        "{said}"
    );
    let shown = ground.json(&["runs", "show", run, "--json"]);
    let known = format!("app.py:{}", line_of("known = len"));
    assert!(
        shown["executions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["source"] == json!(known)),
        "{shown}"
    );
    ground.file(
        "flow.yaml",
        "name: flow\nsteps:\n  bad: { raise: { type: Bad, message: no } }\n",
    );
    let ended = ground.json(&["run", "flow.yaml", "--json"]);
    assert_eq!(ended["error"]["source"], "flow.yaml:3", "{ended}");
}

fn left_at_the_gate(ground: &Ground, target: &str, gate: &str) -> String {
    let input = json!({ "path": gate }).to_string();
    let mut left = spawn(ground, &["run", target, "--input", &input]);
    let run = until("the run is at its gate", || {
        let runs = ground.lope(&["runs", "list", "--status", "running", "--json"]);
        let runs: Value = serde_json::from_slice(&runs.stdout).ok()?;
        let run = runs.as_array()?.first()?["run_id"].as_str()?.to_owned();
        let shown = ground.json(&["runs", "show", &run, "--json"]);
        let at_gate = shown["executions"]
            .as_array()?
            .iter()
            .any(|it| it["attempts"][0]["action"] == "gate");
        at_gate.then_some(run)
    });
    left.0.kill().unwrap();
    left.0.wait().unwrap();
    run
}

#[test]
fn a_run_that_was_left_goes_on_with_its_module() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let gate = ground.path().join("gate").display().to_string();
    let run = left_at_the_gate(&ground, "app.py:gated", &gate);
    ground.file("gate", "");
    let ended = ground.json(&["run", "--resume", &run, "--json"]);
    assert_eq!(
        (&ended["status"], &ended["result"]),
        (&json!("completed"), &json!("it is open")),
        "{ended}"
    );
}

#[test]
fn a_run_of_a_module_elsewhere_is_gone_on_with_by_its_name() {
    let Some(ground) = Ground::new() else { return };
    std::fs::create_dir(ground.path().join("sub")).unwrap();
    ground.file("sub/app.py", APP);
    let gate = ground.path().join("gate").display().to_string();
    let run = left_at_the_gate(&ground, "sub/app.py:gated", &gate);
    ground.file("gate", "");
    let refused = |args: &[&str]| {
        let output = ground.lope(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["run", "--resume", &run]);
    assert!(
        said.contains("the module 'app' cannot be imported"),
        "{said}"
    );
    let said = refused(&["run", "other.py:gated", "--resume", &run]);
    assert!(
        said.contains("is not of the module of 'other.py:gated'") && said.contains("python:app"),
        "{said}"
    );
    let said = refused(&["run", "flow.yaml", "--resume", &run]);
    assert!(said.contains("cannot be given with --resume"), "{said}");
    let ended = ground.json(&["run", "sub/app.py:gated", "--resume", &run, "--json"]);
    assert_eq!(
        (&ended["status"], &ended["result"]),
        (&json!("completed"), &json!("it is open")),
        "{ended}"
    );
}

/// "a runner without your Python module does not take your run", nor your child.
#[test]
fn a_child_in_python_waits_for_a_runner_with_its_module() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let parent = ground.file("parent.yaml", PARENT);
    ground.json(&["workflows", "deploy", "app.py:greets", "--json"]);
    let run = ground.json(&["start", &parent, "--json"])["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let _without = spawn(&ground, &["up"]);
    let child = until("the child is there", || {
        let runs = ground.json(&["runs", "list", "--workflow", "greets", "--json"]);
        runs.as_array()?.first().cloned()
    });
    assert_eq!(
        ground.json(&["runs", "show", &run, "--json"])["realm"],
        "default"
    );
    assert_eq!(
        (&child["realm"], &child["status"]),
        (&json!("python:app"), &json!("queued")),
        "{child}"
    );
    let _with = spawn(&ground, &["up", "--python", "app.py", "--processes", "1"]);
    let ended = ground.json(&["runs", "wait", &run, "--timeout", "60s", "--json"]);
    assert_eq!(ended["result"], "Hello Ann", "{ended}");
}

/// "Remote workers connect with a token over TCP": a runner with no module of its own takes the
/// runs that they can do.
#[test]
fn workers_from_elsewhere_bring_their_module() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let run = ground.json(&["start", "app.py:greets", "--input", "\"Bo\"", "--json"]);
    let run = run["run_id"].as_str().unwrap().to_owned();
    let mut up = ground.command(&["up", "--workers", "127.0.0.1:0"]);
    up.env("LOPE_WORKER_TOKEN", TOKEN)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut up = Process(up.spawn().unwrap());
    let mut lines = BufReader::new(up.0.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        line.unwrap()
            .split_once("may connect to ")
            .map(|(_, it)| it.to_owned())
    });
    // What it says later must go somewhere.
    std::thread::spawn(move || lines.for_each(drop));
    let mut worker = ground.python(&["-m", "lope", "worker", "--module", "app", "--connect"]);
    worker
        .arg(format!("tcp://{}", address.unwrap()))
        .env("LOPE_WORKER_TOKEN", TOKEN);
    let _worker = Process(
        worker
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let ended = ground.json(&["runs", "wait", &run, "--timeout", "60s", "--json"]);
    assert_eq!(ended["result"], "Hello Bo", "{ended}");
}

/// A runner that takes workers from elsewhere, and where they connect.
fn listening(ground: &Ground) -> (Process, String) {
    let mut up = ground.command(&["up", "--http", "off", "--workers", "127.0.0.1:0"]);
    up.env("LOPE_WORKER_TOKEN", TOKEN)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut up = Process(up.spawn().unwrap());
    let mut lines = BufReader::new(up.0.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        line.unwrap()
            .split_once("may connect to ")
            .map(|(_, it)| it.to_owned())
    });
    std::thread::spawn(move || lines.for_each(drop));
    (up, address.unwrap())
}

fn remote_worker(ground: &Ground, address: &str) -> Process {
    let mut worker = ground.python(&["-m", "lope", "worker", "--module", "app", "--connect"]);
    worker
        .arg(format!("tcp://{address}"))
        .env("LOPE_WORKER_TOKEN", TOKEN);
    Process(
        worker
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    )
}

fn terminate(process: &Process) {
    let pid = process.0.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(sent.unwrap().success());
}

/// "a remote worker obeys SIGTERM at once", with a runner that answers and with one that is frozen;
/// "`runs why` knows when the only worker of an action is gone".
#[test]
fn a_worker_that_is_told_to_go_goes_and_its_run_knows() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let (up, address) = listening(&ground);
    let mut idle = remote_worker(&ground, &address);
    let gate = ground.path().join("gate").display().to_string();
    let input = json!({ "path": gate }).to_string();
    let run = ground.json(&["start", "app.py:gated", "--input", &input, "--json"]);
    let run = run["run_id"].as_str().unwrap().to_owned();
    let why = || {
        let said = ground.json(&["runs", "why", &run, "--json"]);
        said["reasons"][0].clone()
    };
    until("the action is at work", || {
        let why = why();
        (why["why"] == "working" && why["message"].as_str()?.contains("gate")).then_some(())
    });
    idle.0.kill().unwrap();
    idle.0.wait().unwrap();
    let told = until("the run says that its worker is gone", || {
        let why = why();
        (why["why"] == "no_worker").then_some(why)
    });
    assert!(
        told["hint"]
            .as_str()
            .unwrap()
            .contains("python -m lope worker"),
        "{told}"
    );
    let mut next = remote_worker(&ground, &address);
    ground.file("gate", "");
    let ended = ground.json(&["runs", "wait", &run, "--timeout", "60s", "--json"]);
    assert_eq!(ended["result"], "it is open", "{ended}");
    let ends = |worker: &mut Process| {
        let ended = until("the worker ends", || worker.0.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
    };
    terminate(&next);
    ends(&mut next);
    let mut last = remote_worker(&ground, &address);
    let run = ground.json(&["start", "app.py:greets", "--input", "\"Bo\"", "--json"]);
    ground.json(&["runs", "wait", run["run_id"].as_str().unwrap(), "--json"]);
    let frozen = up.0.id().to_string();
    let stop = |word: &str| {
        let sent = std::process::Command::new("kill")
            .args([word, &frozen])
            .status();
        assert!(sent.unwrap().success());
    };
    stop("-STOP");
    terminate(&last);
    ends(&mut last);
    stop("-CONT");
}
