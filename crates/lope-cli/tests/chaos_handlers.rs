//! Programs and workflows as handlers, in workers that are killed with `kill -9` again and again:
//! no message is lost, none has its effect twice, and a killed worker's messages need no waiting.
//!
//! A few kills in the normal tests, many when `LOPE_CHAOS` is `full`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Messages a kill.
const WAVE: usize = 8;
const PYTHON: &str = "from lope import action\n\n@action\nasync def handle(message: dict) -> str:\n    return message['id']\n";
const WORKFLOW: &str = "name: order\nsteps: { done: { return: '${{ input }}' } }\n";

struct Home {
    folder: tempfile::TempDir,
    store: Option<String>,
    /// The first of this home's workers; the store on Postgres is one for all tests.
    worker: u64,
}

impl Home {
    fn on_sqlite() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            store: None,
            worker: 10,
        }
    }

    fn on_postgres(number: u64) -> Option<Self> {
        if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
            return None;
        }
        let url = std::env::var("LOPE_TEST_POSTGRES");
        let url = url.expect(
            "LOPE_TEST_POSTGRES names a server: `cargo xtask test`, or `cargo xtask with COMMAND`",
        );
        let worker = 1_000_000_000 + u64::from(std::process::id()) * 1_000 + number;
        Some(Self {
            store: Some(url),
            worker,
            ..Self::on_sqlite()
        })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_clear();
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path());
        command.envs(self.store.iter().map(|store| ("LOPE_STORE", store)));
        command.envs(std::env::var_os("LOPE_TEST_PYTHON").map(|path| ("LOPE_PYTHON", path)));
        command.env(
            "PYTHONPATH",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../python"),
        );
        command
    }

    fn lope(&self, args: &[&str]) -> Output {
        let output = self.command(args).output().unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.lope(&[args, &["--json"]].concat()).stdout).unwrap()
    }

    /// Send a wave of messages, start a worker on them, kill it after a while; at last let one
    /// finish. Answers with how many messages there were.
    fn kill_again_and_again(&self, work: &[&str]) -> usize {
        let kills = if std::env::var("LOPE_CHAOS").is_ok_and(|word| word == "full") {
            40
        } else {
            3
        };
        let mut dice = 88_172_645_463_325_252_u64;
        for kill in 0..kills {
            for number in kill * WAVE..(kill + 1) * WAVE {
                let (to, from) = (self.worker.to_string(), (self.worker + 1).to_string());
                let (id, payload) = (self.id(number), number.to_string());
                self.lope(&[
                    "mailbox",
                    "send",
                    &to,
                    "--payload",
                    &payload,
                    "--id",
                    &id,
                    "--from",
                    &from,
                ]);
            }
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            self.kill_after(Duration::from_millis(dice % 150), work);
        }
        self.lope(&[&["mailbox", "work", "--until-idle"], work].concat());
        kills * WAVE
    }

    /// Ids are remembered for a day, and the store on Postgres may outlive a run of the tests.
    fn id(&self, number: usize) -> String {
        format!("m{}-{number}", self.worker)
    }

    fn kill_after(&self, span: Duration, work: &[&str]) {
        let mut command = self.command(&[&["mailbox", "work"], work].concat());
        let mut child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(
            lines.any(|line| line.unwrap().contains("works on")),
            "the worker did not come up"
        );
        // A kill at a random time is the point here, so this does sleep.
        std::thread::sleep(span);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Nothing is left, and the sender has one answer to each message.
    fn is_answered(&self, sent: usize) {
        self.is_empty(self.worker);
        let answers = self.json(&[
            "mailbox",
            "list",
            &(self.worker + 1).to_string(),
            "--limit",
            "10000",
        ]);
        let mut ids: Vec<&str> = answers
            .as_array()
            .unwrap()
            .iter()
            .map(|answer| answer["message_id"].as_str().unwrap())
            .collect();
        ids.sort_unstable();
        let mut expected: Vec<String> = (0..sent)
            .map(|number| format!("re:{}", self.id(number)))
            .collect();
        expected.sort();
        assert_eq!(ids, expected, "each message has one answer");
    }

    fn is_empty(&self, worker: u64) {
        for verb in ["list", "dead", "timers"] {
            assert_eq!(
                self.json(&["mailbox", verb, &worker.to_string()]),
                Value::Array(vec![]),
                "{verb} {worker}"
            );
        }
    }
}

/// The first worker's program passes each message on; one that is killed before its worker's commit
/// passes it on again, and the second worker's dedupe takes the doubles away.
fn programs_are_killed(home: &Home) {
    let (first, second) = (home.worker.to_string(), (home.worker + 1).to_string());
    let lope = env!("CARGO_BIN_EXE_lope");
    // A program does not inherit where the store is.
    let store = home.store.iter().map(|url| format!(" --store '{url}'"));
    let store: String = store.collect();
    let script = format!(
        r#"'{lope}' -q mailbox send {second} --payload - --id "$LOPE_MESSAGE_ID" --dedupe{store}"#
    );
    let sent = home.kill_again_and_again(&[&first, "--batch", "4", "--", "sh", "-c", &script]);
    home.lope(&[
        "mailbox",
        "work",
        &second,
        "--until-idle",
        "--",
        "sh",
        "-c",
        "cat >> seen; echo >> seen",
    ]);
    let seen = std::fs::read_to_string(home.folder.path().join("seen")).unwrap();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    seen.lines()
        .for_each(|line| *counts.entry(line.parse().unwrap()).or_default() += 1);
    assert_eq!(
        counts,
        (0..sent).map(|number| (number, 1)).collect(),
        "each took effect once"
    );
    home.is_empty(home.worker);
    home.is_empty(home.worker + 1);
}

fn workflows_are_killed(home: &Home) {
    std::fs::write(home.folder.path().join("order.yaml"), WORKFLOW).unwrap();
    let worker = home.worker.to_string();
    let sent = home.kill_again_and_again(&[&worker, "--workflow", "order.yaml"]);
    let runs = home.json(&[
        "runs",
        "list",
        "--tag",
        &format!("mailbox={worker}"),
        "--limit",
        "10000",
    ]);
    let mut keys: Vec<&str> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["key"].as_str().unwrap())
        .collect();
    keys.sort_unstable();
    let mut expected: Vec<String> = (0..sent)
        .map(|number| format!("mailbox:{worker}:{}", home.id(number)))
        .collect();
    expected.sort();
    assert_eq!(keys, expected, "each message has one run");
    home.is_answered(sent);
}

/// The action's answer is part of the commit: it arrives once, however often the action was called.
fn actions_are_killed(home: &Home) {
    std::fs::write(home.folder.path().join("desk.py"), PYTHON).unwrap();
    let sent = home.kill_again_and_again(&[&home.worker.to_string(), "--python", "desk:handle"]);
    home.is_answered(sent);
}

/// "Handlers, each through the same kill test": a program, killed with its worker.
#[test]
fn on_sqlite_programs_lose_and_double_nothing() {
    programs_are_killed(&Home::on_sqlite());
}

#[test]
fn on_postgres_programs_lose_and_double_nothing() {
    Home::on_postgres(10).iter().for_each(programs_are_killed);
}

/// "a workflow per message (`on message → start run`, dedupe by message id)"
#[test]
fn on_sqlite_each_message_has_one_run() {
    workflows_are_killed(&Home::on_sqlite());
}

#[test]
fn on_postgres_each_message_has_one_run() {
    Home::on_postgres(20).iter().for_each(workflows_are_killed);
}

/// "Python and process handlers through the same workers as actions"
#[test]
fn on_sqlite_python_actions_answer_each_message_once() {
    if std::env::var_os("LOPE_TEST_NO_PYTHON").is_some() {
        return;
    }
    assert!(
        std::env::var_os("LOPE_TEST_PYTHON").is_some(),
        "run this by `cargo xtask test` or `cargo xtask with`"
    );
    actions_are_killed(&Home::on_sqlite());
}
