//! What was found by hand with the binary and must not come back: what commands say about stores
//! that are missing, newer or damaged, and about runs that failed.

use crate::stage;

use std::path::PathBuf;
use std::process::Stdio;

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};

use stage::{Home, until};

const FAILS: &str = "name: fails\nsteps:\n  outer:\n    if: ${{ true }}\n    steps:\n      inner: { run: \"echo why >&2; exit 3\" }\n";
const SAYS: &str = "name: says\nsteps: { say: { run: [echo, hi] } }\n";

fn database(home: &Home) -> Connection {
    Connection::open(home.path().join(".lope/lope.db")).unwrap()
}

#[test]
fn looking_at_a_mailbox_makes_no_store() {
    let home = Home::new();
    for (args, says) in [
        (&["mailbox", "list", "7"][..], "none"),
        (&["mailbox", "timers", "7"], "none"),
        (&["mailbox", "dead", "7"], "none"),
        (&["mailbox", "stats"], "0 messages"),
        (&["tokens", "list"], "no tokens"),
    ] {
        let said = home.lope(args).done();
        assert!(said.out.starts_with(says), "{args:?}: {said:?}");
    }
    for args in [
        &["mailbox", "drop", "7", "1"][..],
        &["mailbox", "replay", "7", "1"],
        &["tokens", "revoke", "none"],
    ] {
        let said = home.lope(args);
        assert_eq!(said.code, 1, "{args:?}: {said:?}");
    }
    assert_eq!(home.contents(), Vec::<String>::new());
}

#[test]
fn a_completion_script_is_one_value_when_json_is_asked_for() {
    let home = Home::new();
    let said = home.lope(&["completions", "bash", "--json"]).done().json();
    let script = home.lope(&["completions", "bash"]).done().out;
    assert_eq!(said["shell"], "bash");
    assert_eq!(said["script"], script);
}

#[test]
fn a_failed_run_says_why_everywhere_and_where_it_failed() {
    let home = Home::new();
    let file = home.file("fails.yaml", FAILS);
    let run = home.lope(&["run", &file, "--json"]).json();
    assert_eq!(run["error"]["attempt"], 1, "{run}");
    let listed = home.lope(&["runs", "list", "--json"]).done().json();
    let error = &listed[0]["error"];
    assert_eq!(error["type"], "ExitStatus", "{listed}");
    assert_eq!(error["step"], "outer/inner");
    assert_eq!(error["attempt"], 1);
    assert!(error["message"].as_str().unwrap().ends_with(": why"));
    let id = run["run_id"].as_str().unwrap();
    let shown = home.lope(&["runs", "show", id, "--json"]).done().json();
    let executions = shown["executions"].as_array().unwrap();
    assert_eq!(executions.len(), 2, "{shown}");
    for execution in executions {
        assert_eq!(execution["status"], "failed", "{execution}");
        assert_eq!(execution["error"]["attempt"], 1, "{execution}");
        assert_eq!(execution["error"]["step"], "outer/inner");
    }
    let attempt = &executions[1]["attempts"][0]["error"];
    assert_eq!(attempt["attempt"], 1, "{shown}");
}

#[test]
fn a_workflow_that_is_looked_for_without_a_store_is_not_deployed() {
    let home = Home::new();
    let said = home.lope(&["workflows", "show", "x"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("no workflow 'x' is deployed"), "{said:?}");
}

#[test]
fn the_drawing_of_a_queued_run_shows_nothing_at_work() {
    let home = Home::new();
    let file = home.file("says.yaml", SAYS);
    let run = home.lope(&["start", &file, "--json"]).done().json();
    let id = run["run_id"].as_str().unwrap();
    let drawn = home.lope(&["runs", "graph", id, "--json"]).done().json();
    assert_eq!(drawn["steps"], serde_json::json!({}), "{drawn}");
    let drawn = home.lope(&["runs", "graph", id]).done();
    assert!(!drawn.out.contains('▶'), "{}", drawn.out);
}

#[test]
fn a_key_that_belongs_to_another_workflow_is_refused_with_both_names() {
    let home = Home::new();
    let (says, fails) = (home.file("says.yaml", SAYS), home.file("fails.yaml", FAILS));
    home.lope(&["start", &says, "--key", "k"]).done();
    home.lope(&["start", &says, "--key", "k"]).done();
    for command in ["start", "run"] {
        let said = home.lope(&[command, &fails, "--key", "k"]);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.contains("'says'"), "{said:?}");
        assert!(said.err.contains("'fails'"), "{said:?}");
    }
}

#[test]
fn damage_of_every_column_is_found_and_every_damaged_run_named() {
    let home = Home::new();
    let file = home.file("says.yaml", SAYS);
    let damages = [
        (
            "workflow",
            "UPDATE runs SET workflow = '' WHERE run_id = ?1",
        ),
        ("realm", "UPDATE runs SET realm = '' WHERE run_id = ?1"),
        ("epoch", "UPDATE queue SET epoch = -1 WHERE run_id = ?1"),
        (
            "version",
            "UPDATE runs SET version = x'00' WHERE run_id = ?1",
        ),
        ("tags", "UPDATE runs SET tags = '[]' WHERE run_id = ?1"),
    ];
    let mut runs = Vec::new();
    for (_, damage) in damages {
        let run = home.lope(&["start", &file, "--json"]).done().json();
        let id = run["run_id"].as_str().unwrap().to_owned();
        let bytes = id.parse::<lope_model::RunId>().unwrap();
        let changed = database(&home).execute(damage, [bytes.as_bytes()]);
        assert_eq!(changed, Ok(1), "{damage}");
        runs.push(id);
    }
    let checked = home.lope(&["store", "check"]);
    assert_eq!(checked.code, 1);
    for ((what, _), run) in damages.iter().zip(&runs) {
        let finding = format!("run {run} is damaged: its {what} cannot be read");
        assert!(checked.out.contains(&finding), "{finding}: {checked:?}");
    }
    let unreadable: Vec<&String> = runs[1..].iter().collect();
    let listed = home.lope(&["runs", "list"]).done();
    for run in &unreadable {
        assert!(listed.err.contains(run.as_str()), "{run}: {listed:?}");
    }
    // A claim raises the epoch, and with that the run is as good as new.
    let unreadable: Vec<&String> = unreadable
        .into_iter()
        .filter(|run| **run != runs[2])
        .collect();
    let mut up = home
        .command(&["up"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reported = std::io::BufReader::new(up.stderr.take().unwrap());
    let mut named: std::collections::BTreeSet<&String> = std::collections::BTreeSet::new();
    let _watch = stage::Watch::over(&up);
    while named.len() < unreadable.len() {
        let mut line = String::new();
        let read = std::io::BufRead::read_line(&mut reported, &mut line).unwrap();
        assert!(read > 0, "only {named:?} of {unreadable:?} are named");
        named.extend(unreadable.iter().filter(|run| line.contains(run.as_str())));
    }
    kill_process(Pid::from_child(&up), Signal::KILL).unwrap();
    up.wait().unwrap();
}

#[test]
fn a_path_in_the_config_file_begins_at_that_file() {
    let home = Home::new();
    let folder = home.path().join("elsewhere");
    std::fs::create_dir_all(home.path().join(".lope")).unwrap();
    std::fs::create_dir(&folder).unwrap();
    home.file(".lope/config.yaml", "store: sqlite:mine/here.db\n");
    let file = home.file("says.yaml", SAYS);
    for place in [home.path().to_owned(), folder] {
        let mut command = home.command(&["run", &file]);
        stage::said(command.current_dir(place)).done();
    }
    let made: PathBuf = home.path().join(".lope/mine/here.db");
    assert!(made.exists(), "{:?}", home.contents());
    let runs = home.lope(&["runs", "list", "--json"]).done().json();
    assert_eq!(runs.as_array().unwrap().len(), 2);
}

#[test]
fn a_runner_takes_several_queues_behind_one_flag() {
    let home = Home::new();
    let file = home.file("says.yaml", SAYS);
    for queue in ["a", "b", "c"] {
        home.lope(&["start", &file, "--queue", queue, "--key", queue])
            .done();
    }
    let mut up = home.command(&["up", "--queue", "a", "b"]);
    let mut up = up.stderr(Stdio::null()).spawn().unwrap();
    let _watch = stage::Watch::over(&up);
    let status = |key: &str| {
        let shown = home.lope(&["runs", "show", key, "--json"]).done().json();
        shown["status"].as_str().unwrap().to_owned()
    };
    until("both queues are worked on", || {
        ["a", "b"].iter().all(|key| status(key) == "completed")
    });
    assert_eq!(status("c"), "queued");
    kill_process(Pid::from_child(&up), Signal::TERM).unwrap();
    up.wait().unwrap();
}

#[test]
fn a_newer_store_is_not_planned_backwards() {
    let home = Home::new();
    home.lope(&["store", "migrate"]).done();
    let newer = "UPDATE meta SET value = '99' WHERE key = 'schema_version'";
    assert_eq!(database(&home).execute(newer, []), Ok(1));
    for args in [
        &["store", "migrate"][..],
        &["store", "migrate", "--dry-run"],
    ] {
        let said = home.lope(args);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.contains("schema version 99"), "{said:?}");
        assert!(said.err.contains("newer lope"), "{said:?}");
    }
}

#[test]
fn a_run_without_its_journal_is_told_as_damaged() {
    let home = Home::new();
    let file = home.file("says.yaml", SAYS);
    let run = home.lope(&["run", &file, "--json"]).done().json();
    database(&home).execute("DELETE FROM journal", []).unwrap();
    let said = home.lope(&["runs", "show", run["run_id"].as_str().unwrap()]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("ends at row 0"), "{said:?}");
}

fn logs_of(home: &Home, run: &str) -> bool {
    home.path().join(".lope/logs").join(run).exists()
}

fn ran(home: &Home, file: &str) -> String {
    let run = home.lope(&["run", file, "--json"]).json();
    run["run_id"].as_str().unwrap().to_owned()
}

/// What the settings say of a workflow, what the workflow says, what the settings say of an ending.
#[test]
fn retention_is_that_of_the_workflow_and_of_the_ending_and_logs_go_with_runs() {
    let home = Home::new();
    std::fs::create_dir_all(home.path().join(".lope")).unwrap();
    home.file(
        ".lope/config.yaml",
        "engine: { retention: 30d, retention_failed: 0s, sweep: 50ms }\nretention: { configured: forever }\n",
    );
    let says = |name: &str, retention: &str| {
        let text = format!("name: {name}\n{retention}steps: {{ say: {{ run: [echo, hi] }} }}\n");
        home.file(&format!("{name}.yaml"), &text)
    };
    let short = ran(&home, &says("short", "retention: 0s\n"));
    let configured = ran(&home, &says("configured", "retention: 0s\n"));
    let kept = ran(&home, &says("kept", ""));
    let failed = ran(&home, &home.file("fails.yaml", FAILS));
    let all = [&short, &configured, &kept, &failed];
    assert!(all.iter().all(|run| logs_of(&home, run)));
    let counted = home.lope(&["store", "prune", "--dry-run", "--json"]).done();
    assert_eq!(counted.json()["runs"], 2, "{counted:?}");
    let mut up = home.command(&["up"]);
    let mut up = up.stderr(Stdio::null()).spawn().unwrap();
    let _watch = stage::Watch::over(&up);
    until("what is too old is gone, with its logs", || {
        [&short, &failed].iter().all(|run| !logs_of(&home, run))
    });
    kill_process(Pid::from_child(&up), Signal::TERM).unwrap();
    up.wait().unwrap();
    let listed = home.lope(&["runs", "list", "--json"]).done().json();
    let left: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["run_id"].as_str().unwrap())
        .collect();
    assert_eq!(left, [kept.as_str(), configured.as_str()], "{listed}");
    assert!(logs_of(&home, &kept) && logs_of(&home, &configured));
    home.lope(&["store", "prune", "--older", "0s"]).done();
    assert!(!logs_of(&home, &kept) && !logs_of(&home, &configured));
    assert_eq!(home.lope(&["store", "check"]).code, 0);
}

#[test]
fn a_pruned_store_gives_its_space_back_when_no_runner_works() {
    let home = Home::new();
    let large =
        "name: large\nsteps: { say: { run: \"head -c 3000000 /dev/zero | tr '\\\\0' x\" } }\n";
    let file = home.file("large.yaml", large);
    ran(&home, &file);
    let size = || {
        std::fs::metadata(home.path().join(".lope/lope.db"))
            .unwrap()
            .len()
    };
    assert!(size() > 3_000_000, "{}", size());
    let mut up = home.command(&["up"]);
    let mut up = up.stderr(Stdio::piped()).spawn().unwrap();
    let _watch = stage::Watch::over(&up);
    let mut reported = std::io::BufReader::new(up.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut reported, &mut line).unwrap();
    until("the runner is registered", || {
        let said = home.lope(&["store", "prune", "--older", "9d", "--compact"]);
        said.code == 3 && said.err.contains("stop them first")
    });
    let refused = home.lope(&["store", "prune", "--older", "0s", "--compact"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    let listed = home.lope(&["runs", "list", "--json"]).done().json();
    let left = listed.as_array().unwrap().len();
    assert_eq!(left, 1, "what is refused deletes nothing: {listed}");
    kill_process(Pid::from_child(&up), Signal::TERM).unwrap();
    up.wait().unwrap();
    let said = home.lope(&["store", "prune", "--older", "0s", "--compact", "--json"]);
    let freed = said.done().json()["freed"].as_u64().unwrap();
    assert!(
        size() < 1_000_000,
        "{} after {freed} bytes were freed",
        size()
    );
    assert_eq!(home.lope(&["store", "check"]).code, 0);
}

/// "A clean stop leaves everything in `lope.db` itself, so that a copy of the file is the store":
/// after a command that worked by itself, and after a runner.
#[test]
fn a_copy_of_the_one_file_after_a_clean_stop_is_the_store() {
    let home = Home::new();
    let copied = |name: &str| {
        let copy = home.path().join(name);
        std::fs::copy(home.path().join(".lope/lope.db"), &copy).unwrap();
        let store = format!("sqlite:{}", copy.display());
        home.lope(&["store", "check", "--store", &store]).done();
        let listed = home.lope(&["runs", "list", "--json", "--store", &store]);
        listed.done().json().as_array().unwrap().len()
    };
    let file = home.file("says.yaml", SAYS);
    ran(&home, &file);
    assert_eq!(copied("after-run.db"), 1);
    let mut up = home.command(&["up"]);
    let mut up = up.stderr(Stdio::null()).spawn().unwrap();
    let _watch = stage::Watch::over(&up);
    home.lope(&["start", &file, "--key", "k"]).done();
    until("it is worked on", || {
        let shown = home.lope(&["runs", "show", "k", "--json"]).done().json();
        shown["status"] == "completed"
    });
    kill_process(Pid::from_child(&up), Signal::TERM).unwrap();
    assert!(up.wait().unwrap().success());
    assert_eq!(copied("after-up.db"), 2);
}
