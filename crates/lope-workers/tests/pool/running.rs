//! What goes well: answers, threads, context, injection, logs, recycling.

use std::collections::BTreeSet;

use lope_engine::executor::Executor;
use lope_model::{Value, value};
use lope_workers::pool::PoolSettings;

use crate::bench::{Bench, python, settings};

fn json(text: &str) -> Value {
    value::from_json(text).unwrap()
}

/// "Python processes started by the runner (`python -m lope worker`), modules preloaded, N
/// processes × M slots"
#[test]
fn an_action_runs_in_a_worker_and_its_answer_comes_back() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    assert_eq!(bench.run("double", r#"{"n": 21}"#), Ok(Value::Int(42)));
    assert_eq!(
        bench.run("plain", r#"{"n": 1}"#),
        Ok(json(r#"{"n": 1, "main": false}"#)),
        "in a thread"
    );
    let context = bench.start("context", "null");
    let expected = r#"{"run": "09090909-0909-0909-0909-090909090909", "execution": "context/3", "attempt": 1,
                       "step": "b", "workflow": "w", "key": "key-1"}"#;
    assert_eq!(bench.outcome(&context), Ok(json(expected)));
    let actions = bench.runtime.block_on(bench.pool.ready()).unwrap();
    assert!(
        actions.contains("double") && actions.contains("injected"),
        "{actions:?}"
    );
}

#[test]
fn many_tasks_share_the_processes() {
    let Some(mut bench) = Bench::with(2) else {
        return;
    };
    bench.runtime.block_on(bench.pool.ready()).unwrap();
    let tokens: Vec<_> = (0..500)
        .map(|n| bench.start("double", &format!(r#"{{"n": {n}}}"#)))
        .collect();
    for (n, token) in tokens.iter().enumerate() {
        assert_eq!(bench.outcome(token), Ok(Value::Int(2 * n as i64)));
    }
    let tokens: Vec<_> = (0..40).map(|_| bench.start("who", "null")).collect();
    let pids: BTreeSet<_> = tokens
        .iter()
        .map(|token| bench.outcome(token).unwrap().as_int().unwrap())
        .collect();
    assert_eq!(pids.len(), 2, "both work");
}

#[test]
fn what_an_action_depends_on_is_provided_once_and_closed_after_it() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    assert_eq!(bench.run("injected", r#"{"n": 1}"#), Ok(Value::Int(44)));
    let opened = r#"["number", "open", "async open", "async close", "close"]"#;
    assert_eq!(bench.run("what_was_opened", "null"), Ok(json(opened)));
    assert_eq!(
        bench.run("injected_plain", r#"{"n": 1}"#),
        Ok(Value::Int(22))
    );
    assert_eq!(
        bench.run("what_was_opened", "null"),
        Ok(json(r#"["number", "open", "close"]"#))
    );
}

/// "stdout, logging and tracebacks land in the run's logs"
#[test]
fn what_an_action_says_is_in_its_log() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let token = bench.start("speaks", "null");
    assert_eq!(bench.outcome(&token), Ok(Value::Null));
    let said = [
        "out to standard output",
        "err to standard error",
        "err WARNING app: to the log",
        "out from a thread",
        "out no newline",
    ];
    assert_eq!(bench.log(&token), said);
    let silent = bench.start("double", r#"{"n": 1}"#);
    bench.outcome(&silent).unwrap();
    assert_eq!(bench.log(&silent), [""; 0], "no lines, no file");
    let failing = bench.start("fails", r#"{"message": "gone"}"#);
    let failure = bench.outcome(&failing).unwrap_err();
    assert_eq!(
        (&*failure.kind, failure.message.as_str()),
        ("KeyError", "'gone'")
    );
    assert!(failure.is_a("LookupError"), "{:?}", failure.bases);
    assert!(
        bench
            .log(&failing)
            .iter()
            .any(|line| line.contains("raise KeyError(message)"))
    );
    assert!(
        !failure.traceback.unwrap().contains("serving.py"),
        "the user's frames alone"
    );
}

#[test]
fn an_action_may_show_life() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    bench.run("beats", r#"{"times": 5}"#).unwrap();
    assert!(bench.alive() >= 5, "{}", bench.alive());
}

/// "graceful recycling after K actions (replacement first)"
#[test]
fn processes_are_replaced_after_their_share_and_nothing_is_lost() {
    let Some(python) = python() else { return };
    let settings = PoolSettings {
        recycle_after: Some(20),
        slots: 4,
        ..settings(python, 1, "pool_actions")
    };
    let mut bench = Bench::new(settings);
    let mut pids = BTreeSet::new();
    for _ in 0..4 {
        let tokens: Vec<_> = (0..20).map(|_| bench.start("who", "null")).collect();
        pids.extend(
            tokens
                .iter()
                .map(|token| bench.outcome(token).unwrap().as_int().unwrap()),
        );
    }
    // A process that has had its share works on until the next is there; that one comes sooner or
    // later.
    while pids.len() < 3 {
        pids.insert(bench.run("who", "null").unwrap().as_int().unwrap());
    }
}

/// "cancel and timeout reach the coroutine"
#[test]
fn a_cancel_reaches_the_coroutine_and_the_thread() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let path = bench.folder.path().join("heard");
    let waits = bench.start("waits", &format!(r#"{{"path": {path:?}}}"#));
    let spins = bench.start("spins", "null");
    let before = bench.run("who", "null").unwrap();
    for token in [waits, spins] {
        bench.pool.cancel(&token);
        assert_eq!(&*bench.outcome(&token).unwrap_err().kind, "Cancelled");
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), "cancelled");
    assert_eq!(
        bench.run("who", "null"),
        Ok(before),
        "the process is the same"
    );
}

#[test]
fn a_closed_pool_lets_its_workers_finish() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let token = bench.start("blocks", r#"{"seconds": 0.2}"#);
    bench.runtime.block_on(bench.pool.ready()).unwrap();
    bench.runtime.block_on(bench.pool.close());
    assert_eq!(bench.outcome(&token), Ok(Value::from("done")));
    assert!(bench.pool.workers().is_empty());
}
