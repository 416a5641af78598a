//! Agents under stress: many processes race for one task, and a night in small with agents that make
//! trouble of every kind and runners that are killed. A sample here, all of it under
//! `LOPE_CHAOS=full`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lope::Client;
use lope::agents::law::select::TaskQuery;
use lope::agents::settings::RunnerSettings;
use lope::agents::{ClaimOutcome, TaskDraft};
use lope::stores::CreateStore;
use lope_model::RunnerId;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fixture;
use crate::stage::{Home, Said, said, until};

/// Where a racer finds its store and how many tasks there are.
const RACE: &str = "LOPE_TEST_RACE";
const RACERS: usize = 64;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A server to which very many connect at once takes its time.
async fn client(url: &str) -> Client {
    let begun = Instant::now();
    loop {
        match Client::open_store(&url.parse().unwrap(), CreateStore::IfMissing).await {
            Ok(client) => return client,
            Err(error) => assert!(begun.elapsed() < NIGHT, "{error}"),
        }
        // The next attempt takes as long as the server does to answer it.
        tokio::task::yield_now().await;
    }
}

/// A project for each task, so that a claim reads one task.
fn project(round: usize) -> String {
    format!("/race/{round}")
}

/// Claim one task after the other; those that were won.
async fn race(client: Client, rounds: usize) -> Vec<usize> {
    let settings = RunnerSettings::default();
    let board = client.agents(&settings);
    let me = RunnerId::from_uuid(uuid::Uuid::now_v7());
    let mut won = Vec::new();
    for round in 0..rounds {
        let path = project(round);
        let query = TaskQuery {
            project: Some(&path),
            ..TaskQuery::default()
        };
        let claimed = loop {
            match board.claim(&query, me, settings.lock_expiry).await {
                Ok(claimed) => break claimed,
                // Nothing was asked yet.
                Err(error) => assert!(error.to_string().contains("connecting"), "{error}"),
            }
        };
        if let ClaimOutcome::Claimed(held) = claimed {
            assert_eq!(held.lock.epoch, 1);
            won.push(round);
        }
    }
    client.close().await.unwrap();
    won
}

async fn add_tasks(url: &str, rounds: usize) {
    let client = client(url).await;
    let board = client.agents(&RunnerSettings::default());
    for round in 0..rounds {
        board.add_project(&project(round), None).await.unwrap();
    }
    for part in (0..rounds).collect::<Vec<_>>().chunks(100) {
        let tasks = part
            .iter()
            .map(|round| TaskDraft::new(project(*round), "a task"));
        board.add_tasks(tasks.collect()).await.unwrap();
    }
    client.close().await.unwrap();
}

/// One of many racers, if it was started as one; otherwise it races alone, and wins.
#[test]
fn racer() {
    if let Ok(race_of) = std::env::var(RACE) {
        let (rounds, url) = race_of.split_once(' ').unwrap();
        let runtime = runtime();
        let client = runtime.block_on(client(url));
        println!("ready");
        // All begin together: when whoever started them closes their input.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        let won = runtime.block_on(race(client, rounds.parse().unwrap()));
        for round in won {
            println!("won {round}");
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/lope.db", folder.path().display());
    let won = runtime().block_on(async {
        add_tasks(&url, 2).await;
        race(client(&url).await, 2).await
    });
    assert_eq!(won, [0, 1]);
}

fn racers(url: &str, rounds: usize) -> BTreeMap<usize, usize> {
    let program = std::env::current_exe().unwrap();
    let begin = |_| {
        Command::new(&program)
            .args([
                "--exact",
                "chaos_agents::racer",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(RACE, format!("{rounds} {url}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap()
    };
    let mut children: Vec<Child> = (0..RACERS).map(begin).collect();
    let said = |child: &mut Child| BufReader::new(child.stdout.take().unwrap());
    let mut said: Vec<_> = children.iter_mut().map(said).collect();
    for lines in &mut said {
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended early");
        }
    }
    for child in &mut children {
        drop(child.stdin.take());
    }
    let mut winners = BTreeMap::new();
    for (mut child, mut said) in children.into_iter().zip(said) {
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        let won = text.lines().filter_map(|line| line.split("won ").nth(1));
        for round in won {
            *winners.entry(round.trim().parse().unwrap()).or_insert(0) += 1;
        }
    }
    winners
}

/// "64 processes race for one task 1,000 times: exactly one wins each time."
fn one_wins(url: &str) {
    let rounds = if fixture::full() { 1_000 } else { 100 };
    runtime().block_on(add_tasks(url, rounds));
    let begun = Instant::now();
    let winners = racers(url, rounds);
    println!("{RACERS} processes, {rounds} tasks: {:?}", begun.elapsed());
    let expected: BTreeMap<usize, usize> = (0..rounds).map(|round| (round, 1)).collect();
    assert_eq!(winners, expected);
}

#[test]
fn of_64_processes_one_wins_each_task_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    one_wins(&format!("sqlite:{}/lope.db", folder.path().display()));
}

/// A schema of its own in the server for tests.
fn on_postgres(name: &str) -> Option<String> {
    let server = fixture::server()?;
    let parameter = if server.contains('?') { '&' } else { '?' };
    let id = std::process::id();
    Some(format!(
        "{server}{parameter}schema=chaos_agents_{name}_{id}"
    ))
}

#[test]
fn of_64_processes_one_wins_each_task_on_postgres() {
    if let Some(url) = on_postgres("race") {
        one_wins(&url);
    }
}

/// A night is over after this time, or never.
const NIGHT: Duration = Duration::from_secs(1_800);

/// Kinds of trouble, and how a task with it ends.
const DEEDS: [(&str, &str); 12] = [
    ("succeed", "completed"),
    ("fail", "failed"),
    ("succeed", "completed"),
    ("hang", "failed"),
    ("limit", "completed"),
    ("dear", "blocked"),
    ("fork", "completed"),
    ("killed", "failed"),
    ("flood", "completed"),
    ("linger", "completed"),
    ("garbage", "completed"),
    ("succeed", "completed"),
];

struct Night {
    home: Home,
    projects: Vec<PathBuf>,
}

impl Night {
    fn new(attempts: usize, store: Option<&str>) -> Self {
        let home = Home::new();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture/night.sh");
        let script = script.display().to_string();
        std::fs::create_dir(home.path().join(".lope")).unwrap();
        let store = store.map_or_else(String::new, |url| format!("store: {url:?}\n"));
        let config = format!(
            "agents:\n  default: {{ command: [sh, {script:?}] }}\nrunners:\n  review: agent\n  heartbeatInterval: 500ms\n  \
             staleTimeout: 30s\n  subprocessHangTimeout: 3s\n  stopGrace: 1s\n  limitPause: 1s\n  maxAttempts: {attempts}\n  \
             wakeup: {{ checkInterval: 1s }}\n{store}"
        );
        std::fs::write(home.path().join(".lope/config.yaml"), config).unwrap();
        let folders = ["north", "east", "south"].map(|name| home.path().join(name));
        let mut projects = Vec::new();
        for folder in folders {
            std::fs::create_dir(&folder).unwrap();
            let folder = folder.canonicalize().unwrap();
            said(&mut home.command(&["projects", "add", folder.to_str().unwrap()])).done();
            projects.push(folder);
        }
        Self { home, projects }
    }

    fn lope(&self, args: &[&str]) -> Said {
        said(&mut self.home.command(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.lope(&args).done().json()
    }

    fn is_over(&self) -> bool {
        let tasks = self.json(&["tasks", "list"]);
        let open = ["pending", "in_progress", "review"];
        let mut tasks = tasks.as_array().unwrap().iter();
        !tasks.any(|task| open.contains(&task["status"].as_str().unwrap()))
    }

    /// Kill one of the runners, which one chance says.
    fn kill(&self, dice: usize) -> bool {
        let runners = self.json(&["runners", "list"]);
        let runners = runners.as_array().unwrap();
        if runners.is_empty() {
            return false;
        }
        let pid = runners[dice % runners.len()]["pid"].as_i64().unwrap();
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).is_ok()
    }

    /// Processes that work for this home.
    fn left(&self) -> Vec<String> {
        let mark = format!("LOPE_HOME={}", self.home.path().join(".lope").display());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let with_mark = entries.filter(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        });
        with_mark
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }
}

impl Drop for Night {
    fn drop(&mut self) {
        self.lope(&["runners", "stop", "--all", "--force"]);
    }
}

/// "A night in small: 3 projects, 60 tasks, scripted agents with 20 % trouble of every kind, two
/// runners killed at random on SQLite and on Postgres: every task ends as it should, none done
/// twice, no process left, cost adds up."
#[test]
fn a_night_in_small_on_sqlite_ends_as_it_should() {
    night(None);
}

#[test]
fn a_night_in_small_on_postgres_ends_as_it_should() {
    if let Some(url) = on_postgres("night") {
        night(Some(&url));
    }
}

fn night(store: Option<&str>) {
    let (tasks, kills, attempts) = if fixture::full() {
        (60, 8, 8)
    } else {
        (12, 1, 3)
    };
    let night = Night::new(attempts, store);
    let mut expected = BTreeMap::new();
    for number in 0..tasks {
        let (deed, end) = DEEDS[number % DEEDS.len()];
        let project = (number + number / DEEDS.len()) % 3;
        let project = night.projects[project].to_str().unwrap();
        let added = night.json(&[
            "tasks",
            "add",
            &format!("{deed} {number}"),
            "--project",
            project,
            "--max-cost",
            "5",
        ]);
        expected.insert(added["id"].as_str().unwrap().to_owned(), end);
    }
    let (mut killed, mut dice, mut next) = (0, 7_usize, Instant::now());
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < NIGHT, "it is still dark");
        night.lope(&["runners", "wakeup", "--quiet"]).done();
        if killed < kills && Instant::now() >= next {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            killed += usize::from(night.kill(dice >> 33));
            next = Instant::now() + Duration::from_millis(500);
        }
        if night.is_over() {
            break;
        }
    }
    println!(
        "{tasks} tasks, {killed} runners killed: {:?}",
        begun.elapsed()
    );
    for (id, end) in &expected {
        let task = night.json(&["tasks", "show", id]);
        // A runner that died during the last attempt that may hang counts as one of them.
        assert_eq!(task["status"], *end, "{task}");
        let attempts = task["attemptList"].as_array().unwrap();
        let done = attempts
            .iter()
            .filter(|it| it["role"] == "work" && it["stopReason"] == "success");
        assert_eq!(
            done.clone().count(),
            usize::from(*end == "completed"),
            "{task}"
        );
        let cost: f64 = done.map(|it| it["cost"].as_f64().unwrap()).sum();
        assert!(
            (cost - if *end == "completed" { 0.01 } else { 0.0 }).abs() < 1e-9,
            "{task}"
        );
    }
    for project in &night.projects {
        let overlap = std::fs::read_to_string(project.join("overlap.log"));
        assert!(overlap.is_err(), "two agents at once: {overlap:?}");
    }
    until("all processes to end", || night.left().is_empty());
    // What a runner that was killed left of a task that has ended is ended by the next one.
    for project in &night.projects {
        let project = project.to_str().unwrap();
        let start = ["runners", "start", "--foreground", "--until-idle"];
        let start: Vec<&str> = start
            .iter()
            .copied()
            .chain(["--project", project])
            .collect();
        night.lope(&start).done();
    }
    let runs = night.json(&["runs", "list", "--limit", "1000"]);
    let runs = runs.as_array().unwrap();
    let live = runs.iter().filter(|run| {
        !["completed", "failed", "cancelled"].contains(&run["status"].as_str().unwrap())
    });
    assert_eq!(live.collect::<Vec<_>>(), Vec::<&Value>::new(), "rounds end");
    night.lope(&["store", "check"]).done();
    assert_eq!(night.json(&["locks", "list"]), serde_json::json!([]));
    assert_eq!(killed, kills, "as many as were meant");
}
