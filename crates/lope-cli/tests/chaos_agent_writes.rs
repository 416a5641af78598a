//! "`kill -9` at every write point: no task lost or done twice." One row after the other of a task's
//! life takes for ever to be written; the runner that writes it is killed there, and the next one
//! brings the task to its end. A sample of the rows here, all of them under `LOPE_CHAOS=full`.

use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::fixture;
use crate::fixture::agent_project::{AgentProject, RunnerChild};

/// Rows that are passed over in a sample.
const SAMPLE: usize = 11;
/// A writer that has not let go of the file for so many looks in a row stands at the row that is held
/// (or at another one in a very slow moment, where it may be killed as well).
const LOOKS: u32 = 30;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A store whose rows are counted as they are written.
trait CountedRows {
    /// From now on the row of this number takes for ever.
    fn hold(&mut self, number: usize);

    /// One more look: does somebody stand there?
    fn is_held(&mut self) -> bool;

    /// Let everything be written as always, after whoever stood there was killed or has ended. How
    /// many rows were written meanwhile.
    fn let_go(&mut self, number: usize) -> usize;
}

struct SqliteRows {
    db: Connection,
    looks: u32,
}

impl CountedRows for SqliteRows {
    fn hold(&mut self, number: usize) {
        self.looks = 0;
        self.db
            .execute_batch(
                "create table held_rows as
                    with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 1000)
                    select n from numbers;
                 create table held_count as select 0 as n;",
            )
            .unwrap();
        for table in tables(&self.db) {
            for verb in ["insert", "update", "delete"] {
                let text = format!(
                    "create trigger held_{table}_{verb} before {verb} on {table} begin
                        update held_count set n = n + 1;
                        select sum(a.n + b.n + c.n + d.n + e.n + f.n)
                        from held_rows a, held_rows b, held_rows c, held_rows d, held_rows e, held_rows f
                        where (select n from held_count) = {number};
                     end"
                );
                self.db.execute_batch(&text).unwrap();
            }
        }
    }

    fn is_held(&mut self) -> bool {
        self.db.busy_timeout(Duration::ZERO).unwrap();
        let is_writing = self.db.execute_batch("begin immediate; rollback").is_err();
        self.looks = if is_writing { self.looks + 1 } else { 0 };
        self.looks >= LOOKS
    }

    fn let_go(&mut self, _number: usize) -> usize {
        self.db.busy_timeout(Duration::from_secs(60)).unwrap();
        for table in tables(&self.db) {
            for verb in ["insert", "update", "delete"] {
                let text = format!("drop trigger held_{table}_{verb}");
                self.db.execute_batch(&text).unwrap();
            }
        }
        let text = "select n from held_count";
        let count: u32 = self.db.query_row(text, [], |row| row.get(0)).unwrap();
        self.db
            .execute_batch("drop table held_rows; drop table held_count")
            .unwrap();
        count as usize
    }
}

fn tables(db: &Connection) -> Vec<String> {
    let text = "select name from sqlite_master where type = 'table'
         and name not like 'held_%' and name not like 'sqlite_%'";
    let mut tables = db.prepare(text).unwrap();
    let names = tables.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

/// Rows of a schema of Postgres. Whoever writes the one that is held waits for a lock of this test's.
struct PostgresRows {
    runtime: Runtime,
    client: tokio_postgres::Client,
    /// Where the count is kept, beside the store's schema.
    held: String,
    key: u32,
}

impl PostgresRows {
    fn begin(server: &str, schema: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let connect = async {
            let (client, wire) = tokio_postgres::connect(server, tokio_postgres::NoTls)
                .await
                .unwrap();
            tokio::spawn(wire);
            client
        };
        let client = runtime.block_on(connect);
        let (held, key) = (format!("{schema}_held"), std::process::id());
        let rows = Self {
            runtime,
            client,
            held,
            key,
        };
        rows.run(&format!(
            "create schema {held};
             create sequence {held}.count;
             create table {held}.place as select -1::bigint as n;
             create function {held}.count() returns trigger language plpgsql as $$
             begin
                 if nextval('{held}.count') = (select n from {held}.place) then
                     perform pg_advisory_lock({key});
                 end if;
                 if tg_op = 'DELETE' then
                     return old;
                 end if;
                 return new;
             end $$;
             do $$
             declare
                 name text;
             begin
                 for name in
                     select relname from pg_class
                     where relnamespace = '{schema}'::regnamespace and relkind in ('r', 'p') and not relispartition
                 loop
                     execute format('create trigger held before insert or update or delete on {schema}.%I for each row execute function {held}.count()', name);
                 end loop;
             end $$",
            held = rows.held
        ));
        rows
    }

    fn run(&self, text: &str) {
        let ran = self.client.batch_execute(text);
        self.runtime.block_on(ran).unwrap();
    }

    fn number(&self, text: &str) -> i64 {
        let row = self.client.query_one(text, &[]);
        self.runtime.block_on(row).unwrap().get(0)
    }

    /// Of whoever waits for the lock.
    fn waiting(&self) -> String {
        let key = self.key;
        format!("from pg_locks where locktype = 'advisory' and objid = {key} and not granted")
    }
}

impl CountedRows for PostgresRows {
    fn hold(&mut self, number: usize) {
        let Self { held, key, .. } = &*self;
        self.run(&format!(
            "select pg_advisory_lock({key});
             alter sequence {held}.count restart;
             update {held}.place set n = {number}"
        ));
    }

    fn is_held(&mut self) -> bool {
        self.number(&format!("select count(*) {}", self.waiting())) > 0
    }

    /// What the server was told by somebody who is dead by now it may do, or not any more: every
    /// other time it is told to leave it.
    fn let_go(&mut self, number: usize) -> usize {
        let Self { held, key, .. } = &*self;
        self.run(&format!("update {held}.place set n = -1"));
        if number.is_multiple_of(2) {
            self.run(&format!(
                "select pg_terminate_backend(pid) {}",
                self.waiting()
            ));
        }
        self.run(&format!("select pg_advisory_unlock({key})"));
        let count = self.number(&format!("select last_value from {held}.count"));
        usize::try_from(count).unwrap()
    }
}

/// A runner that is killed at the row that is held. False: it ended before.
fn killed(shop: &AgentProject, rows: &mut impl CountedRows) -> bool {
    let words = ["runners", "start", "--project", "shop", "--foreground"];
    let mut command = shop.command(&[&words[..], &["--until-idle"]].concat());
    let mut runner = RunnerChild::of(&mut command);
    while !rows.is_held() {
        if runner.child.try_wait().unwrap().is_some() {
            return false;
        }
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

/// Kill a runner at one row after the other of a task's life.
fn no_task_is_lost_or_done_twice(shop: &AgentProject, rows: &mut impl CountedRows) {
    let step = if fixture::full() { 1 } else { SAMPLE };
    let mut number = 1;
    let count = loop {
        let id = shop.add("cost something", &["--review", "agent"]);
        rows.hold(number);
        let is_killed = killed(shop, rows);
        let count = rows.let_go(number);
        if is_killed {
            shop.work();
        }
        is_done_once(shop, &id, number);
        if !is_killed {
            break count;
        }
        number += step;
    };
    println!("{count} rows in the life of a task, killed at every {step}th");
    assert!((20..=number).contains(&count), "{count} rows, {number}");
    let ended = shop.json(&["runs", "list"]);
    let mut ended = ended.as_array().unwrap().iter();
    assert!(ended.all(|run| run["status"] == "completed"));
}

/// A project in a store of this URL, or in that of its home. Signs of life are written when they are
/// due, and not in between.
fn project(store: Option<&str>) -> AgentProject {
    let shop = AgentProject::new();
    let path = shop.home.path().join(".lope/config.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    let mut config = config.replace("heartbeatInterval: 200ms", "heartbeatInterval: 30s");
    if let Some(url) = store {
        config.push_str(&format!("store: '{url}'\n"));
    }
    std::fs::write(&path, config).unwrap();
    shop.json(&["projects", "add", "shop"]);
    shop
}

#[test]
fn a_runner_that_is_killed_at_any_row_loses_no_task_and_does_none_twice() {
    let shop = project(None);
    let db = Connection::open(shop.home.path().join(".lope/lope.db")).unwrap();
    no_task_is_lost_or_done_twice(&shop, &mut SqliteRows { db, looks: 0 });
    shop.lope(&["store", "check"]).done();
}

#[test]
fn a_runner_that_is_killed_at_any_row_of_postgres_loses_no_task_and_does_none_twice() {
    let Some(server) = fixture::server() else {
        return;
    };
    let schema = format!("agent_writes_{}", std::process::id());
    let parameter = if server.contains('?') { '&' } else { '?' };
    let shop = project(Some(&format!("{server}{parameter}schema={schema}")));
    let mut rows = PostgresRows::begin(&server, &schema);
    no_task_is_lost_or_done_twice(&shop, &mut rows);
    rows.run(&format!("drop schema {} cascade", rows.held));
    shop.lope(&["store", "check"]).done();
}
