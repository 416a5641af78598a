//! The binary as a user meets it: what it prints, where, and with which exit code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::{Command, Output};

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
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

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{} {}", out(output), err(output)))
}

const HELLO: &str = "name: hello\nsteps: { say: { run: [echo, '${{ input }}'] } }";

#[test]
fn a_workflow_runs_on_an_empty_home_and_its_result_is_all_of_stdout() {
    let home = Home::new();
    let file = home.file("hello.yaml", HELLO);
    let output = home.lope(&["run", &file, "--input", "\"hi\""]);
    assert_eq!(
        (code(&output), out(&output).as_str()),
        (0, "hi\n"),
        "{}",
        err(&output)
    );
    let value = json(&home.lope(&["run", &file, "--input", "[1]", "--json"]));
    assert_eq!(
        (&value["status"], &value["result"]),
        (&"completed".into(), &serde_json::json!([1]))
    );
    let listed = json(&home.lope(&["runs", "list", "--status", "completed", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(code(&home.lope(&["store", "check"])), 0);
}

#[test]
fn a_killed_run_goes_on_where_it_was_and_settled_steps_do_not_run_again() {
    let home = Home::new();
    let marks = home.path().join("marks");
    let gate = home.path().join("gate");
    let pid = home.path().join("pid");
    let text = format!(
        "name: marked\nsteps:\n  a: {{ run: \"echo a >> {0}; echo 1\" }}\n  b: {{ run: \"echo $$ > {2}; until [ -e {1} ]; do sleep 0.01; \
         done; echo b >> {0}; echo 2\", needs: [a] }}\n  done: {{ return: ['${{{{ a }}}}', '${{{{ b }}}}'] }}\n",
        marks.display(),
        gate.display(),
        pid.display()
    );
    let file = home.file("marked.yaml", &text);
    let mut first = home
        .command(&["run", &file, "--key", "k", "-q"])
        .spawn()
        .unwrap();
    while home
        .lope(&["runs", "journal", "k"])
        .stdout
        .split(|byte| *byte == b'\n')
        .count()
        < 3
    {
        std::thread::yield_now();
    }
    let begun = loop {
        let text = std::fs::read_to_string(&pid).unwrap_or_default();
        if text.ends_with('\n') {
            break format!("/proc/{}", text.trim());
        }
        std::thread::yield_now();
    };
    first.kill().unwrap();
    first.wait().unwrap();
    while std::path::Path::new(&begun).exists() {
        std::thread::yield_now();
    }
    std::fs::write(&gate, "").unwrap();
    let output = home.lope(&["run", &file, "--key", "k"]);
    assert_eq!(
        (code(&output), out(&output).as_str()),
        (0, "[1,2]\n"),
        "{}",
        err(&output)
    );
    assert_eq!(std::fs::read_to_string(&marks).unwrap(), "a\nb\n");
    let journal = json(&home.lope(&["runs", "journal", "k", "--json"]));
    let events: Vec<&str> = journal
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["event"].as_str().unwrap())
        .collect();
    // What lost its runner once is announced before it begins again.
    assert_eq!(
        events,
        ["start", "outcome", "adopted", "dispatched", "outcome"]
    );
}

#[test]
fn a_failed_run_says_why_and_exits_with_1() {
    let home = Home::new();
    let file = home.file(
        "bad.yaml",
        "name: bad\nsteps: { a: { run: 'echo no luck >&2; exit 3' } }",
    );
    let output = home.lope(&["run", &file, "--json"]);
    let value = json(&output);
    assert_eq!(
        (
            code(&output),
            &value["error"]["type"],
            &value["error"]["step"]
        ),
        (1, &"ExitStatus".into(), &"a".into())
    );
}

#[test]
fn a_signal_reaches_a_run_and_bad_words_are_refused() {
    let home = Home::new();
    let file = home.file("ask.yaml", "name: ask\nsteps: { a: { wait: answer } }");
    let started = json(&home.lope(&["start", &file, "--key", "q", "--json"]));
    assert_eq!(started["status"], "queued");
    assert_eq!(
        code(&home.lope(&["runs", "signal", "q", "answer", "42"])),
        0
    );
    let output = home.lope(&["run", &file, "--key", "q"]);
    assert_eq!(out(&output), "42\n", "{}", err(&output));
    assert_eq!(
        code(&home.lope(&["runs", "signal", "q", "answer", "42"])),
        3,
        "it has ended"
    );
    for (args, exit, word) in [
        (vec!["runs", "show", "nobody"], 1, "no run"),
        (vec!["runs", "list", "--status", "sideways"], 2, "no status"),
        (vec!["run", "nowhere.yaml"], 2, "nowhere.yaml"),
        (vec!["run", &file, "--input", "{"], 2, "not a value"),
        (vec!["start", "unknown"], 1, "deployed"),
        (vec!["start", &file, "--priority", "12"], 2, "priority 12"),
        (vec!["start", &file, "--at", "noon"], 2, "RFC 3339"),
        (vec!["start", &file, "--tag", "x"], 2, "NAME=VALUE"),
        (
            vec!["store", "check", "--store", "mysql://x"],
            2,
            "names no store",
        ),
        (
            vec!["store", "check", "--store", "sqlite:/nowhere/x.db"],
            1,
            "no store",
        ),
        (vec!["--sideways"], 2, "sideways"),
    ] {
        let output = home.lope(&args);
        assert_eq!(code(&output), exit, "{args:?}: {}", err(&output));
        assert!(
            err(&output).contains(word) && out(&output).is_empty(),
            "{args:?}: {}",
            err(&output)
        );
    }
}

#[test]
fn a_bad_file_is_refused_with_its_places_and_nothing_is_stored() {
    let home = Home::new();
    let file = home.file("bad.yaml", "name: bad\nsteps:\n  a: { rnu: echo }\n");
    let output = home.lope(&["run", &file]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("bad.yaml:3:") && err(&output).contains("run"),
        "{}",
        err(&output)
    );
    assert!(!home.path().join(".lope/lope.db").exists());
}

#[test]
fn the_store_is_created_checked_shown_and_backed_up() {
    let home = Home::new();
    assert_eq!(
        json(&home.lope(&["store", "migrate", "--dry-run", "--json"]))["from"],
        0
    );
    assert!(
        !home.path().join(".lope/lope.db").exists(),
        "a dry run changes nothing"
    );
    assert_eq!(code(&home.lope(&["store", "migrate"])), 0);
    assert!(out(&home.lope(&["store", "schema"])).contains("CREATE TABLE journal"));
    let copy = home.path().join("copy.db").display().to_string();
    assert_eq!(code(&home.lope(&["store", "backup", &copy])), 0);
    assert_eq!(
        code(&home.lope(&["store", "backup", &copy])),
        3,
        "it exists already"
    );
    let store = format!("sqlite:{copy}");
    assert_eq!(
        json(&home.lope(&["store", "check", "--store", &store, "--json"]))["sound"],
        true
    );
    std::fs::write(
        home.path().join("junk.db"),
        "this is no database, and long enough to be read as one",
    )
    .unwrap();
    let junk = format!("sqlite:{}", home.path().join("junk.db").display());
    assert_ne!(code(&home.lope(&["store", "check", "--store", &junk])), 0);
}

#[test]
fn settings_are_read_from_file_and_environment_and_a_bad_one_is_named_with_its_place() {
    let home = Home::new();
    let file = home.file("hello.yaml", HELLO);
    std::fs::create_dir(home.path().join(".lope")).unwrap();
    home.file(".lope/config.yaml", "engine:\n  sweep: often\n");
    let output = home.lope(&["run", &file]);
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("config.yaml:2:10: 'often' is not a duration"),
        "{}",
        err(&output)
    );
    home.file(".lope/config.yaml", "engine: { sweep: 2s }");
    let output = home
        .command(&["run", &file])
        .env("LOPE_ENGINE_LAESE", "3s")
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
    assert!(
        err(&output).contains("LOPE_ENGINE_LAESE") && err(&output).contains("lease"),
        "{}",
        err(&output)
    );
    let output = home
        .command(&["run", &file, "-q"])
        .env("LOPE_ENGINE_LEASE", "3s")
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
}
