//! Logs of runners and attempts: old ones go, those that are still written stay; they are followed while they are
//! written, and found by their ids when the store has forgotten them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::agent_project::{AgentProject, RunnerChild, attempts};
use crate::fixture::http::Request;
use crate::server::Up;
use crate::stage::until;

/// The logs below a folder.
fn logs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                logs(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect()
}

/// "retention by age": what somebody still writes to is not old, however long ago its last line was and
/// however short the retention is.
#[test]
fn logs_of_those_at_work_stay_when_another_runner_takes_old_ones_away() {
    let shop = AgentProject::with("  logRetention: 0s\n", "");
    std::fs::create_dir(shop.home.path().join("library")).unwrap();
    shop.json(&["projects", "add", "library"]);
    let old = shop.add("succeed", &[]);
    shop.work();
    let home = shop.home.path().join(".lope");
    let of_old = logs(&home);
    let at_work = shop.add("wait for it", &[]);
    let runner = shop.start();
    until("its beginning", || shop.begun(&at_work));
    let live = shop.json(&["runners", "list"])[0]["id"].clone();
    let live = live.as_str().unwrap();
    let ago = SystemTime::now() - Duration::from_hours(1);
    for path in logs(&home) {
        let file = File::options().append(true).open(&path).unwrap();
        file.set_modified(ago).unwrap();
    }
    let words = ["runners", "start", "--project", "library", "--foreground"];
    let other = shop.json(&[&words[..], &["--until-idle"]].concat());
    let left: Vec<&PathBuf> = of_old.iter().filter(|path| path.exists()).collect();
    assert!(left.is_empty() && of_old.len() > 1, "{left:?}");
    assert_eq!(shop.lope(&["tasks", "logs", &old]).code, 1);
    shop.lope(&["tasks", "logs", &at_work]).done();
    for id in [live, other["id"].as_str().unwrap()] {
        let said = shop.lope(&["runners", "logs", id]).done();
        let line = format!(" runner {id} works on ");
        assert!(said.out.contains(&line), "{said:?}");
    }
    drop(runner);
}

/// A command that goes on, whose words go to a file.
fn following(shop: &AgentProject, args: &[&str]) -> (RunnerChild, PathBuf) {
    let path = shop.home.path().join(format!("{}.said", args.join("-")));
    let out = File::create(&path).unwrap();
    let mut command = shop.command(&[args, &["--follow"]].concat());
    (RunnerChild::with_output(&mut command, out), path)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// "`--follow` works while it runs": what an agent says is told line by line, and the end of its attempt ends it.
#[test]
fn what_an_agent_says_is_followed_while_it_works() {
    let shop = AgentProject::new();
    let id = shop.add("chatter", &[]);
    let runner = shop.start();
    until("its beginning", || shop.begun(&id));
    let (people, said) = following(&shop, &["tasks", "logs", &id]);
    let (program, objects) = following(&shop, &["tasks", "logs", &id, "--json"]);
    for path in [&said, &objects] {
        until("a line, while it works", || text(path).contains("line 3"));
    }
    assert_eq!(shop.task(&id)["status"], "in_progress");
    shop.go();
    for follower in [people, program] {
        let ended = follower.said();
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    }
    until("its end", || shop.task(&id)["status"] == "completed");
    let whole = shop
        .lope(&["tasks", "logs", &id, "--limit", "100000"])
        .done();
    assert_eq!(text(&said), whole.out, "every line, once");
    assert!(whole.out.ends_with(" out did chatter\n"), "{whole:?}");
    let objects = text(&objects);
    let objects = objects.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        format!(
            "{} {}\n",
            line["at"].as_str().unwrap(),
            line["text"].as_str().unwrap()
        )
    });
    assert_eq!(objects.collect::<String>(), whole.out);
    drop(runner);
}

/// Whoever follows a runner, or its agent, need not wait for one that was killed.
#[test]
fn following_ends_when_the_runner_was_killed() {
    let shop = AgentProject::new();
    let id = shop.add("chatter", &[]);
    let runner = shop.start();
    until("its beginning", || shop.begun(&id));
    let listed = shop.json(&["runners", "list"]);
    let name = listed[0]["id"].as_str().unwrap();
    let (agent, said) = following(&shop, &["tasks", "logs", &id]);
    let (daemon, told) = following(&shop, &["runners", "logs", name]);
    until("both follow", || {
        text(&said).contains("line 2") && text(&told).contains(&id)
    });
    kill_process(Pid::from_child(&runner.child), Signal::KILL).unwrap();
    drop(runner);
    for follower in [agent, daemon] {
        assert_eq!(follower.said().code, 0, "it ends");
    }
    let shown = shop.json(&["runners", "show", name]);
    assert_eq!(shown["status"], "dead", "nobody has ended it: {shown}");
}

/// "logged … to a file keyed by task, run and attempt"; "an index can be rebuilt from the files": with the store lost,
/// what agents and runners said is found by the beginning of their ids.
#[test]
fn logs_are_found_when_the_store_is_lost() {
    let shop = AgentProject::new();
    let id = shop.add("reject this first", &["--review", "agent"]);
    let other = shop.add("succeed", &[]);
    shop.work();
    let task = shop.task(&id);
    let runs = attempts(&task, "run");
    let logs = attempts(&task, "log");
    for (place, (role, run)) in attempts(&task, "role").iter().zip(&runs).enumerate() {
        let [role, run] = [role, run].map(|it| it.as_str().unwrap());
        let name = format!("{id}/{role}-{run}.{}.log", place + 1);
        assert_eq!(logs[place], &json!(name));
    }
    let runner = shop.json(&["runners", "list", "--all"])[0]["id"].clone();
    let runner = runner.as_str().unwrap();
    let all = |shop: &AgentProject| {
        let of = |args: &[&str]| shop.lope(args).done().out;
        [
            of(&["tasks", "logs", &id]),
            of(&["tasks", "logs", &id[..13], "--attempt", "1"]),
            of(&["tasks", "logs", &other]),
            of(&["runners", "logs", runner]),
        ]
    };
    let before = all(&shop);
    assert!(before[0].contains("VERDICT: APPROVED"), "{before:?}");
    let home = shop.home.path().join(".lope");
    for name in ["lope.db", "lope.db-wal", "lope.db-shm"] {
        let _ = std::fs::remove_file(home.join(name));
    }
    assert_eq!(all(&shop), before, "there is no store");
    assert!(!home.join("lope.db").exists(), "nor is one made");
    let unknown = shop.lope(&["tasks", "logs", "00000000-0000-4000-8000-000000000000"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    shop.json(&["projects", "add", "shop"]);
    assert_eq!(all(&shop), before, "the store knows nothing of them");
    let ambiguous = shop.lope(&["tasks", "logs", ""]);
    assert_ne!(ambiguous.code, 0, "{ambiguous:?}");
    let attempt = shop.lope(&["tasks", "logs", &id, "--attempt", "9"]);
    assert_eq!(attempt.code, 1, "{attempt:?}");
}

/// "`logs ID [--follow]`, `--all --limit N`. Every command has `--json`": whose line each is, by the same id as everywhere.
#[test]
fn the_lines_of_all_runners_name_their_runners() {
    let shop = AgentProject::new();
    std::fs::create_dir(shop.home.path().join("other")).unwrap();
    shop.json(&["projects", "add", "other"]);
    shop.work();
    let words = ["runners", "start", "--project", "other", "--foreground"];
    shop.json(&[&words[..], &["--until-idle"]].concat());
    let runners = shop.json(&["runners", "list", "--all"]);
    let mut ids: Vec<&str> = (runners.as_array().unwrap().iter())
        .map(|runner| runner["id"].as_str().unwrap())
        .collect();
    let lines = shop.json(&["runners", "logs", "--all"]);
    let lines = lines.as_array().unwrap();
    let mut named: Vec<&str> = (lines.iter())
        .map(|line| line["runner"].as_str().unwrap())
        .collect();
    named.sort_unstable();
    named.dedup();
    ids.sort_unstable();
    assert_eq!((named, ids.len()), (ids.clone(), 2), "{lines:?}");
    for id in ids {
        let own = shop.json(&["runners", "logs", id]);
        let of_all = lines.iter().filter(|line| line["runner"] == id);
        let of_all: Vec<Value> = of_all
            .map(|line| json!({ "at": line["at"], "text": line["text"] }))
            .collect();
        assert_eq!(own, Value::from(of_all));
        let table = shop.lope(&["runners", "logs", "--all"]).done().out;
        assert!(table.contains(&format!(" [{}] ", &id[..8])), "{table}");
    }
}

/// One list names all who work; what is for runners of agents alone says so of the others.
#[test]
fn a_runner_that_works_on_runs_is_shown_and_nothing_else() {
    let shop = AgentProject::new();
    let up = Up::start(&shop.home, &["--http", "127.0.0.1:0"]);
    let listed = shop.json(&["runners", "list"]);
    assert_eq!(listed[0]["kind"], "runs", "{listed}");
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(shop.json(&["runners", "show", id])["kind"], "runs");
    for verb in ["stop", "logs"] {
        let said = shop.lope(&["runners", verb, &id[..13]]);
        let words = format!("error: runner {id} works on runs, not for agents\n  hint: process ");
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.starts_with(&words), "{said:?}");
    }
    assert_eq!(up.send(Request::get("/healthz")).status, 200);
    let none = shop.lope(&["runners", "stop", "00000000"]);
    assert!(none.err.contains("there is no runner"), "{none:?}");
}
