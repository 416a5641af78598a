//! What `lope run` and `lope up` do beside the steps: whose runs they take, where secrets and
//! messages go, what they delete.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::{Child, Command, Output};

use serde_json::Value;

use crate::stage::until;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(home.path().join(".lope")).unwrap();
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path());
        command
    }

    fn lope(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.lope(args);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {output:?}"))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn config(&self, text: &str) {
        self.file(".lope/config.yaml", text);
    }

    fn marks(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join("marks")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A process that is killed when the test is over.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// "Only registered runners own runs; `lope run` owns its own; other commands admit, deliver,
/// query."
#[test]
fn a_run_at_the_terminal_takes_nobody_elses_work_and_sees_its_children_through() {
    let home = Home::new();
    let other = home.file(
        "other.yaml",
        "name: other\nsteps: { a: { run: [echo, other] } }",
    );
    let child = home.file(
        "child.yaml",
        "name: child\nsteps: { c: { run: [echo, '${{ input.n }}'] } }",
    );
    let parent = home.file(
        "parent.yaml",
        "name: parent\nsteps: { k: { workflow: child, with: { n: 4 } }, r: { return: '${{ k * 2 }}' } }",
    );
    let waiting = home.json(&["start", &other, "--json"])["run_id"].clone();
    assert!(home.lope(&["workflows", "deploy", &child]).status.success());
    let done = home.json(&["run", &parent, "--json"]);
    assert_eq!(
        (&done["status"], &done["result"]),
        (&"completed".into(), &8.into()),
        "{done}"
    );
    let listed = home.json(&["runs", "list", "--json"]);
    let of = |workflow: &str| {
        listed
            .as_array()
            .unwrap()
            .iter()
            .find(|run| run["workflow"] == workflow)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&of("other")["status"], &of("other")["run_id"]),
        (&"queued".into(), &waiting)
    );
    assert_eq!(of("child")["status"], "completed");
}

#[test]
fn a_killed_run_goes_on_with_the_child_it_waited_for() {
    let home = Home::new();
    let at = home.path().display().to_string();
    let gated = format!(
        "echo in >> {at}/marks; until [ -e {at}/gate ]; do sleep 0.02; done; echo c >> {at}/marks; echo 5"
    );
    let child = home.file(
        "child.yaml",
        &format!(
            "name: child\nsteps: {{ a: {{ run: \"echo a >> {at}/marks\" }}, c: {{ run: \"{gated}\", needs: [a] }} }}"
        ),
    );
    let parent = home.file(
        "parent.yaml",
        "name: parent\nsteps: { k: { workflow: child }, r: { return: '${{ k }}' } }",
    );
    assert!(home.lope(&["workflows", "deploy", &child]).status.success());
    let mut first = home
        .command(&["run", &parent, "--key", "k", "-q"])
        .spawn()
        .unwrap();
    until("the child is at its second step", || {
        home.marks() == ["a", "in"]
    });
    first.kill().unwrap();
    first.wait().unwrap();
    home.file("gate", "");
    let done = home.json(&["run", &parent, "--key", "k", "--json"]);
    assert_eq!(done["result"], 5, "{done}");
    assert_eq!(
        home.marks().iter().filter(|mark| *mark == "a").count(),
        1,
        "settled steps of the child did not run again"
    );
}

/// "Secrets are named in definitions and resolved at dispatch, never journalled."
#[test]
fn secrets_reach_the_step_and_are_seen_nowhere_else() {
    let home = Home::new();
    home.config(
        "secrets: { token: { env: TOKEN }, gone: { file: /nowhere/at/all } }\nenv: [REGION]",
    );
    let text = "name: s\nsteps:\n  a: { run: [sh, -c, 'test ${#T} = 12 && echo got $T && echo err $T >&2'], env: { T: '${{ secrets.token }}' } }\n  r: { return: ['${{ a }}', '${{ env.REGION }}'] }\n";
    let file = home.file("s.yaml", text);
    let output = home
        .command(&["run", &file, "--json"])
        .env("TOKEN", "hush-hush-42")
        .env("REGION", "north")
        .output()
        .unwrap();
    let done: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(
        done["result"],
        serde_json::json!(["got ***", "north"]),
        "{done}"
    );
    let logs = home.lope(&["runs", "logs", done["run_id"].as_str().unwrap()]);
    let logs = String::from_utf8(logs.stdout).unwrap();
    assert!(logs.contains("err ***") && !logs.contains("hush"), "{logs}");
    for file in ["lope.db", "lope.db-wal"] {
        let bytes = std::fs::read(home.path().join(".lope").join(file)).unwrap_or_default();
        assert!(
            !bytes.windows(12).any(|part| part == b"hush-hush-42"),
            "{file} holds the secret"
        );
    }
    let missing = home.json(&["run", &file, "--json"]);
    assert_eq!(missing["error"]["type"], "MissingSecret", "{missing}");
    assert!(
        missing["error"]["message"]
            .as_str()
            .unwrap()
            .contains("TOKEN"),
        "{missing}"
    );
    let gone = home.file(
        "g.yaml",
        "name: g\nsteps: { a: { run: [echo, '${{ secrets.gone }}'] } }",
    );
    let gone = home.json(&["run", &gone, "--json"]);
    assert!(
        gone["error"]["message"]
            .as_str()
            .unwrap()
            .contains("/nowhere/at/all"),
        "{gone}"
    );
}

/// "`send` a message to a mailbox": in the commit of its step, under an id of run and execution.
#[test]
fn a_message_to_a_mailbox_goes_with_the_commit() {
    let home = Home::new();
    let file = home.file("m.yaml", "name: m\nsteps: { tell: { send: { mailbox: '7', payload: { pick: '${{ input }}' } } }, r: { return: 1, needs: [tell] } }");
    let done = home.json(&["run", &file, "--input", "17", "--json"]);
    assert_eq!(done["status"], "completed", "{done}");
    let listed = home.json(&["mailbox", "list", "7", "--json"]);
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert!(
        listed[0]
            .to_string()
            .contains(&format!("{}/tell", done["run_id"].as_str().unwrap())),
        "{listed:?}"
    );
    let bad = home.file(
        "b.yaml",
        "name: b\nsteps: { tell: { send: { mailbox: nobody, payload: 1 } } }",
    );
    let output = home.lope(&["run", &bad]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("'nobody' is not a mailbox"),
        "{output:?}"
    );
}

/// "Retention by age and status; pruning in batches that do not block work." "Retention is on by
/// default (completed runs 30 days, configurable per workflow), pruned in small batches."
#[test]
fn finished_runs_leave_the_store_when_their_time_is_over() {
    let home = Home::new();
    let short = home.file("short.yaml", "name: short\nsteps: { a: { let: 1 } }");
    let kept = home.file("kept.yaml", "name: kept\nsteps: { a: { let: 1 } }");
    for file in [&short, &kept, &short] {
        assert!(home.lope(&["run", file, "-q"]).status.success());
    }
    home.config("engine: { retention: forever }\nretention: { short: 0s }");
    let _up = Kept(home.command(&["up", "-q"]).spawn().unwrap());
    let workflows = || {
        let listed = home.json(&["runs", "list", "--json"]);
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["workflow"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    until("what is too old is deleted", || workflows() == ["kept"]);
}

/// `queues: {concurrency}`: never more runs of the queue at work at once in a runner.
#[test]
fn a_queue_with_a_limit_is_worked_off_one_by_one() {
    let home = Home::new();
    home.config("queues: { default: { concurrency: 1 } }");
    let at = home.path().display().to_string();
    let step = format!("mkdir {at}/busy && sleep 0.05 && rmdir {at}/busy && echo x >> {at}/marks");
    let file = home.file(
        "one.yaml",
        &format!("name: one\nsteps: {{ a: {{ run: \"{step}\" }} }}"),
    );
    for _ in 0..4 {
        assert!(home.lope(&["start", &file]).status.success());
    }
    let _up = Kept(home.command(&["up", "-q"]).spawn().unwrap());
    until("all are done", || {
        home.json(&["runs", "list", "--json"])
            .as_array()
            .unwrap()
            .iter()
            .all(|run| run["status"] != "queued" && run["status"] != "running")
    });
    let failed = home.json(&["runs", "list", "--status", "failed", "--json"]);
    assert_eq!(
        (failed.as_array().unwrap().len(), home.marks().len()),
        (0, 4),
        "two were at work at once: {failed}"
    );
}

/// `queues: {priority}` is "that of runs started without one", whoever starts them.
#[test]
fn a_run_a_start_and_a_message_have_the_priority_of_their_queue() {
    let home = Home::new();
    home.config("queues: { default: { priority: 7 } }");
    let file = home.file("one.yaml", "name: one\nsteps: { a: { let: 1 } }");
    let done = |args: &[&str]| {
        let output = home.lope(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    done(&["run", &file, "--key", "run"]);
    done(&["run", &file, "--key", "detached", "--detach"]);
    done(&["start", &file, "--key", "start"]);
    done(&["start", &file, "--key", "said", "--priority", "2"]);
    done(&["mailbox", "send", "7", "--payload", "{}", "--id", "m1"]);
    done(&["mailbox", "work", "7", "--until-idle", "--workflow", &file]);
    let runs = home.json(&["runs", "list", "--json"]);
    let mut priorities: Vec<(&str, i64)> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            (
                run["key"].as_str().unwrap(),
                run["priority"].as_i64().unwrap(),
            )
        })
        .collect();
    priorities.sort_unstable();
    assert_eq!(
        priorities,
        [
            ("detached", 7),
            ("mailbox:7:m1", 7),
            ("run", 7),
            ("said", 2),
            ("start", 7)
        ]
    );
}
