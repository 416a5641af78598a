//! Rounds that only wait, and the last level of a stop. A workflow of tasks may wait for a person by a signal;
//! whoever wants its runner to end, or decides about the task, need not wait with it.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::agent_crash::{GO_ON, count, hold};
use crate::fixture::agent_project::{AgentProject, attempts, is_there};
use crate::stage::until;

/// What waits for nothing is quick. Before, it took twice the grace and five seconds more.
const QUICK: Duration = Duration::from_secs(20);

/// A shop whose tasks wait for a signal behind their work.
fn waiting_shop() -> AgentProject {
    let shop = AgentProject::with("  stopGrace: 30s\nengine: { evict_after: 300ms }\n", "");
    std::fs::create_dir(shop.project.join(".lope")).unwrap();
    let flow = "name: shop\nsteps:\n  work: { agent: { role: work } }\n  \
                asked: { needs: [work], wait: approved }\n  end: { needs: [asked], return: '${{ work }}' }\n";
    std::fs::write(shop.project.join(".lope/task.yaml"), flow).unwrap();
    shop
}

/// The run of a task that waits for its signal.
fn waiting_run(shop: &AgentProject, id: &str) -> String {
    let mut run = String::new();
    until("its run waits", || {
        let task = shop.task(id);
        let Some(first) = task["attemptList"].get(0) else {
            return false;
        };
        first["run"].as_str().unwrap().clone_into(&mut run);
        let shown = shop.json(&["runs", "show", &run]);
        shown["status"] == "waiting" && task["reason"] == format!("run {run}")
    });
    run
}

/// A round that waits is left at once: by `runners stop`, by a second Ctrl-C, by a decision about its task. The
/// next runner goes on waiting in the same run, until the signal comes: "a task waits for a person by signal".
#[test]
fn a_round_that_only_waits_keeps_nobody_waiting() {
    let shop = waiting_shop();
    let id = shop.add("succeed", &[]);
    let started = shop.json(&["runners", "start", "--project", "shop"]);
    let run = waiting_run(&shop, &id);
    let begun = Instant::now();
    let stopped = shop.json(&["runners", "stop", "--all"]);
    assert!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
    assert_eq!(
        (
            &stopped[0]["stopped"],
            &stopped[0]["status"],
            &stopped[0]["id"]
        ),
        (
            &json!("ended its work"),
            &json!("completed"),
            &started["id"]
        ),
        "{stopped}"
    );
    let task = shop.task(&id);
    assert_eq!(
        (
            &task["status"],
            &task["attempts"],
            attempts(&task, "stopReason")
        ),
        (&json!("pending"), &json!(1), vec![&json!("success")]),
        "{task}"
    );

    // Asked twice, also before it could look whether it only waits.
    let runner = shop.start();
    assert_eq!(waiting_run(&shop, &id), run, "the same run");
    let begun = Instant::now();
    runner.signal(Signal::INT);
    runner.signal(Signal::TERM);
    let said = runner.said();
    assert!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
    assert_eq!(
        (said.code, &shop.task(&id)["status"]),
        (0, &json!("pending"))
    );

    let runner = shop.start();
    waiting_run(&shop, &id);
    shop.lope(&["runs", "signal", &run, "approved"]).done();
    until("its end", || shop.task(&id)["status"] == "completed");
    assert_eq!(shop.task(&id)["result"], "did succeed");
    assert_eq!(shop.file("begun.log").lines().count(), 1, "worked on once");

    let skipped = shop.add("succeed", &["--priority", "9"]);
    waiting_run(&shop, &skipped);
    let next = shop.add("succeed", &[]);
    let begun = Instant::now();
    shop.lope(&["tasks", "skip", &skipped]).done();
    until("the next one begins", || shop.begun(&next));
    assert!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
    assert_eq!(shop.task(&skipped)["status"], "skipped");
    drop(runner);
}

/// "every task ends as it should, none done twice": a round that was taken up, and of which the run had ended when its
/// runner was killed, is over.
#[test]
fn a_round_that_was_taken_up_and_ended_just_before_its_runner_is_not_done_again() {
    let shop = waiting_shop();
    let id = shop.add("succeed", &[]);
    shop.json(&["runners", "start", "--project", "shop"]);
    let run = waiting_run(&shop, &id);
    shop.json(&["runners", "stop", "--all"]);
    let mut runner = shop.start();
    assert_eq!(waiting_run(&shop, &id), run, "the same run");
    let db = rusqlite::Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    let end = hold("before update on tasks when new.status = 'completed'");
    db.execute_batch(&end).unwrap();
    shop.lope(&["runs", "signal", &run, "approved"]).done();
    until("the end of its run", || {
        count(&db, "select count(*) from runs where status = 'completed'") == 1
    });
    runner.signal(Signal::KILL);
    runner.child.wait().unwrap();
    db.execute_batch(GO_ON).unwrap();
    assert_eq!(shop.task(&id)["status"], "in_progress");
    shop.work();
    let task = shop.task(&id);
    assert_eq!(
        (
            &task["status"],
            &task["result"],
            attempts(&task, "stopReason")
        ),
        (
            &json!("completed"),
            &json!("did succeed"),
            vec![&json!("success")]
        ),
        "{task}"
    );
    assert_eq!(shop.file("begun.log").lines().count(), 1, "worked on once");
}

/// "drains, then cancels, then kills": one that hears nothing is killed, and its agents with it.
#[test]
fn a_runner_that_hears_nothing_is_killed_in_the_end() {
    let shop = AgentProject::with("  stopGrace: 100ms\n", "");
    let id = shop.add("stay", &[]);
    let runner = shop.start();
    until("its agent", || !shop.file("agent.pid").is_empty());
    runner.signal(Signal::STOP);
    let stopped = shop.json(&["runners", "stop", "--all", "--timeout", "100ms"]);
    assert_eq!(
        (
            &stopped[0]["stopped"],
            &stopped[0]["status"],
            &stopped[0]["error"]
        ),
        (
            &json!("was killed"),
            &json!("failed"),
            &json!("it was killed")
        ),
        "{stopped}"
    );
    let agent = shop.file("agent.pid");
    until("its agent's end", || !is_there(&agent));
    let task = shop.task(&id);
    assert_eq!(
        task["status"], "in_progress",
        "the next one settles it: {task}"
    );
    assert!(
        task.get("lock").is_none_or(serde_json::Value::is_null),
        "{task}"
    );
    drop(runner);
}

/// "a holder that cannot renew stops its agent": before its lock may be another's, also if the store does not
/// answer at all. True if that was in time.
fn is_stopped_in_time() -> bool {
    let settings =
        "  lockExpiry: 5s\n  staleTimeout: 5s\n  stopGrace: 200ms\nengine: { lease: 10m }\n";
    let shop = AgentProject::with(settings, "");
    shop.add("stay", &[]);
    let runner = shop.start();
    until("its agent", || !shop.file("agent.pid").is_empty());
    let agent = shop.file("agent.pid");
    let db = rusqlite::Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db.execute_batch("begin exclusive").unwrap();
    let held = Instant::now();
    until("its agent's end", || !is_there(&agent));
    let is_in_time = held.elapsed() < Duration::from_secs(5);
    db.execute_batch("rollback").unwrap();
    kill_process(Pid::from_child(&runner.child), Signal::KILL).unwrap();
    is_in_time
}

#[test]
fn a_runner_whose_store_does_not_answer_stops_its_agent_before_its_lock_is_over() {
    // A machine that stands still for a second may do so again, but not each time.
    assert!((0..3).any(|_| is_stopped_in_time()));
}
