//! A runner in the foreground that is asked to stop by signals: once, twice, and while a hook hangs.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::json;

use crate::fixture::agent_project::{AgentProject, RunnerChild, attempts, is_there};
use crate::stage::until;

const ASKED: &str = "asked to stop: the task at work may end; asked again, its agent is stopped\n";

/// The log of the only runner that there is or was.
fn runner_log(shop: &AgentProject) -> String {
    let all = ["runners", "logs", "--all"];
    shop.lope(&all).done().out
}

/// "The first TERM or Ctrl-C to a runner in the foreground lets it end its task"
#[test]
fn the_first_ctrl_c_lets_the_task_end_and_begins_no_other() {
    for signal in [Signal::INT, Signal::TERM] {
        let shop = AgentProject::new();
        let first = shop.add("wait for it", &[]);
        let second = shop.add("succeed", &[]);
        let runner = shop.start();
        until("its beginning", || shop.begun(&first));
        runner.signal(signal);
        until("it says so", || runner_log(&shop).contains(ASKED));
        assert_eq!(shop.task(&first)["status"], "in_progress");
        shop.go();
        let said = runner.said();
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.err.contains(ASKED), "{said:?}");
        assert_eq!(shop.task(&first)["status"], "completed");
        assert_eq!(shop.task(&second)["status"], "pending");
        assert!(!shop.begun(&second));
    }
}

/// "…, the second stops the agent": that attempt is not counted, and the next runner goes on.
#[test]
fn the_second_ctrl_c_stops_the_agent() {
    let shop = AgentProject::with("  stopGrace: 500ms\n", "");
    let id = shop.add("wait for it", &[]);
    let runner = shop.start();
    until("its beginning", || shop.begun(&id));
    // Two of one kind that come at once may be one.
    runner.signal(Signal::INT);
    runner.signal(Signal::TERM);
    let said = runner.said();
    assert_eq!(said.code, 0, "{said:?}");
    let task = shop.task(&id);
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&json!("pending"), &json!(0))
    );
    assert_eq!(attempts(&task, "stopReason"), [&json!("drain")]);
    shop.go();
    shop.work();
    assert_eq!(shop.task(&id)["status"], "completed");
}

/// "Tasks do not wait for hooks": nor does the place of a runner whose work is done, and whoever asks it
/// to stop twice does not wait either.
#[test]
fn a_hook_that_hangs_keeps_neither_a_runner_nor_its_place() {
    let hook =
        "[sh, -c, 'cat >/dev/null; echo $$ >$HOME/pid; mv $HOME/pid $HOME/hung; exec sleep 1000']";
    let hooks = format!("  hooks:\n    - {{ on: [completed], command: {hook}, timeout: 1h }}\n");
    let shop = AgentProject::with(&hooks, "");
    shop.add("succeed", &[]);
    let words = ["runners", "start", "--project", "shop", "--foreground"];
    let runner = RunnerChild::of(&mut shop.command(&[&words[..], &["--until-idle"]].concat()));
    let hung = shop.home.path().join("hung");
    until("the hook hangs", || hung.exists());
    until("its place is free", || {
        shop.json(&["runners", "list"]) == json!([])
    });
    shop.add("succeed", &[]);
    let woken = shop.json(&["runners", "wakeup", "--dry-run"]);
    assert_eq!(woken["steps"][0]["action"], "start", "{woken}");
    runner.signal(Signal::INT);
    runner.signal(Signal::TERM);
    let said = runner.said();
    assert_eq!(said.code, 0, "{said:?}");
    let line = "asked to stop: what hooks have not heard is told by others\n";
    assert!(said.err.contains(line), "{said:?}");
    let hung = std::fs::read_to_string(hung).unwrap();
    until("the hook is gone", || !is_there(&hung));
}

/// "`stop` by id …, `--all`, …; drains, then cancels": one that does not answer keeps no other waiting.
#[test]
fn all_runners_are_stopped_beside_each_other() {
    let shop = AgentProject::with("  stopGrace: 1h\n", "");
    let other = shop.home.path().join("library");
    std::fs::create_dir(&other).unwrap();
    shop.json(&["projects", "add", "library"]);
    shop.add("wait for it", &[]);
    let words = ["tasks", "add", "wait here", "--project", "library"];
    shop.json(&words);
    let words = ["runners", "start", "--project", "library", "--foreground"];
    let runners = [shop.start(), RunnerChild::of(&mut shop.command(&words))];
    until("both are at work", || {
        [&shop.project, &other].map(|folder| folder.join("begun.log").exists()) == [true; 2]
    });
    // The first in their order stands still.
    let live = || {
        let list = shop.json(&["runners", "list"]);
        let list = list.as_array().unwrap().iter();
        let live = list.map(|it| (it["id"].to_string(), it["pid"].as_u64().unwrap()));
        live.collect::<BTreeSet<(String, u64)>>()
    };
    let first = live().pop_first().unwrap().1;
    let is_first = |runner: &&RunnerChild| u64::from(runner.child.id()) == first;
    let still = runners.iter().find(is_first).unwrap();
    still.signal(Signal::STOP);
    let words = ["runners", "stop", "--all", "--timeout", "100ms"];
    let stop = RunnerChild::of(&mut shop.command(&words));
    until("the other has ended", || live().len() == 1);
    assert_eq!(live().pop_first().unwrap().1, first);
    still.signal(Signal::CONT);
    let said = stop.said();
    let stopped = said.out.matches(" was cancelled\n").count();
    assert_eq!((said.code, stopped), (0, 2), "{said:?}");
}
