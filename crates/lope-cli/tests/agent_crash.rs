//! A runner is killed between the end of an attempt on the board and in the journal of its run: the
//! next one tells the run what is on the board. One whose number another process has by now is gone.

use std::process::Command;

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::agent_project::{AgentProject, RunnerChild};
use crate::stage::until;

/// The first row that a journal is given after an attempt has ended: if that takes for ever, the board
/// has the end, and the journal has it not.
const JOURNAL: &str =
    "before insert on journal when exists (select 1 from task_attempts where ended_at is not null)";
/// What lets writes end that took for ever.
pub(crate) const GO_ON: &str = "drop trigger held_write; drop table held_rows;";

/// Writes of this kind take for ever.
pub(crate) fn hold(writes: &str) -> String {
    format!(
        "create table held_rows as
            with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 1000)
            select n from numbers;
        create trigger held_write {writes}
        begin
            select sum(a.n + b.n + c.n + d.n + e.n + f.n)
            from held_rows a, held_rows b, held_rows c, held_rows d, held_rows e, held_rows f;
        end;"
    )
}

pub(crate) fn count(db: &Connection, text: &str) -> i64 {
    db.query_row(text, [], |row| row.get(0)).unwrap()
}

/// A task of which the runner was killed just when its attempt had ended, as the next runner left
/// it.
fn killed_between(shop: &AgentProject, deed: &str) -> Value {
    let id = shop.add(deed, &[]);
    let db = Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    db.execute_batch(&hold(JOURNAL)).unwrap();
    let mut runner = shop.start();
    until("the end of the attempt on the board", || {
        let ended = "select count(*) from task_attempts where ended_at is not null";
        count(&db, ended) == 1
    });
    runner.signal(Signal::KILL);
    runner.child.wait().unwrap();
    db.execute_batch(GO_ON).unwrap();
    let heard = "select count(*) from journal where event = 'outcome'";
    assert_eq!(count(&db, heard), 0, "the journal had heard of it");
    let told = shop.work();
    assert!(told.err.contains("what its agent did is known"), "{told:?}");
    let outcomes = count(&db, heard);
    assert_eq!(outcomes, 1, "the journal heard of it more than once");
    let begun = shop.file("begun.log");
    assert_eq!(begun, format!("{deed} {id} 1\n"), "an agent began again");
    assert_eq!(shop.json(&["locks", "list"]), serde_json::json!([]));
    let runs = shop.json(&["runs", "list"]);
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    shop.lope(&["store", "check"]).done();
    shop.task(&id)
}

/// The task has one attempt, which counts once.
fn once(task: &Value, status: &str, reason: &str) {
    let attempts = task["attemptList"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{task}");
    assert_eq!(
        (&task["status"], &task["attempts"]),
        (&status.into(), &1.into()),
        "{task}"
    );
    assert_eq!(
        (&attempts[0]["stopReason"], &attempts[0]["counted"]),
        (&reason.into(), &true.into()),
        "{task}"
    );
}

/// "every task ends as it should, none done twice, … cost adds up": at the one moment at which board
/// and journal differ.
#[test]
fn an_attempt_that_ended_on_the_board_before_its_runner_died_is_done_counted_and_paid_once() {
    let shop = AgentProject::new();
    let task = killed_between(&shop, "cost");
    once(&task, "completed", "success");
    let attempt = &task["attemptList"][0];
    assert_eq!(
        (&attempt["cost"], &attempt["tokens"], &task["result"]),
        (&0.25.into(), &1_200.into(), &"did cost".into())
    );
    assert_eq!(shop.file("done.log").lines().count(), 1);
}

#[test]
fn an_attempt_that_failed_on_the_board_before_its_runner_died_fails_its_task_once() {
    let shop = AgentProject::new();
    let task = killed_between(&shop, "fail");
    once(&task, "failed", "exit");
    let reason = task["reason"].as_str().unwrap();
    assert!(reason.contains("cannot do it"), "{reason}");
}

/// A runner that was killed at work, and somebody else's process that has got its number.
fn with_a_number_that_is_used_again() -> (AgentProject, String, RunnerChild) {
    let shop = AgentProject::new();
    let id = shop.add("wait for it", &[]);
    shop.killed_at_work(&id);
    let bystander = RunnerChild::of(Command::new("sleep").arg("1000"));
    let db = Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    let changed = db.execute("update runners set pid = ?1", [bystander.child.id()]);
    assert_eq!(changed.unwrap(), 1);
    (shop, id, bystander)
}

/// "PID reuse (simulated)", "nothing is ever signalled on a mismatch": whoever has the number of a dead
/// runner is left alone, and the runner is known to be dead.
#[test]
fn a_process_with_the_number_of_a_dead_runner_is_left_alone() {
    let (shop, id, mut bystander) = with_a_number_that_is_used_again();
    let runner = shop.json(&["runners", "list"])[0]["id"].clone();
    let woken = shop.json(&["runners", "wakeup"]);
    let step = &woken["steps"][0];
    assert_eq!(
        (&step["action"], &step["ended"]),
        (&"replace".into(), &vec![runner].into()),
        "{woken}"
    );
    shop.go();
    until("the task's end", || shop.task(&id)["status"] == "completed");
    assert_eq!(bystander.child.try_wait().unwrap(), None, "it lives");

    let (shop, _, mut bystander) = with_a_number_that_is_used_again();
    let stopped = shop.json(&["runners", "stop", "--all", "--force"]);
    assert_eq!(stopped[0]["stopped"], "was gone", "{stopped}");
    assert_eq!(bystander.child.try_wait().unwrap(), None, "it lives");
}
