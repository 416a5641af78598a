//! `lope mailbox` as a user meets it: what it prints, where, and with which exit code; on SQLite
//! and on Postgres.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::stage;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use stage::Watch;

/// A home folder, and a worker of its own: the store on Postgres is one for all tests.
struct Home {
    folder: tempfile::TempDir,
    store: Option<String>,
    worker: String,
}

static WORKERS: AtomicU64 = AtomicU64::new(1);

impl Home {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            store: None,
            worker: "7".into(),
        }
    }

    /// On the server for tests; nothing if whoever runs the tests goes without.
    fn on_postgres() -> Option<Self> {
        if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
            return None;
        }
        let url = std::env::var("LOPE_TEST_POSTGRES");
        let url = url.expect(
            "LOPE_TEST_POSTGRES names a server: `cargo xtask test`, or `cargo xtask with COMMAND`",
        );
        let number =
            u64::from(std::process::id()) * 1_000 + WORKERS.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            store: Some(url),
            worker: number.to_string(),
            ..Self::new()
        })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
        command.arg("mailbox").args(args).current_dir(self.path());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path());
        command.envs(self.store.iter().map(|store| ("LOPE_STORE", store)));
        command
    }

    fn lope(&self, args: &[&str]) -> Output {
        stage::output(&mut self.command(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.lope(&[args, &["--json"]].concat());
        assert_eq!(code(&output), 0, "{args:?}: {}", err(&output));
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{} {}", out(&output), err(&output)))
    }

    fn send(&self, id: &str, payload: &str) -> Value {
        self.json(&["send", &self.worker, "--payload", payload, "--id", id])
    }

    /// Work with a shell script until nothing is left.
    fn work(&self, script: &str) -> Output {
        self.lope(&[
            "work",
            &self.worker,
            "--until-idle",
            "--",
            "sh",
            "-c",
            script,
        ])
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn messages_are_sent_listed_and_handled_by_a_program() {
    let home = Home::new();
    let sent = home.lope(&["send", "7", "--payload", "hello", "--id", "hello-1"]);
    assert_eq!(
        (code(&sent), out(&sent).as_str()),
        (0, "hello-1 is number 1 of worker 7\n"),
        "{}",
        err(&sent)
    );
    let sent = home.json(&[
        "send",
        "7",
        "--payload",
        "",
        "--id",
        "e",
        "--kind",
        "event",
        "--priority",
        "--dedupe",
    ]);
    assert_eq!(
        sent,
        json!({ "worker": 7, "seq": 2, "message_id": "e", "kind": "event", "due": null })
    );
    let list = home.lope(&["list", "7"]);
    let expected = "SEQ  ID       KIND     STATE   PAYLOAD\n1    hello-1  command  queued  hello\n2    e        event    queued\n";
    assert_eq!(out(&list), expected);
    let listed = home.json(&["list", "7", "--limit", "1", "--after", "1"]);
    let expected = json!([{ "worker": 7, "seq": 2, "message_id": "e", "kind": "event",
        "flags": ["durable", "priority", "dedupe"], "from_worker": null, "trace_id": null, "bytes": 0, "payload": "",
        "state": "queued", "lease": null }]);
    assert_eq!(listed, expected);

    let script = r#"read line; echo "$LOPE_MESSAGE_ID $LOPE_MESSAGE_KIND $LOPE_WORKER $LOPE_ATTEMPT [$line]""#;
    let worked = home.work(script);
    assert_eq!(code(&worked), 0, "{}", err(&worked));
    assert_eq!(
        out(&worked),
        "e event 7 1 []\nhello-1 command 7 1 [hello]\n",
        "high priority comes first"
    );
    assert!(
        err(&worked).ends_with("worker 7: 2 handled\n"),
        "{}",
        err(&worked)
    );
    assert_eq!(out(&home.lope(&["list", "7"])), "none\n");
    assert_eq!(home.json(&["list", "7"]), json!([]));
}

/// `lope mailbox work WORKER [--until-idle] -- CMD ARGS…`: "payload on stdin, exit 0 = handled", on
/// Postgres too.
#[test]
fn on_postgres_all_of_it_works_alike() {
    let Some(home) = Home::on_postgres() else {
        return;
    };
    for number in 1..=3 {
        home.send(&format!("m{number}"), &format!("payload {number}"));
    }
    let worked = home.work("cat >> seen; test $LOPE_MESSAGE_ID != m2 || exit 65");
    assert_eq!(code(&worked), 0, "{}", err(&worked));
    assert_eq!(home.read("seen"), "payload 1payload 2payload 3");
    let dead = home.json(&["dead", &home.worker]);
    assert_eq!(
        (&dead[0]["message_id"], &dead[0]["reason"]),
        (&json!("m2"), &json!("failed: exit status: 65"))
    );
    let seq = dead[0]["seq"].to_string();
    assert_eq!(home.json(&["replay", &home.worker, &seq])["replayed"], 1);
    assert_eq!(home.json(&["list", &home.worker])[0]["message_id"], "m2");
    let timer = home.json(&[
        "send",
        &home.worker,
        "--payload",
        "later",
        "--at",
        "2999-01-01T00:00:00Z",
    ]);
    assert_eq!(timer["due"], "2999-01-01T00:00:00.000Z");
    assert_eq!(home.json(&["timers", &home.worker])[0]["seq"], timer["seq"]);
    assert_eq!(
        home.json(&["drop", &home.worker, &timer["seq"].to_string(), "--timer"])["dropped"],
        1
    );
    let stats = home.json(&["stats", "--limit", "10000"]);
    let mine = stats["workers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["worker"].as_u64() == home.worker.parse().ok());
    assert_eq!(mine.unwrap()["inbox"], 1);
    assert_eq!(code(&home.work("true")), 0);
}

/// "Retryable failure …: back off and try again within a budget (default 4), then dead letter …
/// with reason, attempts, time."
#[test]
fn what_fails_is_tried_again_and_then_a_dead_letter_that_can_be_replayed_or_dropped() {
    let home = Home::new();
    home.send("bad", "x");
    home.send("never", "y");
    let script = "echo $LOPE_MESSAGE_ID >> attempts; if test $LOPE_MESSAGE_ID = never; then exit 65; fi; exit 3";
    let worked = home.work(script);
    assert_eq!(code(&worked), 0);
    let said = err(&worked);
    for line in [
        "  ↻ bad: attempt 1: busy: exit status: 3\n",
        "  ✗ bad: dead letter after attempt 4: busy: exit status: 3\n",
        "  ✗ never: dead letter after attempt 1: failed: exit status: 65\n",
        "worker 7: 0 handled, 3 tried again, 2 dead letters\n  hint: 'lope mailbox dead 7' shows why\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert_eq!(home.read("attempts").matches("bad").count(), 4);
    let dead = home.json(&["dead", "7"]);
    let shown = |row: &Value| {
        json!([
            row["worker"],
            row["seq"],
            row["message_id"],
            row["reason"],
            row["attempts"]
        ])
    };
    assert_eq!(
        shown(&dead[0]),
        json!([7, 1, "bad", "busy: exit status: 3", 4])
    );
    assert_eq!(
        shown(&dead[1]),
        json!([7, 2, "never", "failed: exit status: 65", 1])
    );
    assert!(dead[0]["failed_at"].as_str().unwrap().ends_with('Z'));
    let text = out(&home.lope(&["dead", "7"]));
    assert!(
        text.starts_with("SEQ  ID     ATTEMPTS  FAILED AT"),
        "{text}"
    );

    let replayed = home.lope(&["replay", "7", "1"]);
    assert_eq!(out(&replayed), "dead letter 1 is message 3 of worker 7\n");
    let again = home.lope(&["replay", "7", "1"]);
    assert_eq!(code(&again), 1);
    let said = "error: worker 7 has no dead letter under number 1\n  hint: 'lope mailbox dead 7' shows what there is\n";
    assert_eq!(err(&again), said);
    assert_eq!(
        home.json(&["replay", "7", "--all"]),
        json!({ "worker": 7, "replayed": 1 })
    );
    assert_eq!(home.json(&["stats"])["dead_letters"], 0);
    home.work("exit 65");
    assert_eq!(
        home.json(&["drop", "7", "3"]),
        json!({ "worker": 7, "dropped": 1, "seq": 3 })
    );
    assert_eq!(
        out(&home.lope(&["drop", "7", "--all"])),
        "1 dead letter of worker 7 is gone\n"
    );
    assert_eq!(out(&home.lope(&["dead", "7"])), "none\n");
}

#[test]
fn a_timer_may_be_due_in_a_while() {
    let home = Home::new();
    home.json(&["send", "7", "--payload", "x", "--id", "soon", "--at", "1h"]);
    home.work("cat; echo");
    assert_eq!(
        home.json(&["timers", "7"])[0]["message_id"],
        "soon",
        "it is not due yet"
    );
}

#[test]
fn timers_wait_for_their_time_and_can_be_dropped() {
    let home = Home::new();
    let later = home.json(&[
        "send",
        "7",
        "--payload",
        "later",
        "--id",
        "a",
        "--at",
        "2999-01-01T00:00:00Z",
    ]);
    home.json(&[
        "send",
        "7",
        "--payload",
        "due",
        "--id",
        "b",
        "--at",
        "2020-01-01T00:00:00Z",
    ]);
    home.send("now", "now");
    let timers = home.json(&["timers", "7"]);
    assert_eq!(
        (
            timers[0]["message_id"].as_str(),
            timers[1]["message_id"].as_str()
        ),
        (Some("b"), Some("a"))
    );
    assert_eq!(
        home.json(&["timers", "7", "--from", "1h"])[0]["message_id"],
        "a"
    );
    let odd = home.lope(&["timers", "7", "--from", "soon"]);
    assert!(
        code(&odd) == 2 && err(&odd).contains("'soon'"),
        "{}",
        err(&odd)
    );
    let worked = home.work("cat; echo");
    assert_eq!(
        out(&worked),
        "now\ndue\n",
        "due timers come after the inbox, those of later not yet"
    );
    assert!(
        out(&home.lope(&["timers", "7"])).contains("2999-01-01T00:00:00.000Z  a   command  later")
    );
    let seq = later["seq"].to_string();
    assert_eq!(code(&home.lope(&["drop", "7", &seq, "--timer"])), 0);
    let again = home.lope(&["drop", "7", &seq, "--timer"]);
    assert_eq!(code(&again), 1);
    assert!(
        err(&again).contains("'lope mailbox timers 7' shows what there is"),
        "{}",
        err(&again)
    );
    let queued = home.send("x", "");
    assert_eq!(
        code(&home.lope(&["drop", "7", &queued["seq"].to_string(), "--queued"])),
        0
    );
    assert_eq!(home.json(&["list", "7"]), json!([]));
}

/// "Dedupe-required: a second message with the same id within the window is acknowledged without
/// calling the handler"
#[test]
fn a_second_message_with_the_same_id_is_not_handled_again() {
    let home = Home::new();
    for _ in 0..2 {
        home.json(&["send", "7", "--payload", "x", "--id", "once", "--dedupe"]);
    }
    let worked = home.lope(&[
        "work",
        "7",
        "--until-idle",
        "--json",
        "--",
        "sh",
        "-c",
        "echo x >> seen; echo noise",
    ]);
    let value: Value = serde_json::from_slice(&worked.stdout).unwrap();
    let counted = json!([
        value["worker"],
        value["attempts"],
        value["successes"],
        value["duplicates"]
    ]);
    assert_eq!(
        (counted, home.read("seen").as_str()),
        (json!([7, 1, 1, 1]), "x\n")
    );
    assert!(
        err(&worked).contains("noise"),
        "with --json only the result is on stdout"
    );
}

/// "Requires-ack: the sender learns of commit or dead letter."
#[test]
fn a_sender_that_asks_is_told() {
    let home = Home::new();
    home.json(&[
        "send",
        "7",
        "--payload",
        "x",
        "--id",
        "good",
        "--from",
        "8",
        "--ack",
        "--trace",
        "t-1",
    ]);
    home.json(&[
        "send",
        "7",
        "--payload",
        "x",
        "--id",
        "bad",
        "--from",
        "8",
        "--ack",
    ]);
    home.work("test $LOPE_MESSAGE_ID = good || exit 65; test $LOPE_FROM_WORKER = 8");
    let told = home.json(&["list", "8"]);
    let of = |row: &Value| {
        json!([
            row["message_id"],
            row["from_worker"],
            row["payload"],
            row["trace_id"]
        ])
    };
    assert_eq!(of(&told[0]), json!(["ack:good", 7, "committed", "t-1"]));
    assert_eq!(
        of(&told[1]),
        json!(["ack:bad", 7, "dead: failed: exit status: 65", null])
    );
}

#[test]
fn payloads_come_from_files_and_standard_input_and_need_not_be_text() {
    let home = Home::new();
    std::fs::write(home.path().join("bytes"), [0xff, 0x00, b'\n']).unwrap();
    home.json(&["send", "7", "--payload", "@bytes", "--id", "file"]);
    let mut piped = home.command(&["send", "7", "--payload", "-", "--id", "piped"]);
    let mut child = piped
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _watch = Watch::over(&child);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"from a pipe").unwrap();
    assert!(child.wait().unwrap().success());
    let listed = home.json(&["list", "7"]);
    assert_eq!(
        (&listed[0]["payload_hex"], &listed[1]["payload"]),
        (&json!("ff000a"), &json!("from a pipe"))
    );
    home.work("cat > $LOPE_MESSAGE_ID.got");
    assert_eq!(
        std::fs::read(home.path().join("file.got")).unwrap(),
        [0xff, 0x00, b'\n']
    );
}

#[test]
fn bad_input_is_named_and_changes_nothing() {
    let home = Home::new();
    let long = "x".repeat(1_001);
    for (args, exit, said) in [
        (
            &["send", "-1", "--payload", "x"][..],
            2,
            "'-1' is not a worker id: a number from 0 to 9223372036854775807",
        ),
        (
            &["send", "seven", "--payload", "x"],
            2,
            "'seven' is not a worker id",
        ),
        (&["send", "7"], 2, "--payload <TEXT|@FILE|->"),
        (
            &["send", "7", "--payload", "@nowhere"],
            2,
            "nowhere: No such file or directory",
        ),
        (
            &["send", "7", "--payload", "x", "--at", "soon"],
            2,
            "--at: 'soon' is not a time: write RFC 3339",
        ),
        (
            &[
                "send",
                "7",
                "--payload",
                "x",
                "--at",
                "1969-12-31T23:59:59Z",
            ],
            2,
            "the earliest time is 1970-01-01",
        ),
        (
            &["send", "7", "--payload", "@/dev/zero"],
            2,
            "/dev/zero: a message has at most 16769024 bytes",
        ),
        (
            &["send", "7", "--payload", "x", "--store", "memory:"],
            2,
            "memory: ends with this command",
        ),
        (
            &["send", "7", "--payload", "x", "--kind", "timer"],
            2,
            "invalid value 'timer' for '--kind <KIND>'",
        ),
        (
            &["send", "7", "--payload", "x", "--ack"],
            2,
            "--from <WORKER>",
        ),
        (
            &["send", "7", "--payload", "x", "--id", ""],
            2,
            "a message needs an id of at least one byte",
        ),
        (
            &["send", "7", "--payload", "x", "--id", &long],
            2,
            "a message id has at most 1000 bytes, not 1001",
        ),
        (&["list"], 2, "<WORKER>"),
        (
            &["list", "7", "--limit", "0"],
            2,
            "--limit 0: a page has 1 to 10000 rows",
        ),
        (
            &["dead", "7", "--limit", "99999"],
            2,
            "hint: '--after SEQ' begins behind the last row",
        ),
        (&["replay", "7"], 2, "lope mailbox replay <WORKER> <SEQ>"),
        (&["replay", "7", "1", "--all"], 2, "cannot be used with"),
        (
            &["drop", "7", "9", "--queued"],
            1,
            "worker 7 has no message under number 9",
        ),
        (&["work", "7"], 2, "<CMD>..."),
        (
            &["work", "7", "--batch", "0", "--", "true"],
            2,
            "--batch 0: a number from 1 to 4096 is expected",
        ),
        (
            &["work", "7", "--concurrency", "999", "--", "true"],
            2,
            "--concurrency 999: a number from 1 to 256",
        ),
        (
            &["work", "7", "--lease", "1ms", "--", "true"],
            2,
            "--lease 1ms: at least 50ms are needed",
        ),
        (
            &["work", "7", "--timeout", "soon", "--", "true"],
            2,
            "'soon' is not a duration",
        ),
        (
            &["work", "7", "--timeout", "0s", "--", "true"],
            2,
            "--timeout 0s: nothing can be handled in no time",
        ),
        (
            &["work", "7", "--store", "memory:", "--", "true"],
            2,
            "memory: ends with this command",
        ),
        (
            &["work", "7", "--workflow", "a.yaml", "--", "true"],
            2,
            "cannot be used with",
        ),
        (
            &["work", "7", "--workflow", "nowhere.yaml"],
            2,
            "nowhere.yaml: No such file",
        ),
        (
            &["work", "7", "--workflow", "nobody"],
            1,
            "no workflow 'nobody' is deployed",
        ),
        (
            &["work", "7", "--trace", "no/such/folder", "--", "true"],
            2,
            "no/such/folder: No such file or directory",
        ),
    ] {
        let output = home.lope(args);
        assert_eq!(code(&output), exit, "{args:?}: {}", err(&output));
        assert!(err(&output).contains(said), "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{args:?}");
    }
    let stats = home.json(&["stats"]);
    assert_eq!(
        (&stats["inbox"], &stats["workers"]),
        (&json!(0), &json!([]))
    );
    let far = home.lope(&["list", "7", "--store", "postgres://127.0.0.1:1/x"]);
    assert_eq!(code(&far), 4, "{}", err(&far));
}

/// Each program waits for the other one: alone, neither would end well.
#[test]
fn as_many_messages_are_handled_at_once_as_are_asked_for() {
    let home = Home::new();
    for id in ["a", "b"] {
        home.send(id, "x");
    }
    let script = "touch $LOPE_MESSAGE_ID; for i in $(seq 200); do test -e a -a -e b && exit 0; sleep 0.1; done; exit 65";
    let worked = home.lope(&[
        "work",
        "7",
        "--until-idle",
        "--concurrency",
        "2",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(code(&worked), 0, "{}", err(&worked));
    assert_eq!(home.json(&["dead", "7"]), json!([]), "{}", err(&worked));
}

/// Without `--dedupe` two messages may have the same id: the second attempt of one leaves the first
/// attempt of the other alone.
#[test]
fn messages_with_the_same_id_do_not_end_each_other() {
    let home = Home::new();
    home.send("same", "slow");
    home.send("same", "fast");
    let script =
        "found() { for i in $(seq 600); do test -e $1 && return 0; sleep 0.1; done; exit 65; }
        it=$(cat)
        case $it$LOPE_ATTEMPT in
            slow*) touch begun; found again ;;
            fast1) found begun; exit 1 ;;
            fast*) touch again ;;
        esac
        echo $it $LOPE_ATTEMPT >> handled";
    let worked = home.lope(&[
        "work",
        "7",
        "--until-idle",
        "--concurrency",
        "2",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(code(&worked), 0, "{}", err(&worked));
    assert_eq!(home.json(&["dead", "7"]), json!([]), "{}", err(&worked));
    let handled = home.read("handled");
    let mut handled: Vec<&str> = handled.lines().collect();
    handled.sort_unstable();
    assert_eq!(handled, ["fast 2", "slow 1"], "{}", err(&worked));
}

#[test]
fn a_program_that_is_not_there_stops_the_worker_and_touches_no_message() {
    let home = Home::new();
    home.send("m", "x");
    let worked = home.lope(&["work", "7", "--until-idle", "--", "./no-such-program"]);
    assert_eq!(code(&worked), 2);
    let said = "error: './no-such-program' cannot be started: No such file or directory (os error 2)\n  hint: no message was \
                touched; mend it and start again\n";
    assert!(err(&worked).ends_with(said), "{}", err(&worked));
    assert_eq!(home.json(&["list", "7"])[0]["state"], "queued");
}

/// "a hook sees every attempt and result with its frame, enough to replay a trace"
#[test]
fn a_trace_has_a_line_for_every_attempt() {
    let home = Home::new();
    home.send("bad", "x");
    home.send("good", "y");
    let script = "test $LOPE_MESSAGE_ID = good || test $LOPE_ATTEMPT = 2";
    let args = [
        "work",
        "7",
        "--until-idle",
        "--trace",
        "trace",
        "--",
        "sh",
        "-c",
        script,
    ];
    assert_eq!(code(&home.lope(&args)), 0);
    let trace = home.read("trace");
    let read = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let frame = lope::mailbox::trace::read_line(line).unwrap().0;
        let message = lope::mailbox::frame::Message::decode(&frame).unwrap();
        format!(
            "{} {} {} {}",
            fields[2],
            fields[3],
            fields[4],
            String::from_utf8_lossy(message.id)
        )
    };
    let mut lines: Vec<String> = trace.lines().map(read).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "inbox:1 1 requeued bad",
            "inbox:1 2 success bad",
            "inbox:2 1 success good"
        ]
    );
}

const DESK: &str = r#"
from lope import action


class Never(Exception):
    pass


@action
async def handle(message: dict) -> str:
    if message["payload"] == "never":
        raise Never("not this one")
    if message["payload"] == {"later": True} and message["attempt"] == 1:
        raise ConnectionError("not yet")
    return f"{message['id']} for {message['worker']}"
"#;

/// "Python and process handlers through the same workers as actions"
#[test]
fn a_python_action_handles_messages_and_answers_their_sender() {
    if std::env::var_os("LOPE_TEST_NO_PYTHON").is_some() {
        return;
    }
    let python = std::env::var_os("LOPE_TEST_PYTHON")
        .expect("run this by `cargo xtask test` or `cargo xtask with`");
    let home = Home::new();
    std::fs::write(home.path().join("desk.py"), DESK).unwrap();
    for (id, payload) in [("a", "1"), ("b", "never"), ("c", r#"{"later": true}"#)] {
        home.json(&["send", "7", "--payload", payload, "--id", id, "--from", "8"]);
    }
    let work = |named: &str| {
        let mut command = home.command(&["work", "7", "--until-idle", "--python", named]);
        let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python");
        stage::output(
            command
                .env("LOPE_PYTHON", &python)
                .env("PYTHONPATH", package),
        )
    };
    for (named, said) in [
        ("desk", "--python desk: MODULE:ACTION is expected"),
        (
            "desk:nobody",
            "the module 'desk' has no action 'nobody'\n  hint: it has: handle",
        ),
        ("nowhere:handle", "No module named 'nowhere'"),
    ] {
        let worked = work(named);
        assert_eq!(code(&worked), 2, "{}", err(&worked));
        assert!(err(&worked).contains(said), "{}", err(&worked));
    }
    let worked = work("desk:handle");
    assert_eq!(code(&worked), 0, "{}", err(&worked));
    let answers = home.json(&["list", "8"]);
    let of = |row: &Value| json!([row["message_id"], row["payload"]]);
    assert_eq!(of(&answers[0]), json!(["re:a", r#""a for 7""#]));
    assert_eq!(of(&answers[1]), json!(["re:c", r#""c for 7""#]));
    assert_eq!(
        home.json(&["dead", "7"])[0]["reason"],
        "failed: Never: not this one"
    );
}

/// A worker that says when it is up, and a way to wait for what it says next. One that hangs is
/// killed.
struct Working {
    child: Child,
    _watch: Watch,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Working {
    fn start(home: &Home, args: &[&str]) -> Self {
        let mut child = home
            .command(args)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut working = Self {
            _watch: Watch::over(&child),
            child,
            lines,
        };
        working.says("works on");
        working
    }

    fn says(&mut self, text: &str) {
        let heard = self
            .lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains(text));
        assert!(heard.is_some(), "it never says '{text}'");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }
}

#[test]
fn asked_to_stop_it_finishes_what_is_in_hand_and_gives_the_rest_back() {
    for signal in ["-TERM", "-INT"] {
        let home = Home::new();
        for id in ["a", "b", "c"] {
            home.send(id, "x");
        }
        // The program says that it began, and ends when it is told to.
        let script = "echo began $LOPE_MESSAGE_ID >&2; until test -e go; do sleep 0.02; done; echo $LOPE_MESSAGE_ID >> done";
        let mut working = Working::start(&home, &["work", "7", "--", "sh", "-c", script]);
        working.says("began a");
        working.signal(signal);
        working.says("finishing what is in hand");
        std::fs::write(home.path().join("go"), "").unwrap();
        assert_eq!(working.child.wait().unwrap().code(), Some(0));
        assert_eq!(home.read("done"), "a\n");
        let left = home.json(&["list", "7"]);
        let of = |row: &Value| json!([row["message_id"], row["state"]]);
        assert_eq!(
            (of(&left[0]), of(&left[1])),
            (json!(["b", "queued"]), json!(["c", "queued"]))
        );
    }
}

#[test]
fn asked_twice_it_stops_at_once_and_the_next_worker_handles_it_again() {
    let home = Home::new();
    home.send("a", "x");
    let mut working = Working::start(
        &home,
        &["work", "7", "--", "sh", "-c", "echo began >&2; sleep 600"],
    );
    working.says("began");
    working.signal("-TERM");
    working.says("finishing");
    working.signal("-TERM");
    working.says("handled again by the next worker");
    assert_eq!(working.child.wait().unwrap().code(), Some(1));
    let worked = home.work("echo $LOPE_ATTEMPT");
    assert_eq!(
        (code(&worked), out(&worked).as_str()),
        (0, "2\n"),
        "at once, as a second attempt"
    );
}
