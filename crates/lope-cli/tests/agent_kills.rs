//! Agents that are killed, alone and with their runners.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::fixture::agent_project::{AgentProject, attempts, is_there};
use crate::fixture::http::Request;
use crate::server::Up;
use crate::stage::until;

fn kill(pid: &str) {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// The number of a process that the agent has written down.
fn pid(shop: &AgentProject, name: &str) -> String {
    until("its number", || shop.file(name).ends_with('\n'));
    shop.file(name)
}

/// "non-zero exit … → failed (attempt counted)": also if somebody killed the agent. What it had started
/// goes, and its runner works on.
#[test]
fn an_agent_that_is_killed_has_failed_and_its_runner_goes_on() {
    let shop = AgentProject::new();
    let killed = shop.add("once-stay", &["--priority", "9"]);
    let next = shop.add("succeed", &[]);
    let runner = shop.start();
    let (agent, child) = (pid(&shop, "agent.pid"), pid(&shop, "child.pid"));
    kill(&agent);
    until("the next one is done", || {
        shop.task(&next)["status"] == "completed"
    });
    assert!(!is_there(&child), "what it had started is gone");
    let task = shop.task(&killed);
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&json!("failed"), &json!(1)),
        "{task}"
    );
    assert_eq!(
        (attempts(&task, "stopReason"), attempts(&task, "counted")),
        (vec![&json!("exit")], vec![&json!(true)]),
        "{task}"
    );
    let reason = task["reason"].as_str().unwrap();
    assert!(reason.contains("signal: 9"), "it says why: {reason}");
    // A person lets it be tried again; the runner is the same.
    shop.lope(&["tasks", "reset", &killed]).done();
    until("it is done", || shop.task(&killed)["status"] == "completed");
    drop(runner);
    let runners = shop.json(&["runners", "list", "--all"]);
    assert_eq!(runners.as_array().unwrap().len(), 1, "{runners}");
}

/// "kill −9 of … both": nothing of them is left, and the next runner does the task, once.
#[test]
fn a_task_whose_runner_and_agent_were_killed_is_done_by_the_next_runner() {
    let shop = AgentProject::new();
    let id = shop.add("once-stay", &[]);
    let runner = shop.start();
    let (agent, child) = (pid(&shop, "agent.pid"), pid(&shop, "child.pid"));
    // Nobody of them hears of the other's end.
    runner.signal(Signal::STOP);
    kill(&agent);
    runner.signal(Signal::KILL);
    until("nothing is left", || !is_there(&child) && !is_there(&agent));
    assert_eq!(shop.task(&id)["status"], "in_progress");
    shop.work();
    let task = shop.task(&id);
    assert_eq!(
        (&task["status"], attempts(&task, "stopReason")),
        (
            &json!("completed"),
            vec![&json!("runner_death"), &json!("success")]
        ),
        "{task}"
    );
    assert_eq!(
        (attempts(&task, "counted"), &task["attempts"]),
        (vec![&json!(true); 2], &json!(2)),
        "{task}"
    );
    assert_eq!(shop.file("done.log").lines().count(), 1, "done once");
    assert_eq!(shop.json(&["locks", "list"]), json!([]));
    drop(runner);
}

/// "Locks whose holder's process is proven dead … are free at once", and by the same proof a runner that was killed is told
/// of as dead, by all who tell of it, until the next one takes its task back.
#[test]
fn a_runner_that_was_killed_is_told_of_as_dead() {
    let shop = AgentProject::new();
    let id = shop.add("once-stay", &[]);
    let mut runner = shop.start();
    pid(&shop, "agent.pid");
    let listed = shop.json(&["runners", "list"]);
    assert_eq!(listed[0]["status"], "running", "{listed}");
    runner.signal(Signal::KILL);
    runner.child.wait().unwrap();
    let why = "its process is gone; the next runner takes its task back";
    let listed = shop.json(&["runners", "list"]);
    let name = listed[0]["id"].as_str().unwrap();
    let up = Up::start(&shop.home, &["--http", "127.0.0.1:0"]);
    let served = up.send(Request::get("/api/agents/runners")).json();
    let project = shop.json(&["projects", "show", "shop"]);
    for dead in [
        &listed[0],
        &shop.json(&["runners", "show", name]),
        &served["runners"][0],
        &project["runners"][0],
    ] {
        assert_eq!(
            (&dead["id"], &dead["status"], &dead["currentTask"]),
            (&json!(name), &json!("dead"), &json!(id)),
            "{dead}"
        );
        assert_eq!(dead["error"], why, "{dead}");
    }
    let page = up.send(Request::get("/agents")).text();
    assert!(page.contains("state dead") && page.contains(why), "{page}");
    assert!(page.contains("No runner of agents is up."), "{page}");
    drop(up);
    let table = shop.lope(&["runners", "list"]).done().out;
    let row = table.lines().find(|line| line.starts_with(&name[..8]));
    assert!(row.is_some_and(|row| row.contains(" dead ")), "{table}");
    let shown = shop.lope(&["runners", "show", name]).done().out;
    assert!(shown.contains(why), "{shown}");
    let examined = shop.lope(&["doctor"]).out;
    assert!(examined.contains(&format!("is dead: {why}")), "{examined}");
    shop.work();
    let ended = shop.json(&["runners", "show", name]);
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(shop.task(&id)["status"], "completed");
}
