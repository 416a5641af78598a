//! Looking at runs and steering them, from the command line.
//!
//! "List, filter by status, workflow, tag, time; show; cancel (reaches running work and children);
//! pause/resume; retry a failed run from where it failed; fork from any journal position; signal;
//! wait; export."

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::stage;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use stage::Home;

const ASK: &str =
    "{ name: ask, steps: { say: { run: 'echo hello' }, answer: { wait: answer, needs: [say] } } }";
const SUM: &str =
    "{ name: sum, steps: { total: { state: { init: 0, next: '${{ previous + input }}' } } } }";

fn reasons(home: &Home, id: &str) -> Vec<String> {
    let why = home.lope(&["runs", "why", id, "--json"]).done().json();
    why["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["why"].as_str().unwrap().to_owned())
        .collect()
}

/// A runner that works until its end of the pipe is closed by dropping it.
struct Up(std::process::Child);

impl Up {
    fn start(home: &Home) -> Self {
        Self::with(home, &["up"])
    }

    fn with(home: &Home, args: &[&str]) -> Self {
        let mut child = home.command(args).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("works on"), "{line}");
        Self(child)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_run_that_stands_still_says_why_at_each_stage_of_its_life() {
    let home = Home::new();
    let file = home.file("ask.yaml", ASK);
    home.lope(&["start", &file, "--key", "later", "--at", "1h"])
        .done();
    assert_eq!(reasons(&home, "later"), ["not_due", "no_runner"]);
    home.lope(&["start", &file, "--key", "k"]).done();
    assert_eq!(reasons(&home, "k"), ["no_runner"]);
    let text = home.lope(&["runs", "why", "k"]).done().out;
    assert!(
        text.contains("no runner is up") && text.contains("hint: lope up"),
        "{text}"
    );
    let up = Up::start(&home);
    stage::until("it gets there", || {
        reasons(&home, "k")
            .first()
            .is_some_and(|first| first == "signal")
    });
    home.lope(&["runs", "pause", "k"]).done();
    stage::until("it gets there", || {
        reasons(&home, "k")
            .first()
            .is_some_and(|first| first == "paused")
    });
    home.lope(&["runs", "resume", "k"]).done();
    stage::until("it gets there", || {
        reasons(&home, "k")
            .first()
            .is_some_and(|first| first == "signal")
    });
    drop(up);
    assert_eq!(reasons(&home, "k")[0], "signal");
    home.lope(&["runs", "signal", "k", "answer", "[1, 2]"])
        .done();
    let up = Up::start(&home);
    let ended = home
        .lope(&["runs", "wait", "k", "--json", "--timeout", "30s"])
        .done()
        .json();
    assert_eq!(
        (&ended["result"], &ended["steps"]),
        (&json!([1, 2]), &json!(2))
    );
    assert_eq!(reasons(&home, "k"), ["ended"]);
    drop(up);
}

/// What waits for a paused run is counted: a refused signal hints at `runs why`.
#[test]
fn a_paused_run_says_how_much_waits_for_it() {
    let home = Home::new();
    let file = home.file("ask.yaml", ASK);
    home.lope(&["start", &file, "--key", "k"]).done();
    let up = Up::start(&home);
    stage::until("it waits for its signal", || {
        reasons(&home, "k").first().is_some_and(|it| it == "signal")
    });
    home.lope(&["runs", "pause", "k"]).done();
    stage::until("it is paused", || reasons(&home, "k") == ["paused"]);
    drop(up);
    for _ in 0..3 {
        home.lope(&["runs", "signal", "k", "other", "1"]).done();
    }
    assert_eq!(reasons(&home, "k"), ["paused", "mail"]);
    let said = home.lope(&["runs", "why", "k"]).done().out;
    assert!(
        said.contains("it is paused") && said.contains("3 messages wait to be taken up"),
        "{said}"
    );
}

/// A run that ends between the look at it and the mail to it is told as it is now. The end is a
/// commit that holds up the mail of the command, which has read the run before.
#[test]
fn a_cancel_that_comes_too_late_tells_how_the_run_ended() {
    let home = Home::new();
    let file = home.file("ask.yaml", ASK);
    home.lope(&["start", &file, "--key", "k"]).done();
    let folder = home.path().join(".lope");
    let store = rusqlite::Connection::open(folder.join("lope.db")).unwrap();
    let end = "begin immediate;
        delete from queue where run_id = (select run_id from runs where key = 'k');
        update runs set status = 'completed', finished_at = created_at where key = 'k';";
    store.execute_batch(end).unwrap();
    let mut cancel = home.command(&["runs", "cancel", "k"]);
    let cancel = cancel.stderr(Stdio::piped()).spawn().unwrap();
    let lock = std::fs::metadata(folder.join("lope.db-writer.lock")).unwrap();
    let (holder, held) = (
        format!(" {} ", cancel.id()),
        format!(":{} ", std::os::unix::fs::MetadataExt::ino(&lock)),
    );
    stage::until("the command is about to write", || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks
            .lines()
            .any(|line| line.contains(&holder) && line.contains(&held))
    });
    store.execute_batch("commit").unwrap();
    let said = cancel.wait_with_output().unwrap();
    let error = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(3), "{error}");
    assert!(error.contains(" has ended: it is completed\n"), "{error}");
}

/// "`lope runs why ID` says in plain words why a run is not moving (no worker serves this action,
/// queue limit, paused, waiting for a signal, backing off until, leased by …)"
#[test]
fn why_a_run_does_not_move_is_told_in_plain_words() {
    let home = Home::new();
    std::fs::create_dir(home.path().join(".lope")).unwrap();
    home.file(
        ".lope/config.yaml",
        "queues: { narrow: { concurrency: 1 } }",
    );
    let start = |key: &str, steps: &str, queue: &str| {
        let file = home.file(
            &format!("{key}.yaml"),
            &format!("name: {key}\nsteps: {{ a: {steps} }}"),
        );
        home.lope(&["start", &file, "--key", key, "--queue", queue])
            .done();
    };
    start(
        "nobody",
        "{ action: nobodys, retries: 9, base_delay: 1h }",
        "default",
    );
    start(
        "flaky",
        "{ run: 'exit 3', retries: 9, base_delay: 1h }",
        "default",
    );
    start("asks", "{ wait: answer }", "default");
    start("first", "{ run: 'sleep 600' }", "narrow");
    let _up = Up::with(&home, &["up", "--queue", "default", "--queue", "narrow"]);
    let told = |key: &str| home.lope(&["runs", "why", key]).done().out;
    let tells = |key: &str, words: &[&str]| {
        stage::until(&format!("{key} tells {words:?}"), || {
            words.iter().all(|word| told(key).contains(word))
        });
    };
    tells(
        "nobody",
        &[
            "no worker serves a: ",
            "nobodys",
            "hint: start a runner that has this action",
        ],
    );
    tells(
        "flaky",
        &["a backs off until ", "attempt 1 failed with ExitStatus"],
    );
    tells(
        "asks",
        &[
            "a waits for the signal 'answer' since ",
            "hint: lope runs signal ",
            " answer [JSON]",
        ],
    );
    tells(
        "first",
        &[
            "a is at work, or waits there for a slot: ",
            "has it; its last heartbeat was ",
            "runner ",
        ],
    );
    start("second", "{ let: 1 }", "narrow");
    tells(
        "second",
        &["queue 'narrow' is at its limit, 1 of its runs may be at work at once"],
    );
    home.lope(&["runs", "pause", "asks"]).done();
    tells("asks", &["it is paused", "hint: lope runs resume "]);
}

/// "one opened with `start --open` … may be fed until it is stopped"; any other has its input.
#[test]
fn only_an_open_run_may_be_fed() {
    let home = Home::new();
    let file = home.file("ask.yaml", ASK);
    home.lope(&["start", &file, "--key", "closed"]).done();
    let said = home.lope(&["runs", "feed", "closed", "1"]);
    assert_eq!(
        (
            said.code,
            said.err.contains("is not open") && said.err.contains("start --open")
        ),
        (3, true),
        "{said:?}"
    );
    home.lope(&["start", &file, "--key", "open", "--open"])
        .done();
    home.lope(&["runs", "feed", "open", "1"]).done();
}

/// A signal to a run that is not there reaches nobody. Its step is done, as a signal is sent and
/// not awaited; it is told all the same.
#[test]
fn a_signal_that_reaches_nobody_is_told() {
    let home = Home::new();
    let to = "019b78c9-0a80-7e3f-90b2-09d072d10988";
    let file = home.file(
        "s.yaml",
        &format!("name: s\nsteps: {{ wake: {{ send: {{ run: {to}, signal: go }} }} }}"),
    );
    let said = home.lope(&["run", &file]).done();
    assert!(
        said.err.contains("a signal reached nobody") && said.err.contains(to),
        "{said:?}"
    );
}

/// "a process that cannot work exits non-zero instead of idling.": it says why, that nothing is
/// lost, and exits with 70.
#[cfg(debug_assertions)]
#[test]
fn a_runner_that_cannot_go_on_says_so_and_exits_with_70() {
    let home = Home::new();
    let file = home.file(
        "ask.yaml",
        "{ name: ask, steps: { say: { run: 'echo hello' } } }",
    );
    for (args, part) in [
        (vec!["up"], "session"),
        (vec!["run", &file, "--key", "k"], "committer"),
    ] {
        let said = stage::said(home.command(&args).env("LOPE_TEST_FALL", part));
        assert_eq!(said.code, 70, "{said:?}");
        assert!(
            said.err.contains("this runner cannot go on: ") && said.err.contains(part),
            "{said:?}"
        );
        assert!(
            said.err.contains("hint: nothing is lost: start it again"),
            "{said:?}"
        );
    }
    let gone_on = home.lope(&["run", "--resume", "k"]).done();
    assert_eq!(gone_on.out, "hello\n", "nothing is lost");
}

#[test]
fn lists_are_filtered_and_runs_are_named_by_key_or_beginning() {
    let home = Home::new();
    let file = home.file("ask.yaml", ASK);
    let other = home.file("one.yaml", "{ name: one, steps: { a: { let: 1 } } }");
    for (key, tag) in [("a", "colour=red"), ("b", "colour=blue")] {
        home.lope(&[
            "start",
            &file,
            "--key",
            key,
            "--tag",
            tag,
            "--priority",
            "9",
        ])
        .done();
    }
    home.lope(&["run", &other, "--key", "c", "-q"]).done();
    let keys = |args: &[&str]| -> Vec<String> {
        let listed = home
            .lope(&[&["runs", "list", "--json"], args].concat())
            .done()
            .json();
        let mut keys: Vec<String> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["key"].as_str().unwrap().to_owned())
            .collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&[]), ["a", "b", "c"]);
    assert_eq!(keys(&["--tag", "colour=red"]), ["a"]);
    assert_eq!(keys(&["--workflow", "one"]), ["c"]);
    assert_eq!(keys(&["--status", "completed"]), ["c"]);
    assert_eq!(
        keys(&["--status", "completed", "--workflow", "ask"]),
        [""; 0]
    );
    assert_eq!(keys(&["--since", "1h"]), ["a", "b", "c"]);
    assert_eq!(keys(&["--until", "1h"]), [""; 0]);
    assert_eq!(keys(&["--limit", "2"]).len(), 2);
    let run = home.lope(&["runs", "show", "a", "--json"]).done().json()["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        home.lope(&["runs", "show", &run[..35], "--json"])
            .done()
            .json()["key"],
        "a"
    );
    let several = home.lope(&["runs", "show", &run[..4]]);
    assert_eq!(
        (several.code, several.err.contains("several")),
        (2, true),
        "{several:?}"
    );
    let table = home.lope(&["runs", "list"]).done().out;
    assert!(
        table.lines().count() == 4 && table.contains("colour=red"),
        "{table}"
    );
    assert_eq!(
        home.lope(&["start", &file, "--key", "a", "--json"])
            .done()
            .json()["run_id"],
        run.as_str(),
        "the first run"
    );
}

#[test]
fn a_run_is_shown_drawn_watched_exported_and_forked() {
    let home = Home::new();
    let text = "name: steps\nsteps:\n  a: { run: 'echo 1' }\n  b: { run: 'echo oops >&2; exit 3', retries: 1, base_delay: 1ms, on_failure: skip, needs: [a] }\n  \
                c: { each: '${{ [1, 2] }}', as: n, steps: { d: { run: ['echo', '${{ n }}'] } }, needs: [a] }\n  rest: { sleep: 300ms, needs: [c] }\n  e: { return: '${{ c }}', needs: [rest] }\n";
    let file = home.file("steps.yaml", text);
    home.lope(&["run", &file, "--key", "k"]).done();
    let shown = home.lope(&["runs", "show", "k", "--json"]).done().json();
    let step = |path: &str| {
        shown["executions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["path"] == path)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&step("b")["status"], &step("b")["attempt"]),
        (&json!("forgiven"), &json!(2))
    );
    assert_eq!(
        (&step("c/1/d")["step"], &step("c/1/d")["status"]),
        (&json!("c/d"), &json!("done"))
    );
    assert_eq!(step("b")["error"]["type"], "ExitStatus");
    let text = home.lope(&["runs", "show", "k"]).done().out;
    assert!(
        text.contains("✓ a") && text.contains("0/d") && text.contains("result     [1,2]"),
        "{text}"
    );
    let drawn = home.lope(&["runs", "graph", "k"]).done().out;
    assert!(drawn.contains("✓ a") && drawn.contains("⊘ b"), "{drawn}");
    assert!(
        home.lope(&["runs", "graph", "k", "--at", "1"])
            .done()
            .out
            .contains("▶ a")
    );
    assert!(
        home.lope(&["runs", "graph", "k", "--format", "mermaid"])
            .done()
            .out
            .contains("classDef done")
    );
    let watched = home.lope(&["runs", "watch", "k", "--json"]).done().out;
    let rows: Vec<Value> = watched
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (
            rows[0]["event"].as_str(),
            rows.last().unwrap()["status"].as_str()
        ),
        (Some("start"), Some("completed"))
    );
    let exported = home.lope(&["runs", "export", "k"]).done().json();
    assert_eq!(
        exported["journal"].as_array().unwrap().len(),
        rows.len() - 1
    );
    assert_eq!(
        (&exported["run"]["key"], &exported["definition"]["name"]),
        (&json!("k"), &json!("steps"))
    );
    assert_eq!(exported["results"][0]["result"], json!([1, 2]));
    let logs = home.lope(&["runs", "logs", "k", "--follow"]).done().out;
    assert!(
        logs.contains("err oops") && logs.contains("── c/0/d attempt 1"),
        "{logs}"
    );
    let forked = home
        .lope(&["runs", "fork", "k", "--at", "2", "--key", "f", "--json"])
        .done()
        .json();
    let gone_on = home.lope(&["run", "--resume", "f"]).done();
    assert_eq!(
        (gone_on.out.as_str(), forked["at"].as_u64()),
        ("[1,2]\n", Some(2))
    );
    let journal = home.lope(&["runs", "journal", "f", "--json"]).done().json();
    assert_eq!(
        (&journal[0]["seq"], &journal[0]["event"]),
        (&json!(3), &json!("forked"))
    );
}

/// "retry a failed run from where it failed"; "pause/resume"; "cancel".
#[test]
fn open_runs_are_fed_and_failed_ones_retried() {
    let home = Home::new();
    let file = home.file("sum.yaml", SUM);
    home.lope(&["start", &file, "--open", "--key", "sum"])
        .done();
    let up = Up::start(&home);
    stage::until("it gets there", || {
        home.lope(&["runs", "show", "sum", "--json"]).json()["status"] == "idle"
    });
    assert_eq!(reasons(&home, "sum")[0], "idle");
    for input in ["5", "7"] {
        home.lope(&["runs", "feed", "sum", input]).done();
    }
    let results = || {
        home.lope(&["runs", "results", "sum", "--json"])
            .done()
            .json()
    };
    stage::until("it gets there", || results().as_array().unwrap().len() == 2);
    assert_eq!(
        results()
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["result"].clone())
            .collect::<Vec<_>>(),
        [5, 12]
    );
    home.lope(&["runs", "cancel", "sum"]).done();
    let ended = home.lope(&["runs", "wait", "sum", "--timeout", "30s"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (1, "cancelled\n"),
        "{ended:?}"
    );
    let flag = home.path().join("flag").display().to_string();
    let flaky = home.file(
        "flaky.yaml",
        &format!("{{ name: flaky, steps: {{ a: {{ run: 'cat {flag}' }} }} }}"),
    );
    let failed = home.lope(&["run", &flaky, "--key", "flaky"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    std::fs::write(&flag, "9").unwrap();
    home.lope(&["runs", "retry", "flaky"]).done();
    assert_eq!(
        home.lope(&["runs", "wait", "flaky", "--timeout", "30s"])
            .done()
            .out,
        "9\n"
    );
    drop(up);
}

#[test]
fn stores_are_copied_pruned_and_examined() {
    let home = Home::new();
    let (ask, one) = (
        home.file("ask.yaml", ASK),
        home.file("one.yaml", "{ name: one, steps: { a: { let: 1 } } }"),
    );
    home.lope(&["workflows", "deploy", &ask, &one]).done();
    home.lope(&["start", "ask", "--key", "live"]).done();
    home.lope(&["run", &one]).done();
    let (from, to) = (
        format!("sqlite:{}/.lope/lope.db", home.path().display()),
        format!("sqlite:{}/to.db", home.path().display()),
    );
    let dry = home
        .lope(&["store", "copy", &from, &to, "--dry-run"])
        .done();
    assert!(
        dry.out.contains("would be created") && !home.path().join("to.db").exists(),
        "{dry:?}"
    );
    let copied = home
        .lope(&["store", "copy", &from, &to, "--json"])
        .done()
        .json();
    assert_eq!(
        (&copied["rows"]["runs"], &copied["rows"]["queue"]),
        (&json!(2), &json!(1))
    );
    let again = home.lope(&["store", "copy", &from, &to]);
    assert_eq!(
        (again.code, again.err.contains("not empty")),
        (3, true),
        "{again:?}"
    );
    home.lope(&["store", "check", "--store", &to]).done();
    home.lope(&["runs", "signal", "live", "answer", "1", "--store", &to])
        .done();
    assert_eq!(
        home.lope(&["run", "--resume", "live", "--store", &to])
            .done()
            .out,
        "1\n"
    );
    let counted = home
        .lope(&[
            "store",
            "prune",
            "--older",
            "0s",
            "--dry-run",
            "--json",
            "--store",
            &to,
        ])
        .done()
        .json();
    assert_eq!(counted["runs"], 2);
    let pruned = home
        .lope(&[
            "store",
            "prune",
            "--older",
            "0s",
            "--workflow",
            "one",
            "--json",
            "--store",
            &to,
        ])
        .done()
        .json();
    assert_eq!(pruned["runs"], 1);
    assert_eq!(
        home.lope(&["store", "prune", "--older", "1h", "--json", "--store", &to])
            .done()
            .json()["runs"],
        0
    );
    assert_eq!(
        home.lope(&["runs", "list", "--json", "--store", &to])
            .done()
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let listed = home.lope(&["workflows", "list", "--json"]).done().json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert!(
        home.lope(&["workflows", "show", "ask"])
            .done()
            .out
            .contains("say, answer")
    );
    home.lope(&["start", "ask", "--key", "due"]).done();
    let examined = home.lope(&["doctor", "--json"]).done().json();
    let health = |check: &str| {
        examined
            .as_array()
            .unwrap()
            .iter()
            .find(|line| line["check"] == check)
            .unwrap()["health"]
            .clone()
    };
    assert_eq!(
        (
            health("home"),
            health("store"),
            health("sound"),
            health("runners")
        ),
        (json!("ok"), json!("ok"), json!("ok"), json!("warn"))
    );
    std::fs::write(
        home.path().join("junk.db"),
        "this is no database, and long enough to be read as one",
    )
    .unwrap();
    let junk = format!("sqlite:{}/junk.db", home.path().display());
    assert_eq!(home.lope(&["doctor", "--store", &junk]).code, 1);
}

#[test]
fn settings_say_where_they_came_from() {
    let home = Home::new();
    std::fs::create_dir(home.path().join(".lope")).unwrap();
    home.file(".lope/config.yaml", "engine: { max_runs: 77 }\n");
    let mut command = home.command(&["config", "show", "--json", "--store", "memory:"]);
    command.env("LOPE_ENGINE_LEASE", "20s");
    let said = stage::Said::of(&command.output().unwrap()).done().json();
    let source = |name: &str| {
        said.as_array()
            .unwrap()
            .iter()
            .find(|it| it["name"] == name)
            .unwrap()["source"]
            .clone()
    };
    assert_eq!(
        [
            "store",
            "engine.max_runs",
            "engine.lease",
            "home",
            "engine.sweep"
        ]
        .map(source),
        ["flag", "file", "environment", "default", "default"].map(|word| json!(word))
    );
}

/// "Execution ids are shown as UUIDs, derived from run id and step path, so they are the same after
/// a replay."
#[test]
fn executions_have_the_ids_they_had_when_a_run_is_folded_again() {
    let home = Home::new();
    let file = home.file("ask.yaml", ASK);
    let ids = |run: &str, store: &str| -> Vec<(String, String)> {
        let shown = home
            .lope(&["runs", "show", run, "--store", store, "--json"])
            .done()
            .json();
        let text = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
        shown["executions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (text(it, "path"), text(it, "id")))
            .collect()
    };
    let url = |name: &str| format!("sqlite:{}", home.path().join(".lope").join(name).display());
    let (here, there) = (url("lope.db"), url("copy.db"));
    let up = Up::start(&home);
    for key in ["k", "other"] {
        home.lope(&["start", &file, "--key", key]).done();
        stage::until("it waits", || {
            reasons(&home, key)
                .first()
                .is_some_and(|first| first == "signal")
        });
    }
    drop(up);
    let before = ids("k", &here);
    assert_eq!(
        before
            .iter()
            .map(|(path, _)| path.as_str())
            .collect::<Vec<_>>(),
        ["say", "answer"]
    );
    for (_, id) in &before {
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
        assert!(
            id.chars()
                .all(|letter| letter == '-' || letter.is_ascii_hexdigit()),
            "{id}"
        );
    }
    assert!(
        ids("other", &here)
            .iter()
            .all(|(_, id)| before.iter().all(|(_, mine)| mine != id)),
        "each run has its own"
    );
    home.lope(&["store", "copy", &here, &there]).done();
    assert_eq!(ids("k", &there), before, "folded in another store");
    home.lope(&["runs", "signal", "k", "answer", "1"]).done();
    home.lope(&["run", "--resume", "k"]).done();
    assert_eq!(ids("k", &here), before, "taken up by another process");
}

/// "Columns and their meaning are documented; a person can follow a run with `sqlite3` or `psql`."
#[test]
fn a_person_can_follow_a_run_with_sql() {
    let home = Home::new();
    let file = home.file("ask.yaml", ASK);
    let up = Up::start(&home);
    home.lope(&["start", &file, "--key", "k"]).done();
    stage::until("it waits", || {
        reasons(&home, "k")
            .first()
            .is_some_and(|first| first == "signal")
    });
    let db = rusqlite::Connection::open(home.path().join(".lope/lope.db")).unwrap();
    let all = |sql: &str| -> Vec<String> {
        let mut query = db.prepare(sql).unwrap();
        let rows = query.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    let journal = "SELECT event FROM journal JOIN runs USING (run_id) WHERE key = 'k' ORDER BY seq";
    assert_eq!(all(journal), ["start", "outcome"]);
    let live = "SELECT workflow || ' ' || runs.status || ' ' || queue.status FROM runs JOIN queue USING (run_id)";
    assert_eq!(all(live), ["ask live waiting"]);
    home.lope(&["runs", "signal", "k", "answer", "1"]).done();
    home.lope(&["runs", "wait", "k"]).done();
    assert_eq!(all(journal), ["start", "outcome", "signal"]);
    assert_eq!(all("SELECT status FROM runs"), ["completed"]);
    assert_eq!(
        all("SELECT status FROM queue"),
        [""; 0],
        "only what is not finished is queued"
    );
    drop(up);
    let documented = include_str!("../../../docs/store-map.md");
    for table in ["workflows", "runs", "queue", "journal"] {
        assert!(documented.contains(&format!("`{table}`")), "{table}");
    }
}

/// Whoever reads only the first lines closes the pipe: that is no failure.
#[test]
fn a_reader_that_has_enough_is_no_bug() {
    let home = Home::new();
    let commands = [
        &["completions", "bash"][..],
        &["config", "show"],
        &["runs", "list", "--json"],
        &["version"],
    ];
    for args in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let said = home
            .command(args)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _watch = stage::Watch::over(&said);
        let said = said.wait_with_output().unwrap();
        assert_eq!(
            said.status.code(),
            Some(0),
            "{args:?}: {}",
            String::from_utf8_lossy(&said.stderr)
        );
    }
}

/// "`started_at` is when it started, `admitted_at` beside it": a run that has waited in its queue,
/// and one that is born claimed.
#[test]
fn times_of_a_run_and_its_steps_are_in_order() {
    let home = Home::new();
    let text = json!({ "name": "w", "steps": {
        "v": { "let": 1 },
        "a": { "run": "true" },
        "b": { "run": "true", "needs": ["a"] },
    } });
    let file = home.file("w.yaml", &text.to_string());
    let run = home.lope(&["run", &file, "--json"]).done().json();
    let waited = home.lope(&["start", &file, "--json"]).done().json();
    let id = waited["run_id"].as_str().unwrap();
    home.lope(&["run", "--resume", id]).done();
    for run in [run, waited] {
        let id = run["run_id"].as_str().unwrap();
        let shown = home.lope(&["runs", "show", id, "--json"]).done().json();
        let all = shown["executions"].as_array().unwrap();
        assert!(all.len() >= 2, "{shown}");
        for execution in all {
            let times = [
                &shown["admitted_at"],
                &shown["started_at"],
                &execution["started_at"],
                &execution["finished_at"],
                &shown["finished_at"],
            ];
            assert!(times.is_sorted_by_key(|at| at.as_str().unwrap()), "{shown}");
            for attempt in execution["attempts"].as_array().into_iter().flatten() {
                let begun = attempt["dispatched_at"].as_str().unwrap();
                assert!(begun >= shown["started_at"].as_str().unwrap(), "{shown}");
                assert!(begun <= attempt["finished_at"].as_str().unwrap(), "{shown}");
            }
        }
    }
}
