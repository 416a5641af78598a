//! "`kill -9` at every write point: no task lost or done twice." One row after the other of a task's
//! life takes for ever to be written; the runner that writes it is killed there, and the next one
//! brings the task to its end. A sample of the rows here, all of them under `LOPE_CHAOS=full`.

use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture;
use crate::fixture::agent_project::{AgentProject, RunnerChild};

/// Rows that are passed over in a sample.
const SAMPLE: usize = 11;
/// A writer that has not let go of the file for so many looks in a row stands at the row that is held
/// (or at another one in a very slow moment, where it may be killed as well).
const LOOKS: u32 = 30;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Whatever is written is counted; the row of this number takes for ever.
fn hold(db: &Connection, number: usize) {
    db.execute_batch(
        "create table held_rows as
            with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 1000)
            select n from numbers;
         create table held_count as select 0 as n;",
    )
    .unwrap();
    for table in tables(db) {
        for verb in ["insert", "update", "delete"] {
            let text = format!(
                "create trigger held_{table}_{verb} before {verb} on {table} begin
                    update held_count set n = n + 1;
                    select sum(a.n + b.n + c.n + d.n + e.n + f.n)
                    from held_rows a, held_rows b, held_rows c, held_rows d, held_rows e, held_rows f
                    where (select n from held_count) = {number};
                 end"
            );
            db.execute_batch(&text).unwrap();
        }
    }
}

fn tables(db: &Connection) -> Vec<String> {
    let text = "select name from sqlite_master where type = 'table'
         and name not like 'held_%' and name not like 'sqlite_%'";
    let mut tables = db.prepare(text).unwrap();
    let names = tables.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

/// Let everything be written as always. How many rows were written meanwhile.
fn let_go(db: &Connection) -> usize {
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    for table in tables(db) {
        for verb in ["insert", "update", "delete"] {
            let text = format!("drop trigger held_{table}_{verb}");
            db.execute_batch(&text).unwrap();
        }
    }
    let text = "select n from held_count";
    let count: u32 = db.query_row(text, [], |row| row.get(0)).unwrap();
    db.execute_batch("drop table held_rows; drop table held_count")
        .unwrap();
    count as usize
}

fn is_writing(db: &Connection) -> bool {
    db.execute_batch("begin immediate; rollback").is_err()
}

/// A runner that is killed at the row of this number. False: it ended before.
fn killed_at(shop: &AgentProject, db: &Connection) -> bool {
    let words = ["runners", "start", "--project", "shop", "--foreground"];
    let mut command = shop.command(&[&words[..], &["--until-idle"]].concat());
    let mut runner = RunnerChild::of(&mut command);
    db.busy_timeout(Duration::ZERO).unwrap();
    let mut looks = 0;
    while looks < LOOKS {
        if runner.child.try_wait().unwrap().is_some() {
            return false;
        }
        looks = if is_writing(db) { looks + 1 } else { 0 };
        std::thread::sleep(BETWEEN_LOOKS);
    }
    runner.signal(Signal::KILL);
    runner.child.wait().unwrap();
    true
}

/// The task was worked on and reviewed once, as far as anybody knows; agents that were started for it
/// were written down before.
fn is_done_once(shop: &AgentProject, id: &str, number: usize) {
    let task = shop.task(id);
    assert_eq!(task["status"], "completed", "row {number}: {task}");
    let attempts = task["attemptList"].as_array().unwrap();
    for role in ["work", "review"] {
        let own = attempts.iter().filter(|attempt| attempt["role"] == role);
        let reasons: Vec<&Value> = own.map(|attempt| &attempt["stopReason"]).collect();
        let (last, earlier) = reasons.split_last().unwrap();
        assert_eq!(**last, json!("success"), "row {number}: {task}");
        let died = earlier.iter().all(|reason| **reason == "runner_death");
        assert!(died && earlier.len() <= 1, "row {number}: {task}");
    }
    let work = attempts.iter().filter(|attempt| attempt["role"] == "work");
    let begun = shop.file("begun.log");
    let begun = begun.lines().filter(|line| line.contains(id)).count();
    assert!((1..=work.count()).contains(&begun), "row {number}: {task}");
    assert_eq!(shop.json(&["locks", "list"]), json!([]), "row {number}");
    assert_eq!(shop.json(&["runners", "list"]), json!([]), "row {number}");
}

#[test]
fn a_runner_that_is_killed_at_any_row_loses_no_task_and_does_none_twice() {
    let shop = AgentProject::new();
    let path = shop.home.path().join(".lope/config.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    // Signs of life are written when they are due, and not in between.
    let config = config.replace("heartbeatInterval: 200ms", "heartbeatInterval: 30s");
    std::fs::write(&path, config).unwrap();
    let db = Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    let step = if fixture::full() { 1 } else { SAMPLE };
    let mut number = 1;
    let rows = loop {
        let id = shop.add("cost something", &["--review", "agent"]);
        hold(&db, number);
        let is_killed = killed_at(&shop, &db);
        let rows = let_go(&db);
        if is_killed {
            shop.work();
        }
        is_done_once(&shop, &id, number);
        if !is_killed {
            break rows;
        }
        number += step;
    };
    println!("{rows} rows in the life of a task, killed at every {step}th");
    assert!((20..=number).contains(&rows), "{rows} rows, {number}");
    let ended = shop.json(&["runs", "list"]);
    let mut ended = ended.as_array().unwrap().iter();
    assert!(ended.all(|run| run["status"] == "completed"));
    shop.lope(&["store", "check"]).done();
}
