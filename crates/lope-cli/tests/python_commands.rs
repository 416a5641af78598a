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
