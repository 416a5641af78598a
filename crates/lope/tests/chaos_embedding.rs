//! Crashes of a program with a runner in it, on a real file: at every store call, and by `kill -9`
//! at odd moments. A sample here, all of it under `LOPE_CHAOS=full`.
//!
//! After every crash the program starts again and asks for the same; in the end the results are
//! those of a run without crashes, and the journal and the log of what was really begun agree: what
//! was settled was not begun again, and what was in flight was begun again under a higher number.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::rig;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lope::stores::{CreateStore, StoreUrl, open};
use lope::{Error, Flow, FunctionCall, RunOptions, Runner, StartOptions, StepError, Value, policy};
use lope_engine::codec;
use lope_flow::law::EventKind;
use lope_store::Store;
use lope_store::faults::{InjectedFault, StoreCall, with_faults};
use rig::*;

const INPUTS: [(&str, i64); 3] = [("one", 1), ("two", 2), ("three", 3)];

fn full() -> bool {
    std::env::var("LOPE_CHAOS").is_ok_and(|word| word == "full")
}

/// Says in a file that an attempt has begun.
fn note(log: &Path) {
    let call = FunctionCall::current().unwrap();
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .unwrap();
    // One write: lines of attempts that begin together must not mix.
    let line = format!("{} {}\n", call.token.execution, call.token.attempt);
    file.write_all(line.as_bytes()).unwrap();
}

/// A fork, a join, a step that fails the first time it is tried, a map, a rule, an accumulator.
fn flow(log: &Path) -> Flow {
    let noted = |log: &Path| {
        let log = log.to_owned();
        move || note(&log)
    };
    let (at_a, at_b, at_c, at_each, at_d) =
        (noted(log), noted(log), noted(log), noted(log), noted(log));
    Flow::builder("chaos")
        .step("a", move |x: i64| {
            at_a();
            async move { Ok(x * 10) }
        })
        .step("b", move |x: i64| {
            at_b();
            let first = FunctionCall::current().unwrap().token.attempt == 1;
            async move {
                if first {
                    Err(StepError::new("Flaky", "not yet"))
                } else {
                    Ok(x + 1)
                }
            }
        })
        .after("a")
        .step("c", move |x: i64| {
            at_c();
            async move { Ok(vec![x, x + 1, x + 2]) }
        })
        .after("a")
        .map("each", move |x: i64| {
            at_each();
            async move { Ok(x * 2) }
        })
        .after("c")
        .reduce("sum", 0, |sum: i64, x: i64| sum + x)
        .after("each")
        .join("d", ["b", "sum"], move |(b, sum): (i64, i64)| {
            at_d();
            async move { Ok(b + sum) }
        })
        .rule("big", |x: &i64| *x > 100, |x: i64| async move { Ok(x) })
        .after("d")
        .accumulate("total", 0, |total: i64, x: i64| total + x)
        .after("d")
        .policy(policy("b").retries(5))
        .build()
        .unwrap()
}

/// Start the workflow or take it up again, feed what may have been fed before, and wait for all of
/// it.
async fn work(runner: &Runner, flow: &Flow) -> lope::Result<()> {
    match runner
        .start_workflow("w", flow, StartOptions::default())
        .await
    {
        Ok(_) => {}
        Err(Error::AlreadyStarted { .. }) => drop(runner.resume("w", flow).await?),
        Err(error) => return Err(error),
    }
    for (name, value) in INPUTS {
        runner
            .run_with("w", value, RunOptions::default().input_id(name))
            .await?;
    }
    for (name, _) in INPUTS {
        runner.wait("w", name).await?;
    }
    Ok(())
}

/// What a run without crashes gives, by input.
async fn expected(folder: &Path) -> BTreeMap<String, Value> {
    let runner = builder().build().await.unwrap();
    work(&runner, &flow(&folder.join("expected.log")))
        .await
        .unwrap();
    by_input(&runner).await
}

async fn by_input(runner: &Runner) -> BTreeMap<String, Value> {
    let results = runner.results("w").await.unwrap();
    results
        .iter()
        .map(|result| (result.input.to_string(), result.value().unwrap()))
        .collect()
}

/// Executions begin with attempts that only rise, and the last that began is the one that settled
/// it.
async fn agree(runner: &Runner, log: &Path) {
    let mut begun: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let (execution, attempt) = line.rsplit_once(' ').unwrap();
        begun
            .entry(execution.to_owned())
            .or_default()
            .push(attempt.parse().unwrap());
    }
    let run = runner.lookup("w").await.unwrap().unwrap().run;
    let rows = runner.store().runs.journal(run, 0, 10_000).await.unwrap();
    let mut settled: BTreeMap<String, u32> = BTreeMap::new();
    for row in &rows {
        if let EventKind::Outcome(outcome) = codec::kind_of(row).unwrap() {
            settled.insert(outcome.execution.to_string(), outcome.attempt);
        }
    }
    assert!(
        rows.iter().zip(1..).all(|(row, seq)| row.seq == seq),
        "the journal has no gaps"
    );
    for (execution, attempts) in begun {
        assert!(
            attempts.is_sorted_by(|a, b| a < b),
            "{execution} began as {attempts:?}"
        );
        assert_eq!(
            attempts.last(),
            settled.get(&execution),
            "{execution} began as {attempts:?}"
        );
    }
}

async fn store(url: &str) -> Store {
    let url: StoreUrl = url.parse().unwrap();
    open(&url, CreateStore::IfMissing).await.unwrap()
}

/// Crash at one store call, then finish. False: there was no such call.
async fn crash_at(number: u64, before: bool, expected: &BTreeMap<String, Value>) -> bool {
    let file = File::new();
    let log = file.folder.path().join("begun.log");
    let crashed = Arc::new((AtomicBool::new(false), tokio::sync::Notify::new()));
    let told = Arc::clone(&crashed);
    let hook = move |call: StoreCall| {
        if call.number != number {
            return InjectedFault::None;
        }
        told.0.store(true, Ordering::SeqCst);
        told.1.notify_one();
        if before {
            InjectedFault::CrashBefore
        } else {
            InjectedFault::CrashAfter
        }
    };
    let first = on(&with_faults(store(&file.url()).await, Arc::new(hook))).await;
    let flow = flow(&log);
    tokio::select! {
        _ = work(&first, &flow) => {}
        () = crashed.1.notified() => {}
    }
    drop(first);
    let second = on(&store(&file.url()).await).await;
    soon(work(&second, &flow)).await.unwrap();
    assert_eq!(
        by_input(&second).await,
        *expected,
        "crashed at call {number}, before it: {before}"
    );
    agree(&second, &log).await;
    crashed.0.load(Ordering::SeqCst)
}

/// "Kill −9 at every store call, resume: same results as without the crash, settled steps not run
/// again (durable strategies), in-flight ones run again with attempt+1."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_store_call_changes_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let expected = expected(folder.path()).await;
    let (stride, last) = if full() { (1, 400) } else { (7, 40) };
    for number in (0..last).step_by(stride) {
        for before in [true, false] {
            if !crash_at(number, before, &expected).await {
                return;
            }
        }
    }
}

const URL: &str = "LOPE_EMBEDDING_URL";
const LOG: &str = "LOPE_EMBEDDING_LOG";
const ROLE: &str = "LOPE_EMBEDDING_ROLE";

/// Where copies of this program begin; in the parent there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let (Ok(url), Ok(log), Ok(role)) =
        (std::env::var(URL), std::env::var(LOG), std::env::var(ROLE))
    else {
        return;
    };
    let flow = flow(&PathBuf::from(log));
    println!("@begun");
    let runner = builder().url(&url).build().await.unwrap();
    if role == "feeder" {
        start(&runner, &flow).await;
        runner
            .run_with("w", 1, RunOptions::default().input_id("one"))
            .await
            .unwrap();
        // As hard as a kill: nothing is flushed, nothing is dropped.
        std::process::abort();
    }
    work(&runner, &flow).await.unwrap();
    println!("@done");
}

struct Process(std::process::Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A copy of this program at work on a file.
fn begin(url: &str, log: &Path, role: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["chaos_embedding::child", "--exact", "--nocapture"])
        .env(URL, url)
        .env(LOG, log)
        .env(ROLE, role);
    Process(
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    )
}

/// Reads until the child says a word, or nothing more.
fn hears(process: &mut Process, word: &str) -> bool {
    let lines = BufReader::new(process.0.stdout.as_mut().unwrap()).lines();
    lines.map_while(Result::ok).any(|line| line.contains(word))
}

/// "`run` is durable when it returns: a crash right after it loses no input."
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_outlives_a_crash_right_after_run() {
    let file = File::new();
    let log = file.folder.path().join("begun.log");
    let mut feeder = begin(&file.url(), &log, "feeder");
    assert!(!feeder.0.wait().unwrap().success(), "it ended hard");
    let runner = file.runner().await;
    let flow = flow(&log);
    runner.resume("w", &flow).await.unwrap();
    let result = soon(runner.wait("w", "one")).await.unwrap();
    assert!(result.failure().is_none(), "{result:?}");
}

/// "Kill −9 …": a real process, killed at odd moments, again and again, until it gets through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_odd_moments_change_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let expected = expected(folder.path()).await;
    let (rounds, kills) = if full() { (30, 10) } else { (2, 4) };
    let mut seed: u64 = 0x9E37_79B9_7F4A_7C15;
    for _ in 0..rounds {
        let file = File::new();
        let log = file.folder.path().join("begun.log");
        for _ in 0..kills {
            let mut process = begin(&file.url(), &log, "worker");
            assert!(hears(&mut process, "@begun"));
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            tokio::time::sleep(Duration::from_millis(seed % 250)).await;
            process.0.kill().unwrap();
        }
        let mut last = begin(&file.url(), &log, "worker");
        assert!(
            tokio::task::spawn_blocking(move || hears(&mut last, "@done"))
                .await
                .unwrap(),
            "the last one gets through"
        );
        let reader = file.runner().await;
        assert_eq!(by_input(&reader).await, expected);
        agree(&reader, &log).await;
    }
}
