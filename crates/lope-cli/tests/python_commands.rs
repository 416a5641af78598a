//! Python from the command line: run, start, deploy, up, and what is said when something is
//! missing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::python;

use std::process::Stdio;

use python::Ground;
use serde_json::json;

const APP: &str = r#"
from dataclasses import dataclass
from lope import Retry, action, gather, workflow

print("loaded")

@dataclass
class User:
    name: str
    email: str
    active: bool = True

@action(retry=Retry(3, base="10ms"))
async def send_email(to: str, subject: str) -> dict[str, str]:
    print("sending to", to)
    return {"to": to, "subject": subject}

@workflow
async def welcome(users: list[User]) -> list[dict[str, str]]:
    active = [u for u in users if u.active]
    return await gather(*[send_email(u.email, f"Hello {u.name}") for u in active])

@workflow
async def outer(name: str) -> list[dict[str, str]]:
    return await welcome([User(name, name + "@x")])
"#;

const USERS: &str =
    r#"{"users": [{"name": "A", "email": "a@x"}, {"name": "B", "email": "b@x", "active": false}]}"#;

#[test]
fn a_workflow_in_python_runs_to_its_end() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let ended = ground.json(&["run", "app.py:welcome", "--input", USERS, "--json"]);
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(
        ended["result"],
        json!([{ "to": "a@x", "subject": "Hello A" }])
    );
    let logs = ground.lope(&["runs", "logs", ended["run_id"].as_str().unwrap()]);
    assert!(String::from_utf8_lossy(&logs.stdout).contains("out sending to a@x"));
    let child = ground.json(&["run", "app:outer", "--input", r#"{"name": "C"}"#, "--json"]);
    assert_eq!(
        child["result"],
        json!([{ "to": "C@x", "subject": "Hello C" }]),
        "{child}"
    );
}

/// "a runner without your Python module does not take your run"
#[test]
fn a_runner_without_the_module_does_not_take_its_runs() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    let deployed = ground.json(&["workflows", "deploy", "app.py:outer", "--json"]);
    let names: Vec<&str> = deployed
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["workflow"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["outer", "welcome"], "with those it starts");
    let run = ground.json(&["start", "app.py:welcome", "--input", USERS, "--json"]);
    let run = run["run_id"].as_str().unwrap().to_owned();
    assert_eq!(
        ground.json(&["runs", "show", &run, "--json"])["realm"],
        "python:app"
    );
    let up = |args: &[&str]| {
        let mut command = ground.command(&[&["up"], args].concat());
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut without = up(&[]);
    let waited = ground.lope(&["runs", "wait", &run, "--timeout", "2s", "--json"]);
    assert!(!waited.status.success());
    assert_eq!(
        ground.json(&["runs", "show", &run, "--json"])["status"],
        "queued"
    );
    let mut with = up(&["--python", "app.py", "--processes", "1"]);
    let ended = ground.json(&["runs", "wait", &run, "--timeout", "60s", "--json"]);
    for runner in [&mut without, &mut with] {
        runner.kill().unwrap();
        runner.wait().unwrap();
    }
    assert_eq!(ended["status"], "completed", "{ended}");
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_a_hint() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    ground.file("broken.py", "import nothing_like_this\n");
    let refused = |args: &[&str], code: i32| {
        let output = ground.lope(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["run", "app.py:nobody"], 2);
    assert!(
        said.contains("app has no @workflow 'nobody'; there are: outer, welcome"),
        "{said}"
    );
    let said = refused(&["run", "missing.py:x"], 2);
    assert!(said.contains("there is no module 'missing'"), "{said}");
    let said = refused(&["run", "broken.py:x"], 2);
    assert!(
        said.contains("broken.py\", line 1") && said.contains("nothing_like_this"),
        "{said}"
    );
    let said = refused(
        &[
            "run",
            "app.py:welcome",
            "--input",
            r#"{"users": [{"name": 1}]}"#,
        ],
        2,
    );
    assert!(said.contains("users"), "{said}");
    let said = refused(&["up", "--python", "broken.py", "--processes", "1"], 2);
    assert!(
        said.contains("the module 'broken' cannot be imported: ModuleNotFoundError"),
        "{said}"
    );
    let said = refused(
        &["run", "app.py:welcome", "--python-bin", "no/such/python"],
        2,
    );
    assert!(
        said.contains("cannot be started") && said.contains("hint: install Python 3.10"),
        "{said}"
    );
    let said = refused(&["up", "--workers", "127.0.0.1:0"], 2);
    assert!(said.contains("LOPE_WORKER_TOKEN"), "{said}");
    let mut bare = ground.command(&["run", "app.py:welcome"]);
    let bare = bare.env_remove("PYTHONPATH").output().unwrap();
    let said = String::from_utf8_lossy(&bare.stderr).into_owned();
    assert!(
        said.contains("does not have the package lope") && said.contains("pip install lope"),
        "{said}"
    );
}

/// "`lope run app.py` lists the workflows in it"; "`lope workflows check|graph app.py:w`".
#[test]
fn the_workflows_of_a_module_are_listed_checked_and_drawn() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", APP);
    ground.file(
        "bad.py",
        "from lope import workflow\n\n@workflow\nasync def bad() -> int:\n    return nowhere\n",
    );
    ground.file("empty.py", "x = 1\n");
    let said = |args: &[&str], code: i32| {
        let output = ground.lope(args);
        let (out, err) = (output.stdout, String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
        (String::from_utf8(out).unwrap(), err)
    };
    for command in ["run", "start"] {
        let (out, err) = said(&[command, "app.py"], 2);
        assert_eq!(out, "");
        assert!(
            err.contains("app.py has 2 workflows; say which:")
                && err.contains("\n  welcome(users: list[app.User])")
                && err.contains("\n  outer(name: str)")
                && err.contains("hint: write app.py:welcome"),
            "{err}"
        );
    }
    assert!(
        said(&["run", "empty.py"], 2)
            .1
            .contains("no @workflow in empty.py")
    );
    let (out, _) = said(&["workflows", "check", "app.py:outer"], 0);
    assert!(out.contains("app.py:outer: outer is sound"), "{out}");
    let (out, err) = said(&["workflows", "check", "app.py", "bad.py"], 2);
    assert!(
        out.contains("app.py:welcome: welcome is sound") && out.contains("app.py:outer"),
        "{out}"
    );
    assert!(
        err.contains("bad.py:5:12: the name 'nowhere' is not defined"),
        "{err}"
    );
    let checked = ground.json(&["workflows", "check", "app.py", "bad.py:bad", "--json"]);
    let sound: Vec<bool> = checked
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["ok"] == true)
        .collect();
    assert_eq!(sound, [true, true, false], "{checked}");
    let (out, _) = said(&["workflows", "graph", "app.py:outer"], 0);
    assert!(out.contains("welcome"), "{out}");
    assert!(
        said(&["workflows", "graph", "app.py"], 2)
            .1
            .contains("say which")
    );
}

const TYPES: &str = r#"
from collections import OrderedDict
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from uuid import UUID
import enum
from lope import action, workflow

class Colour(enum.Enum):
    RED = "red"

@dataclass
class Bill:
    total: Decimal
    at: date

@action
async def bill(n: int) -> Bill:
    return Bill(Decimal("1.50") * n, date(2024, 2, 29))

@action
def breaks(n: int) -> int:
    return 1 // n

@workflow
async def typed(n: int) -> dict:
    made = await bill(n)
    return {"bill": made, "pair": (1, {2}), "id": UUID(int=n), "colour": Colour.RED, "span": timedelta(days=1), "keys": {1: "a"}}

@workflow
async def fails(n: int) -> int:
    return await breaks(n)
"#;

/// "`--json`, tables and logs print plain JSON (tuple and set as list, dataclass as object, Decimal,
/// datetime, UUID as text); `--tagged` keeps types."
#[test]
fn values_are_printed_as_plain_json_and_keep_their_types_if_asked() {
    let Some(ground) = Ground::new() else { return };
    ground.file("app.py", TYPES);
    let plain = json!({
        "bill": { "total": "4.50", "at": "2024-02-29" }, "pair": [1, [2]],
        "id": "00000000-0000-0000-0000-000000000003", "colour": "red", "span": 86_400, "keys": { "1": "a" },
    });
    let ended = ground.json(&["run", "app.py:typed", "--input", "3", "--json"]);
    assert_eq!(ended["result"], plain, "{ended}");
    let run = ended["run_id"].as_str().unwrap();
    for args in [
        &["runs", "show", run, "--json"][..],
        &["runs", "wait", run, "--json"],
        &["runs", "results", run, "--json"],
    ] {
        let said = ground.json(args);
        let found = if said.is_array() { &said[0] } else { &said };
        assert_eq!(found["result"], plain, "{args:?}");
        assert!(!said.to_string().contains("$tag"), "{args:?}: {said}");
    }
    for args in [
        &["runs", "list", "--json"][..],
        &["runs", "journal", run, "--json"],
    ] {
        let said = ground.json(args).to_string();
        assert!(!said.contains("$tag"), "{args:?}: {said}");
    }
    let text = ground.lope(&["runs", "wait", run]);
    let text: serde_json::Value = serde_json::from_slice(&text.stdout).unwrap();
    assert_eq!(text, plain);
    let tagged = ground.json(&["runs", "wait", run, "--json", "--tagged"]);
    assert_eq!(
        tagged["result"]["pair"],
        json!({ "$tag": ["tuple", [1, { "$tag": ["set", [2]] }]] })
    );
    assert_eq!(
        tagged["result"]["bill"]["$tag"][1]["total"],
        json!({ "$tag": ["decimal", "4.50"] })
    );
}

/// "a failed `lope run` shows the action's own line"
#[test]
fn a_failed_run_shows_the_line_of_the_action() {
    let Some(ground) = Ground::new() else { return };
    let file = ground.file("app.py", TYPES);
    let output = ground.lope(&["run", "app.py:fails", "--input", "0"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    let line = |text: &str| TYPES.lines().position(|line| line.contains(text)).unwrap() + 1;
    assert!(
        said.contains(&format!("(app.py:{})", line("return await breaks"))),
        "where the workflow was: {said}"
    );
    let own = format!("raised in {file}:{}, breaks: return 1 // n", line("1 // n"));
    assert!(said.contains(&own), "{said}");
}
