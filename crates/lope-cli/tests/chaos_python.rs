//! Python workers, their runner, and both are killed while 2,000 actions are done: all are done in
//! the end, each at least once, and none again after its outcome was settled. A small sample by
//! default, the whole series with LOPE_CHAOS=full.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::python;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use python::Ground;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const APP: &str = r#"
import os, asyncio
from lope import action
from lope.attempt import current_attempt

@action
async def work(n: int, path: str) -> int:
    attempt = current_attempt().attempt
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{n} {attempt}\n".encode())
    os.close(file)
    await asyncio.sleep(0.002)
    if n % 10 == 0 and attempt == 1:
        raise OSError("try again")
    return n * 2

@action
async def poison() -> None:
    os.kill(os.getpid(), 9)
"#;

const FLOW: &str = "
name: fan
steps:
  all:
    each: ${{ input.items }}
    as: item
    parallel: 200
    steps:
      work: { action: work, with: { n: '${{ item }}', path: '${{ input.path }}' }, retries: 100, base_delay: 10ms }
";

const POISON: &str =
    "name: poison\nsteps: { die: { action: poison, retries: 3, base_delay: 10ms } }";

/// Who is killed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Victim {
    Workers,
    Runner,
    Both,
}

struct Runner {
    child: Child,
}

impl Runner {
    fn up(ground: &Ground, app: &str) -> Self {
        let mut command = ground.command(&[
            "up",
            "--quiet",
            "--python",
            app,
            "--processes",
            "2",
            "--slots",
            "64",
        ]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self {
            child: command.spawn().unwrap(),
        }
    }

    /// Processes that this runner has started.
    fn workers(&self) -> Vec<Pid> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(text) = std::fs::read_to_string(entry.path().join("stat")) else {
                continue;
            };
            let after = text
                .rsplit_once(')')
                .map(|(_, rest)| rest.to_owned())
                .unwrap_or_default();
            let parent: Option<u32> = after
                .split_whitespace()
                .nth(1)
                .and_then(|word| word.parse().ok());
            if parent == Some(self.child.id()) {
                let pid = entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse().ok())
                    .and_then(Pid::from_raw);
                found.extend(pid);
            }
        }
        found
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(path: &str) -> Vec<(i64, u64)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pair = |line: &str| {
        line.split_once(' ')
            .map(|(n, attempt)| (n.parse().unwrap(), attempt.parse().unwrap()))
    };
    text.lines().filter_map(pair).collect()
}

/// Wait until so many effects have happened; the kills come in between.
fn reached(path: &str, count: usize) {
    let until = Instant::now() + Duration::from_secs(120);
    while lines(path).len() < count {
        assert!(
            Instant::now() < until,
            "no progress: {} of {count}",
            lines(path).len()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn killed_in_between(victim: Victim, items: usize, kills: usize) {
    let Some(ground) = Ground::new() else { return };
    let (app, flow) = (
        ground.file("chaos_app.py", APP),
        ground.file("fan.yaml", FLOW),
    );
    let effects = ground.path().join("effects").display().to_string();
    let input = serde_json::json!({ "items": (0..items).collect::<Vec<_>>(), "path": effects });
    let input = ground.file("input.json", &input.to_string());
    let run = ground.json(&["start", &flow, "--input", &format!("@{input}"), "--json"]);
    let run = run["run_id"].as_str().unwrap().to_owned();
    let mut runner = Runner::up(&ground, &app);
    for kill in 1..=kills {
        reached(&effects, items * kill / (kills + 1));
        if victim != Victim::Runner {
            let workers = runner.workers();
            // One of them, or all; one that is gone already needs no killing.
            let share = if kill % 2 == 0 { workers.len() } else { 1 };
            for pid in workers.into_iter().take(share) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if victim != Victim::Workers {
            runner.kill();
            runner = Runner::up(&ground, &app);
        }
    }
    let ended = ground.json(&["runs", "wait", &run, "--timeout", "110s", "--json"]);
    assert_eq!(ended["status"], "completed", "{victim:?}: {ended}");
    let doubled: Vec<Value> = (0..items).map(|n| Value::from(n * 2)).collect();
    assert_eq!(ended["result"].as_array().unwrap(), &doubled, "{victim:?}");
    verify(&ground, &run, &lines(&effects), items);
}

/// Every item had its effect, and none after the attempt that settled it.
fn verify(ground: &Ground, run: &str, effects: &[(i64, u64)], items: usize) {
    let done: BTreeSet<i64> = effects.iter().map(|(n, _)| *n).collect();
    assert_eq!(done.len(), items, "each side effect at least once");
    let journal = ground.json(&["runs", "journal", run, "--json"]);
    let mut settled: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in journal
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["event"] == "outcome")
    {
        let path = row["path"].as_str().unwrap().to_owned();
        settled
            .entry(path)
            .or_default()
            .push(row["attempt"].as_u64().unwrap());
    }
    assert_eq!(settled.len(), items);
    for (path, attempts) in &settled {
        // The run has completed, so the last outcome settled it; no attempt has two.
        assert!(
            attempts.is_sorted_by(|a, b| a < b),
            "{path} is settled exactly once: {attempts:?}"
        );
        let item: i64 = path.split('/').nth(1).unwrap().parse().unwrap();
        let last = effects
            .iter()
            .filter(|(n, _)| *n == item)
            .map(|(_, attempt)| *attempt)
            .max();
        assert_eq!(
            last,
            attempts.last().copied(),
            "{path} was not done again after it was settled"
        );
    }
}

fn full() -> bool {
    std::env::var_os("LOPE_CHAOS").is_some_and(|said| said == "full")
}

fn series(victim: Victim) {
    let (rounds, items, kills) = if full() { (5, 2_000, 12) } else { (1, 300, 3) };
    for round in 1..=rounds {
        println!("{victim:?}, round {round} of {rounds}: {items} actions, {kills} kills");
        killed_in_between(victim, items, kills);
    }
}

/// "Kill −9 workers, the runner, and both, during a fan-out of 2,000 actions with retries: all
/// done, each side effect at least once, settled ones exactly once"
#[test]
fn killed_workers_lose_nothing() {
    series(Victim::Workers);
}

#[test]
fn a_killed_runner_loses_nothing() {
    series(Victim::Runner);
}

#[test]
fn both_killed_lose_nothing() {
    series(Victim::Both);
}

/// "a poisonous action that kills its process stops after its attempts and fails the run, others go
/// on"
#[test]
fn poison_stops_after_its_attempts_and_others_go_on() {
    let Some(ground) = Ground::new() else { return };
    let (app, flow) = (
        ground.file("chaos_app.py", APP),
        ground.file("fan.yaml", FLOW),
    );
    let poison = ground.file("poison.yaml", POISON);
    let effects = ground.path().join("effects").display().to_string();
    let input =
        serde_json::json!({ "items": (0..200).collect::<Vec<_>>(), "path": effects }).to_string();
    let started = |args: &[&str]| ground.json(args)["run_id"].as_str().unwrap().to_owned();
    let poisoned = started(&["start", &poison, "--json"]);
    let others = started(&["start", &flow, "--input", &input, "--json"]);
    let _runner = Runner::up(&ground, &app);
    let ended = ground.json(&["runs", "wait", &poisoned, "--timeout", "110s", "--json"]);
    assert_eq!(
        (&ended["status"], &ended["error"]["type"]),
        (&"failed".into(), &"WorkerLost".into()),
        "{ended}"
    );
    assert_eq!(ended["error"]["attempt"], 4);
    assert!(
        ended["error"]["message"]
            .as_str()
            .unwrap()
            .contains("killed by signal 9"),
        "{ended}"
    );
    let ended = ground.json(&["runs", "wait", &others, "--timeout", "110s", "--json"]);
    assert_eq!(ended["status"], "completed", "{ended}");
    verify(&ground, &others, &lines(&effects), 200);
}
