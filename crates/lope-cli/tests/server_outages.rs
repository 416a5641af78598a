//! What a server does when something under it stops: the store that it serves, and itself.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::cluster::Cluster;
use crate::fixture::http::Request;
use crate::server::Up;
use crate::stage::{Home, said, until};

const HI: &str = "name: hi\nsteps: { a: { let: 1 } }\n";
const WAITS: &str = "name: waits\nsteps: { hold: { wait: go } }\n";
/// More than two pages of an action, so that some runs were asked when its server is killed and some
/// were not.
const RUNS: usize = 250;

/// The processes of a Postgres server, which stand still until this is dropped.
struct Standstill(Vec<Pid>);

impl Standstill {
    fn of(cluster: &Cluster) -> Self {
        let file = cluster.pgdata().join("postmaster.pid");
        let text = std::fs::read_to_string(file).unwrap();
        let first: i32 = text.lines().next().unwrap().trim().parse().unwrap();
        let mut stopped = Self(Vec::new());
        stopped.stop(first);
        // It starts no others now.
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
        for pid in pids.filter(|pid| parent_of(*pid) == Some(first)) {
            stopped.stop(pid);
        }
        assert!(stopped.0.len() > 1, "a server has more than one process");
        stopped
    }

    fn stop(&mut self, pid: i32) {
        let process = Pid::from_raw(pid).unwrap();
        kill_process(process, Signal::STOP).unwrap();
        self.0.push(process);
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        for process in &self.0 {
            // One that ended meanwhile needs nothing more.
            let _ = kill_process(*process, Signal::CONT);
        }
    }
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// "`/readyz` that tell the truth when the store is away": one that stands still says nothing, and its
/// own limits come half a minute later with other words. Every page and every call says so in time,
/// and all goes on by itself.
#[test]
fn a_postgres_that_stands_still_is_told_of_in_time_and_gone_on_with() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let home = Home::new();
    let (url, file) = (cluster.url(), home.file("hi.yaml", HI));
    let deploy = ["workflows", "deploy", &file, "--store", &url];
    said(&mut home.command(&deploy)).done();
    let up = Up::start(&home, &["--http", "127.0.0.1:0", "--store", &url]);
    let paths = ["/", "/workflows/hi", "/api/runs"];
    let all_answer = || {
        for path in ["/readyz"].iter().chain(&paths) {
            assert_eq!(up.send(Request::get(path)).status, 200, "{path}");
        }
    };
    all_answer();
    let start = || Request::post("/api/runs").json(&json!({ "workflow": "hi" }));

    let standstill = Standstill::of(&cluster);
    let ready = up.send(Request::get("/readyz"));
    let told = json!({ "ready": false, "store": "the store does not answer", "runner": "ok" });
    assert_eq!((ready.status, ready.json()), (503, told));
    assert_eq!(up.send(Request::get("/healthz")).status, 200);
    for request in paths.map(Request::get).into_iter().chain([start()]) {
        let place = format!("{} {}", request.method, request.path);
        let answer = up.send(request);
        let text = answer.text();
        assert_eq!(answer.status, 503, "{place}: {text}");
        let known = ["the store does not answer", "cannot be reached"];
        assert!(known.iter().any(|it| text.contains(it)), "{place}: {text}");
        // What was never sent, since nobody is reached, was not done.
        let is_sent = place.starts_with("POST") && text.contains(known[0]);
        let doubt = "whether it was done is not known";
        assert_eq!(text.contains(doubt), is_sent, "{place}: {text}");
    }

    drop(standstill);
    until("it is ready again", || {
        up.send(Request::get("/readyz")).status == 200
    });
    all_answer();
    let started = up.send(start()).json()["run_id"].clone();
    let started = started.as_str().unwrap();
    until("it works again", || {
        let shown = up.send(Request::get(&format!("/api/runs/{started}/wait")));
        shown.json()["status"] == "completed"
    });
}

fn action(up: &Up, id: &str) -> Value {
    up.send(Request::get(&format!("/api/bulk/{id}"))).json()
}

/// A server with so many runs of a round that wait.
fn with_runs(home: &Home, round: &str) -> Up {
    let up = Up::start(home, &["--http", "127.0.0.1:0"]);
    let start = json!({ "workflow": "waits", "tags": { "round": round } });
    for _ in 0..RUNS {
        let answer = up.send(Request::post("/api/runs").json(&start));
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    up
}

/// A server that is killed in the middle of an action on all runs of a round, when some had been asked
/// and nobody had counted them: the next one, and the action's id. Nothing: it was killed at another
/// time.
fn killed_in_the_middle(home: &Home, round: &str) -> Option<(Up, String)> {
    let mut up = with_runs(home, round);
    let asked = json!({ "action": "cancel", "filter": { "tag": format!("round={round}") } });
    let asked = up.send(Request::post("/api/bulk").json(&asked)).json();
    let id = asked["id"].as_str().unwrap().to_owned();
    until("some were asked", || {
        let over = !action(&up, &id)["finished_at"].is_null();
        over || is_between(&up, &id, round)
    });
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    let next = Up::start(home, &["--http", "127.0.0.1:0"]);
    let was_between = is_between(&next, &id, round);
    was_between.then_some((next, id))
}

/// Have runs of a round been asked that an action has not counted yet?
fn is_between(up: &Up, id: &str, round: &str) -> bool {
    let path = format!("/api/runs?status=cancelled&tag=round={round}&limit={RUNS}");
    let cancelled = up.send(Request::get(&path)).json();
    let cancelled = cancelled["runs"].as_array().unwrap().len() as u64;
    // It is read last: what is counted by then was asked before.
    action(up, id)["done"].as_u64() < Some(cancelled)
}

/// "A bulk action … is an object with progress and a result for each item, and survives a restart":
/// also one that gives nobody the time to say goodbye.
#[test]
fn a_bulk_action_of_a_killed_server_is_finished_by_the_next_and_each_run_is_asked_once() {
    let home = Home::new();
    let file = home.file("waits.yaml", WAITS);
    home.lope(&["workflows", "deploy", &file]).done();
    // Nobody knows when a signal arrives.
    let mut rounds = (1..10).map(|round| round.to_string());
    let (up, id) = rounds
        .find_map(|round| killed_in_the_middle(&home, &round))
        .expect("one is killed in the middle");
    until("the action is over", || {
        !action(&up, &id)["finished_at"].is_null()
    });
    let over = action(&up, &id);
    let counts = ["status", "found", "done", "skipped", "failed"].map(|it| over[it].clone());
    assert_eq!(json!(counts), json!(["done", RUNS, RUNS, 0, 0]), "{over}");
    let items = format!("/api/bulk/{id}/runs?limit=1000");
    let items = up.send(Request::get(&items)).json();
    let items = items["runs"].as_array().unwrap();
    assert!(items.iter().all(|it| it["status"] == "done"), "{items:?}");
    let runs: BTreeSet<&str> = items
        .iter()
        .filter_map(|it| it["run_id"].as_str())
        .collect();
    assert_eq!(runs.len(), RUNS);
    for run in runs {
        let ended = up.send(Request::get(&format!("/api/runs/{run}/wait")));
        assert_eq!(ended.json()["status"], "cancelled");
        let journal = up.send(Request::get(&format!("/api/runs/{run}/journal")));
        let journal = journal.json();
        let rows = journal["rows"].as_array().unwrap().iter();
        let asked = rows.filter(|row| row["event"] == "cancel").count();
        assert_eq!(asked, 1, "{journal}");
    }
}
