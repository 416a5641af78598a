//! Bad input of every kind to every command: a message, a hint, the right exit code, nothing
//! stored.
//!
//! The commands are those that the binary itself names in its help: a new one without rows here
//! fails the test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::stage;

use std::collections::BTreeSet;

use stage::{Home, Said, until};

/// Commands, and what is wrong with what they are given: arguments, exit code, a word of the
/// message.
pub(crate) type Row = (&'static str, &'static [&'static str], i32, &'static str);

const GOOD: &str = "name: good\nsteps: { say: { run: [echo, hi] } }\n";
const BAD: &str = "name: bad\nsteps:\n  a: { rnu: echo }\n";

pub(crate) const ROWS: &[Row] = &[
    ("run", &["nowhere.yaml"], 2, "nowhere.yaml"),
    ("run", &["bad.yaml"], 2, "bad.yaml:3:"),
    ("run", &["torn.yaml"], 2, "torn.yaml:"),
    ("run", &["binary.yaml"], 2, "binary.yaml"),
    ("run", &["."], 2, "."),
    ("run", &[], 2, "required"),
    ("run", &["good.yaml", "--input", "{"], 2, "not a value"),
    (
        "run",
        &["good.yaml", "--input", "@nowhere.json"],
        2,
        "nowhere.json",
    ),
    ("run", &["good.yaml", "--input", "hi"], 2, "quotes"),
    (
        "run",
        &["good.yaml", "--input", "@torn.yaml"],
        2,
        "torn.yaml is not a value",
    ),
    (
        "run",
        &["good.yaml", "--input", "@/dev/zero"],
        2,
        "more than 67108864 bytes",
    ),
    ("run", &["/dev/zero"], 2, "more than 67108864 bytes"),
    ("run", &["binary.yaml"], 2, "not text in UTF-8"),
    ("run", &["good.yaml", "--key", ""], 2, "key"),
    ("run", &["--resume", "nobody"], 1, "no run"),
    ("run", &["good.yaml", "--resume", "x"], 1, "no run"),
    (
        "run",
        &["good.yaml", "--resume", "KEY"],
        2,
        "cannot be given with --resume",
    ),
    (
        "run",
        &["strict.yaml", "--input", "{\"n\": \"text\"}"],
        2,
        "input.n: expected integer",
    ),
    (
        "run",
        &["good.yaml", "--detach", "--store", "memory:"],
        2,
        "memory: ends with this command",
    ),
    ("up", &["--app", "nowhere"], 2, "is no folder"),
    ("up", &["--concurrency", "0"], 2, "concurrency"),
    ("up", &["--concurrency", "many"], 2, "many"),
    ("up", &["--queue", ""], 2, "queue"),
    ("up", &["--http", "nowhere"], 2, "cannot listen on nowhere"),
    ("up", &["--http", "127.0.0.1:port"], 2, "127.0.0.1:port"),
    ("open", &["nobody"], 1, "no run"),
    (
        "open",
        &["--print", "--http", "127.0.0.1:1"],
        4,
        "no server listens on 127.0.0.1:1",
    ),
    ("tokens add", &[], 2, "required"),
    ("tokens add", &[""], 2, "1 to 100 bytes"),
    ("tokens add", &["a", "--right", "all"], 2, "no right"),
    ("tokens list", &["x"], 2, "x"),
    ("tokens revoke", &["nobody"], 1, "no token 'nobody'"),
    ("start", &["unknown"], 1, "deployed"),
    ("start", &["nowhere.yaml"], 2, "nowhere.yaml"),
    ("start", &["bad.yaml"], 2, "bad.yaml:3:"),
    (
        "start",
        &["good.yaml", "--priority", "12"],
        2,
        "priority 12",
    ),
    ("start", &["good.yaml", "--priority", "high"], 2, "high"),
    ("start", &["good.yaml", "--at", "noon"], 2, "RFC 3339"),
    ("start", &["good.yaml", "--tag", "x"], 2, "NAME=VALUE"),
    ("start", &["good.yaml", "--queue", ""], 2, "queue"),
    ("start", &["good.yaml", "--input", "[1,"], 2, "not a value"),
    (
        "start",
        &["strict.yaml", "--input", "5"],
        2,
        "expected object",
    ),
    ("start", &["strict.yaml"], 2, "expected object"),
    (
        "start",
        &["good.yaml", "--store", "memory:"],
        2,
        "memory: ends with this command",
    ),
    ("runs list", &["--status", "sideways"], 2, "no status"),
    ("runs list", &["--tag", "x"], 2, "NAME=VALUE"),
    ("runs list", &["--limit", "0"], 2, "1 to"),
    ("runs list", &["--limit", "-1"], 2, "-1"),
    ("runs list", &["--since", "yesterday"], 2, "RFC 3339"),
    ("runs list", &["--until", "soon"], 2, "RFC 3339"),
    ("runs list", &["--queue", ""], 2, "queue"),
    ("runs list", &["--parent", "nobody"], 1, "no run"),
    ("runs show", &["nobody"], 1, "no run"),
    ("runs show", &[""], 1, "no run"),
    ("runs show", &[], 2, "required"),
    ("runs why", &["nobody"], 1, "no run"),
    ("runs journal", &["nobody"], 1, "no run"),
    ("runs graph", &["nobody"], 1, "no run"),
    ("runs graph", &["KEY", "--format", "crayon"], 2, "crayon"),
    (
        "runs graph",
        &["KEY", "--output", "nowhere/x.svg"],
        2,
        "nowhere",
    ),
    ("runs watch", &["nobody"], 1, "no run"),
    ("runs wait", &["nobody"], 1, "no run"),
    ("runs wait", &["KEY", "--timeout", "soon"], 2, "duration"),
    ("runs logs", &["nobody"], 1, "no run"),
    ("runs results", &["nobody"], 1, "no run"),
    ("runs export", &["nobody"], 1, "no run"),
    (
        "runs export",
        &["KEY", "--output", "good.yaml"],
        3,
        "exists already",
    ),
    ("runs fork", &["nobody"], 1, "no run"),
    ("runs fork", &["KEY"], 3, "had ended"),
    ("runs fork", &["KEY", "--at", "99"], 2, "no journal row 99"),
    ("runs fork", &["KEY", "--at", "-3"], 2, "-3"),
    (
        "runs fork",
        &["KEY", "--at", "1", "--key", "KEY"],
        3,
        "has the key",
    ),
    ("runs signal", &["nobody", "x"], 1, "no run"),
    ("runs signal", &["KEY", "x"], 3, "has ended"),
    ("runs signal", &["KEY", "x", "{"], 2, "not a value"),
    ("runs signal", &["KEY", ""], 2, "name"),
    ("runs feed", &["nobody", "1"], 1, "no run"),
    ("runs feed", &["KEY", "1"], 3, "has ended"),
    ("runs feed", &["KEY", "one"], 2, "not a value"),
    ("runs cancel", &["nobody"], 1, "no run"),
    ("runs cancel", &["KEY"], 3, "has ended"),
    ("runs pause", &["nobody"], 1, "no run"),
    ("runs pause", &["KEY"], 3, "has ended"),
    ("runs resume", &["nobody"], 1, "no run"),
    ("runs resume", &["KEY"], 3, "has ended"),
    ("runs retry", &["nobody"], 1, "no run"),
    ("runs retry", &["KEY"], 3, "only a failed run"),
    ("workflows check", &["nowhere.yaml"], 2, "nowhere.yaml"),
    (
        "workflows check",
        &["bad.yaml", "torn.yaml"],
        2,
        "bad.yaml:3:",
    ),
    ("workflows check", &[], 2, "required"),
    ("workflows graph", &["nowhere"], 1, "no workflow"),
    ("workflows graph", &["bad.yaml"], 2, "bad.yaml:3:"),
    (
        "workflows graph",
        &["good.yaml", "--format", "crayon"],
        2,
        "crayon",
    ),
    (
        "workflows graph",
        &["good.yaml", "--output", "nowhere/x.svg"],
        2,
        "nowhere",
    ),
    (
        "workflows deploy",
        &["good.yaml", "bad.yaml"],
        2,
        "bad.yaml:3:",
    ),
    (
        "workflows deploy",
        &["good.yaml", "--store", "memory:"],
        2,
        "memory: ends with this command",
    ),
    ("workflows deploy", &[], 2, "required"),
    ("workflows list", &["extra"], 2, "extra"),
    ("workflows show", &["nobody"], 1, "no workflow"),
    ("schedules add", &["s", "good.yaml"], 2, "--cron"),
    (
        "schedules add",
        &["s", "good.yaml", "--cron", "@daily", "--every", "1m"],
        2,
        "cannot be used with",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--cron", "61 * * * *"],
        2,
        "  61 * * * *\n  ^",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--cron", "* * *"],
        2,
        "3 of 5 fields",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--cron", "0 0 30 2 *"],
        2,
        "never ticks",
    ),
    (
        "schedules add",
        &[
            "s",
            "good.yaml",
            "--cron",
            "@daily",
            "--zone",
            "Europe/Brelin",
        ],
        2,
        "Europe/Berlin?",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "soon"],
        2,
        "--every: 'soon'",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "1ms"],
        2,
        "too short",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "1m", "--jitter", "2m"],
        2,
        "jitter",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "1m", "--from", "noon"],
        2,
        "--from: 'noon'",
    ),
    (
        "schedules add",
        &[
            "s",
            "good.yaml",
            "--every",
            "1m",
            "--until",
            "2020-01-01T00:00:00Z",
        ],
        2,
        "never ticks",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "1m", "--overlap", "maybe"],
        2,
        "maybe",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "1m", "--catch-up", "some"],
        2,
        "some",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "1m", "--tag", "schedule=x"],
        2,
        "'schedule'",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "1m", "--priority", "12"],
        2,
        "priority 12",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "1m", "--input", "{"],
        2,
        "not a value",
    ),
    (
        "schedules add",
        &["s", "strict.yaml", "--every", "1m", "--input", "5"],
        2,
        "expected object",
    ),
    (
        "schedules add",
        &["", "good.yaml", "--every", "1m"],
        2,
        "bad schedule name",
    ),
    (
        "schedules add",
        &["s", "bad.yaml", "--every", "1m"],
        2,
        "bad.yaml:3:",
    ),
    (
        "schedules add",
        &["s", "unknown", "--every", "1m"],
        1,
        "deployed",
    ),
    (
        "schedules add",
        &["s", "good.yaml", "--every", "1m", "--store", "memory:"],
        2,
        "memory: ends with this command",
    ),
    (
        "schedules add",
        &["nightly", "changed.yaml", "--every", "1m"],
        3,
        "--replace",
    ),
    ("schedules list", &["extra"], 2, "extra"),
    ("schedules show", &["nobody"], 1, "no schedule"),
    ("schedules pause", &["nobody"], 1, "no schedule"),
    ("schedules resume", &["nobody"], 1, "no schedule"),
    ("schedules run", &["nobody"], 1, "no schedule"),
    ("schedules run", &[], 2, "required"),
    ("schedules remove", &["nobody"], 1, "no schedule"),
    ("recipes check", &[], 2, "required"),
    ("recipes check", &["nowhere.yaml"], 2, "nowhere.yaml"),
    ("recipes check", &["torn.yaml"], 2, "torn.yaml:"),
    ("recipes check", &["bad.yaml"], 2, "bad.yaml:2:"),
    ("recipes run", &["good.yaml"], 2, "--into"),
    (
        "recipes run",
        &["bad.yaml", "--into", "home/x"],
        2,
        "bad.yaml:2:",
    ),
    ("recipes run", &["--into", "home"], 2, "no address"),
    (
        "recipes run",
        &["--into", "home/x", "--argument", "{"],
        2,
        "not a value",
    ),
    ("recipes stop", &["home"], 2, "no address"),
    ("recipes list", &["a/b"], 2, "no name of a space"),
    ("recipes show", &["home"], 2, "no address"),
    ("recipes show", &["home/nobody"], 1, "nothing runs"),
    ("recipes why", &["home/nobody", "x"], 2, "invalid"),
    (
        "recipes graph",
        &["home/nobody", "--format", "svg"],
        2,
        "svg",
    ),
    ("cells get", &["home"], 2, "no address"),
    ("cells get", &["home/nobody"], 1, "nothing at"),
    ("cells set", &["home/x"], 2, "required"),
    ("cells set", &["home/x", "{"], 2, "not a value"),
    ("cells set", &["home/x", "true", "--add"], 2, "no number"),
    ("cells watch", &["home"], 2, "no address"),
    ("cells links", &["home/nobody"], 1, "nothing at"),
    ("cells history", &["home/x", "--limit", "x"], 2, "--limit"),
    ("streams send", &["home"], 2, "no address"),
    ("streams send", &["home/x/y", "{"], 2, "not a value"),
    ("mailbox send", &["7"], 2, "--payload"),
    (
        "mailbox send",
        &["7", "--payload", "@nowhere"],
        2,
        "nowhere",
    ),
    (
        "mailbox send",
        &["7", "--payload", "x", "--at", "noon"],
        2,
        "noon",
    ),
    (
        "mailbox send",
        &["7", "--payload", "x", "--kind", "rumour"],
        2,
        "rumour",
    ),
    ("mailbox list", &[], 2, "required"),
    ("mailbox timers", &["7", "--sideways"], 2, "--sideways"),
    ("mailbox dead", &["7", "x"], 2, "x"),
    ("mailbox replay", &["7", "first"], 2, "first"),
    ("mailbox drop", &["7", "first"], 2, "first"),
    ("projects add", &["nowhere"], 2, "no folder"),
    ("projects add", &["good.yaml"], 2, "no folder"),
    ("projects add", &[".", "--name", " "], 2, "name"),
    (
        "projects add",
        &[".", "--store", "memory:"],
        2,
        "memory: ends with this command",
    ),
    ("projects list", &["--store", "mysql://x"], 2, "mysql"),
    ("projects show", &["nobody"], 1, "no project"),
    ("projects show", &[], 1, "no project"),
    ("projects enable", &["nobody"], 1, "no project"),
    ("projects disable", &["nobody"], 1, "no project"),
    ("projects remove", &["nobody"], 1, "no project"),
    ("tasks add", &["a task"], 1, "no project"),
    (
        "tasks add",
        &["a task", "--project", "nobody"],
        1,
        "no project",
    ),
    (
        "tasks add",
        &["a task", "--review", "nobody"],
        2,
        "'nobody' is none of",
    ),
    ("tasks add", &["a task", "--priority", "high"], 2, "high"),
    (
        "tasks add",
        &["a task", "--max-time", "soon"],
        2,
        "duration",
    ),
    ("tasks add", &["a task", "--max-cost", "-1"], 2, "-1"),
    ("tasks add", &[], 2, "required"),
    ("tasks list", &["--status", "odd"], 2, "'odd' is none of"),
    ("tasks list", &["--limit", "0"], 2, "at least 1"),
    ("tasks list", &["--project", "nobody"], 1, "no project"),
    ("tasks show", &["nobody"], 1, "no task"),
    ("tasks show", &[], 2, "which task"),
    ("tasks next", &["--project", "nobody"], 1, "no project"),
    ("tasks claim", &["nobody"], 1, "no task"),
    ("tasks claim", &["--expiry", "soon"], 2, "duration"),
    ("tasks note", &["words"], 2, "which task"),
    ("tasks note", &["words", "--task", "nobody"], 1, "no task"),
    ("tasks done", &["words", "--task", "nobody"], 1, "no task"),
    ("tasks fail", &["words", "--task", "nobody"], 1, "no task"),
    ("tasks split", &["part", "--task", "nobody"], 1, "no task"),
    ("tasks split", &[], 2, "required"),
    ("tasks ask", &["why", "--task", "nobody"], 1, "no task"),
    ("tasks answer", &["nobody", "so"], 1, "no task"),
    ("tasks approve", &["nobody"], 1, "no task"),
    ("tasks reject", &["nobody"], 1, "no task"),
    ("tasks skip", &["nobody"], 1, "no task"),
    ("tasks skip", &[], 2, "required"),
    (
        "tasks skip",
        &["x", "--section", "s"],
        2,
        "cannot be used with",
    ),
    ("tasks reset", &["nobody"], 1, "no task"),
    (
        "tasks reset",
        &["--section", "s", "--project", "nobody"],
        1,
        "no project",
    ),
    ("tasks remove", &["nobody"], 1, "no task"),
    ("tasks import", &["nowhere.md"], 2, "nowhere.md"),
    ("tasks import", &["."], 2, "Is a directory"),
    ("tasks import", &["binary.yaml"], 2, "not text in UTF-8"),
    (
        "tasks import",
        &["good.yaml", "--project", "nobody"],
        1,
        "no project",
    ),
    ("tasks export", &["--project", "nobody"], 1, "no project"),
    ("tasks export", &["--format", "crayon"], 2, "crayon"),
    ("locks list", &["--store", "mysql://x"], 2, "mysql"),
    ("locks release", &["nobody"], 1, "no task"),
    ("tasks logs", &["nobody"], 1, "no task"),
    ("tasks diff", &["nobody"], 1, "no task"),
    ("tasks diff", &["nobody", "--attempt", "one"], 2, "one"),
    ("mcp", &["extra"], 2, "extra"),
    ("runners list", &["--store", "mysql://x"], 2, "mysql"),
    ("runners show", &["nobody"], 1, "no runner"),
    ("runners start", &["--project", "nobody"], 1, "no project"),
    ("runners start", &["--task", "nobody"], 1, "no task"),
    ("runners stop", &["nobody"], 1, "no runner"),
    ("runners stop", &[], 2, "required"),
    (
        "runners stop",
        &["nobody", "--timeout", "soon"],
        2,
        "--timeout",
    ),
    ("runners wakeup", &["--store", "mysql://x"], 2, "mysql"),
    ("runners logs", &["nobody"], 1, "no runner"),
    ("runners logs", &[], 2, "required"),
    ("runners logs", &["--all", "--limit", "0"], 2, "--limit"),
    ("runners cron install", &["extra"], 2, "extra"),
    ("runners cron uninstall", &["extra"], 2, "extra"),
    ("runners cron status", &["extra"], 2, "extra"),
    (
        "mailbox stats",
        &["--store", "mysql://x"],
        2,
        "names no store",
    ),
    ("mailbox work", &[], 2, "required"),
    (
        "store check",
        &["--store", "mysql://x"],
        2,
        "names no store",
    ),
    (
        "store check",
        &["--store", "sqlite:/nowhere/x.db"],
        1,
        "no store",
    ),
    ("store check", &["--store", "sqlite:junk.db"], 1, "junk.db"),
    (
        "store check",
        &["--store", "postgres://localhost:1/x"],
        4,
        "out of reach",
    ),
    (
        "store migrate",
        &["--store", "sqlite:junk.db"],
        1,
        "junk.db",
    ),
    (
        "store schema",
        &["--store", "sqlite:/nowhere/x.db"],
        1,
        "no store",
    ),
    ("store remove-run", &[], 2, "required"),
    ("store remove-run", &["first"], 2, "not the id of a run"),
    (
        "store remove-run",
        &["00000000-0000-7000-8000-000000000000"],
        1,
        "there is no run",
    ),
    (
        "store remove-run",
        &[
            "00000000-0000-7000-8000-000000000000",
            "--store",
            "sqlite:/nowhere/x.db",
        ],
        1,
        "no store",
    ),
    ("store backup", &["good.yaml"], 3, "exists already"),
    (
        "store backup",
        &["nowhere/x.db"],
        2,
        "nowhere/x.db: No such",
    ),
    (
        "store copy",
        &["sqlite:a.db", "mysql:b"],
        2,
        "names no store",
    ),
    (
        "store copy",
        &["sqlite:nowhere.db", "sqlite:b.db"],
        1,
        "no store",
    ),
    (
        "store copy",
        &["sqlite:a.db", "sqlite:a.db"],
        2,
        "into itself",
    ),
    (
        "store copy",
        &["sqlite:HOME/.lope/lope.db", "memory:"],
        2,
        "cannot be copied",
    ),
    ("store copy", &["sqlite:HOME/.lope/lope.db"], 2, "required"),
    ("store prune", &["--older", "long"], 2, "duration"),
    ("store prune", &["--status", "running"], 2, "no way to end"),
    ("config show", &["--store", "x"], 2, "names no store"),
    ("config show", &["extra"], 2, "extra"),
    ("doctor", &["extra"], 2, "extra"),
    ("bench", &["nothing"], 2, "no benchmark 'nothing'"),
    ("bench", &["--on", "paper"], 2, "paper"),
    ("bench", &["--scale", "0"], 2, "0"),
    (
        "bench",
        &["runs", "--on", "postgres"],
        2,
        "no Postgres server",
    ),
    ("completions", &["klingon"], 2, "klingon"),
    ("version", &["extra"], 2, "extra"),
];

/// What help adds by itself.
const HELP: &str = "help";

/// The commands that help names, as they are typed.
pub(crate) fn commands(home: &Home, path: &[&str]) -> BTreeSet<String> {
    let mut asked = path.to_vec();
    asked.push("--help");
    let help = home.lope(&asked).done().out;
    let named = help.split_once("Commands:\n").map_or("", |(_, rest)| rest);
    let words = named
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "));
    let names: Vec<&str> = words
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    if names.is_empty() {
        return [path.join(" ")].into();
    }
    let own = names.into_iter().filter(|name| *name != HELP);
    own.flat_map(|name| commands(home, &[path, &[name]].concat()))
        .collect()
}

pub(crate) fn stage() -> (Home, String) {
    let home = Home::new();
    home.file("good.yaml", GOOD);
    home.file("bad.yaml", BAD);
    home.file("torn.yaml", "name: [torn\nsteps: {");
    home.file(
        "strict.yaml",
        "name: strict\ninput: { type: object, properties: { n: { type: integer } } }\nsteps: { a: { let: 1 } }",
    );
    std::fs::write(home.path().join("binary.yaml"), [0xff, 0xfe, 0, 1]).unwrap();
    home.file(
        "junk.db",
        "this is no database, and long enough to be read as one; really, it is text",
    );
    home.lope(&["run", "good.yaml", "--key", "first"]).done();
    home.file(
        "changed.yaml",
        "name: good\nsteps: { say: { run: [echo, changed] } }\n",
    );
    home.lope(&["schedules", "add", "nightly", "good", "--cron", "@daily"])
        .done();
    let shown = home
        .lope(&["runs", "show", "first", "--json"])
        .done()
        .json();
    let run = shown["run_id"].as_str().unwrap().to_owned();
    (home, run)
}

pub(crate) fn filled(home: &Home, args: &[&str]) -> Vec<String> {
    let place = home.path().display().to_string();
    args.iter()
        .map(|arg| {
            if *arg == "KEY" {
                "first".to_owned()
            } else {
                arg.replace("HOME", &place)
            }
        })
        .collect()
}

#[test]
fn every_command_has_rows() {
    let home = Home::new();
    let rows: BTreeSet<String> = ROWS
        .iter()
        .map(|(command, ..)| (*command).to_owned())
        .collect();
    assert_eq!(commands(&home, &[]), rows);
}

#[test]
fn every_command_refuses_bad_input_with_a_message_and_stores_nothing() {
    let (home, _) = stage();
    let (before, mut wrong) = (state(&home), Vec::new());
    for (command, args, exit, word) in ROWS {
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        words.extend(filled(&home, args));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = home.lope(&words);
        let right =
            said.code == *exit && said.err.contains(word) && said.err.starts_with("error: ");
        if !right || !said.out.is_empty() || said.err.contains("panicked") {
            wrong.push(format!(
                "{words:?} should exit {exit} and say '{word}': {said:?}"
            ));
        }
        if state(&home) != before {
            wrong.push(format!("{words:?} changed something: {:?}", state(&home)));
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rows and files: what a command that is refused must leave alone. Who opens a store may have a
/// session there, and whoever asks for a space makes the table that would hold it.
fn state(home: &Home) -> (Vec<String>, Vec<String>) {
    let path = home.path().join(".lope/lope.db");
    let db = rusqlite::Connection::open(path).unwrap();
    db.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    let tables = "select name from sqlite_master where type = 'table'
                  and name not in ('sessions', 'table_manifest')";
    let mut statement = db.prepare(tables).unwrap();
    let tables = statement.query_map([], |row| row.get::<_, String>(0));
    let tables: Vec<String> = tables.unwrap().map(Result::unwrap).collect();
    let rows = tables.iter().flat_map(|table| rows_of(&db, table));
    let files = home
        .contents()
        .into_iter()
        .filter(|name| !name.contains("/runners/") && !name.ends_with("-wal"))
        .filter(|name| !name.ends_with("-shm"))
        .collect();
    (rows.collect(), files)
}

fn rows_of(db: &rusqlite::Connection, table: &str) -> Vec<String> {
    let mut statement = db.prepare(&format!("select * from \"{table}\"")).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values = (0..columns).map(|column| row.get::<_, rusqlite::types::Value>(column));
        let values: rusqlite::Result<Vec<_>> = values.collect();
        Ok(format!("{table}: {:?}", values?))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn unknown_words_and_flags_are_named_everywhere() {
    let home = Home::new();
    for command in commands(&home, &[]) {
        let mut words: Vec<&str> = command.split(' ').collect();
        words.push("--sideways");
        let said = home.lope(&words);
        assert_eq!(
            (said.code, said.err.contains("--sideways")),
            (2, true),
            "{words:?}: {said:?}"
        );
    }
    let said = home.lope(&["rnu"]);
    assert_eq!((said.code, said.err.contains("rnu")), (2, true), "{said:?}");
    assert!(home.contents().is_empty(), "{:?}", home.contents());
}

#[test]
fn a_bad_config_is_named_with_its_place_by_every_command_that_reads_it() {
    let home = Home::new();
    std::fs::create_dir(home.path().join(".lope")).unwrap();
    home.file(".lope/config.yaml", "engine:\n  lease: soon\n");
    home.file("good.yaml", GOOD);
    for words in [
        vec!["run", "good.yaml"],
        vec!["runs", "list"],
        vec!["store", "check"],
        vec!["config", "show"],
        vec!["up"],
    ] {
        let said: Said = home.lope(&words);
        assert_eq!(
            (said.code, said.err.contains("config.yaml:2:")),
            (2, true),
            "{words:?}: {said:?}"
        );
    }
    let said = home.lope(&["doctor"]);
    assert_eq!(
        (said.code, said.out.contains("config.yaml:2:")),
        (1, true),
        "{said:?}"
    );
}

#[test]
fn help_and_dry_runs_change_nothing() {
    let home = Home::new();
    let file = home.file("good.yaml", GOOD);
    let before = home.contents();
    for command in commands(&home, &[]) {
        let mut words: Vec<&str> = command.split(' ').collect();
        words.push("--help");
        home.lope(&words).done();
    }
    home.lope(&["workflows", "deploy", &file, "--dry-run"])
        .done();
    home.lope(&["store", "migrate", "--dry-run"]).done();
    home.lope(&["runs", "list"]).done();
    home.lope(&["workflows", "list"]).done();
    home.lope(&["schedules", "list"]).done();
    home.lope(&["projects", "list"]).done();
    home.lope(&["tasks", "list"]).done();
    home.lope(&["locks", "list"]).done();
    home.lope(&["runners", "list"]).done();
    home.lope(&["runners", "wakeup", "--dry-run"]).done();
    home.lope(&["config", "show"]).done();
    home.lope(&["doctor"]).done();
    assert_eq!(home.contents(), before);
}

/// What a command that can be tried without doing it is tried with.
const DRY_RUNS: &[(&str, &[&str])] = &[
    ("runners wakeup", &[]),
    (
        "store copy",
        &["sqlite:HOME/.lope/lope.db", "sqlite:HOME/copy.db"],
    ),
    ("store migrate", &[]),
    ("store prune", &["--older", "1d"]),
    ("tasks import", &["list.md", "--project", "shop"]),
    ("workflows deploy", &["changed.yaml"]),
];

/// "`--help` and `--dry-run` of every command leave the store byte-identical (generated test over
/// the whole command tree)"
#[test]
fn help_and_dry_runs_leave_a_store_as_it_is_byte_by_byte() {
    let (home, _) = stage();
    std::fs::create_dir(home.path().join("shop")).unwrap();
    home.file("list.md", "## One\n- [ ] a task\n");
    home.lope(&["projects", "add", "shop"]).done();
    home.lope(&["tasks", "add", "a", "--project", "shop"])
        .done();
    let bytes = || {
        let kept = home.contents();
        let kept = kept.iter().filter(|name| !name.ends_with("-shm"));
        kept.map(|name| (name.clone(), std::fs::read(name).unwrap()))
            .collect::<Vec<_>>()
    };
    // What a killed process left in the log is left there.
    let mut killed = home.command(&["up", "--http", "off"]).spawn().unwrap();
    let log = home.path().join(".lope/lope.db-wal");
    until("its session is in the log", || {
        std::fs::metadata(&log).is_ok_and(|log| log.len() > 0)
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before = bytes();
    home.lope(&["tasks", "list"]).done();
    assert!(bytes() == before, "a look changed something");
    let mut dry = BTreeSet::new();
    for command in commands(&home, &[]) {
        let mut words: Vec<&str> = command.split(' ').collect();
        words.push("--help");
        if home.lope(&words).done().out.contains("--dry-run") {
            dry.insert(command.clone());
        }
    }
    assert!(bytes() == before, "a help changed something");
    let known: BTreeSet<String> = DRY_RUNS.iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(dry, known, "every command that can be tried has a row");
    for (command, args) in DRY_RUNS {
        let words: Vec<&str> = command.split(' ').collect();
        let words = [&words[..], args, &["--dry-run"]].concat();
        let words = filled(&home, &words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = home.lope(&words).done();
        assert!(bytes() == before, "{words:?} changed something: {said:?}");
    }
}
