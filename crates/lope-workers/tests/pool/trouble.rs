//! What goes wrong: each is a clear error, and the pool works on.

use lope_engine::executor::Executor;
use lope_engine::secret::Masks;
use lope_model::{Value, value};
use lope_workers::pool::PoolSettings;

use crate::bench::{Bench, python, settings};

fn healthy(bench: &mut Bench) {
    assert_eq!(
        bench.run("double", r#"{"n": 4}"#),
        Ok(Value::Int(8)),
        "the pool is healthy"
    );
}

/// "crash → attempts reported lost, process replaced with backoff"
#[test]
fn a_killed_worker_loses_its_attempts_and_is_replaced() {
    let Some(mut bench) = Bench::with(2) else {
        return;
    };
    bench.runtime.block_on(bench.pool.ready()).unwrap();
    for _ in 0..3 {
        let failure = bench.run("kills", "null").unwrap_err();
        assert_eq!(&*failure.kind, "WorkerLost");
        assert!(
            failure.message.contains("killed by signal 9"),
            "{}",
            failure.message
        );
    }
    healthy(&mut bench);
}

/// "An action that kills its worker counts an attempt, so it cannot loop for ever."
/// "a poisonous action that kills its process stops after its attempts …, others go on"
#[test]
fn poison_takes_others_with_it_at_most_twice() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    bench.runtime.block_on(bench.pool.ready()).unwrap();
    let mut lost = [0; 5];
    for (round, lost) in lost.iter_mut().enumerate() {
        let attempt = u32::try_from(round).unwrap() + 1;
        let naps = r#"{"seconds": 0.05}"#;
        let beside: Vec<_> = (0..5)
            .map(|n| bench.attempt(&format!("beside/{n}"), attempt, "naps", naps))
            .collect();
        let poison = bench.attempt("poison", attempt, "kills", "null");
        assert_eq!(&*bench.outcome(&poison).unwrap_err().kind, "WorkerLost");
        *lost = beside
            .iter()
            .filter(|token| bench.outcome(token).is_err())
            .count();
    }
    assert_eq!(
        lost[2..],
        [0; 3],
        "from the third attempt on the poison is alone"
    );
    healthy(&mut bench);
}

/// "oversized results are an error, never a hang"
#[test]
fn a_result_of_a_hundred_megabytes_is_an_error() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let failure = bench.run("large", r#"{"size": 100000000}"#).unwrap_err();
    assert_eq!(&*failure.kind, "Limit");
    assert!(
        failure
            .message
            .contains("100000005 bytes, more than 16777216"),
        "{}",
        failure.message
    );
    healthy(&mut bench);
    let fits = bench.run("large", r#"{"size": 10000000}"#).unwrap();
    assert!(matches!(fits, Value::Bytes(bytes) if bytes.len() == 10_000_000));
}

#[test]
fn arguments_that_are_too_large_are_an_error() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let text = "x".repeat(20_000_000);
    let failure = bench
        .run("fails", &format!(r#"{{"message": "{text}"}}"#))
        .unwrap_err();
    assert_eq!(&*failure.kind, "Limit");
    healthy(&mut bench);
}

#[test]
fn exceptions_and_results_that_cannot_be_told_are_clear_errors() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let failure = bench.run("unpicklable", "null").unwrap_err();
    assert_eq!(&*failure.kind, "Unpicklable");
    assert!(
        failure.message.contains("whose text cannot be had"),
        "{}",
        failure.message
    );
    let failure = bench.run("unencodable", "null").unwrap_err();
    assert_eq!(&*failure.kind, "ValueProblem");
    assert!(
        failure.message.starts_with("result.lock: "),
        "{}",
        failure.message
    );
    let failure = bench.run("double", r#"{"n": "text"}"#).unwrap_err();
    assert_eq!(&*failure.kind, "ValueProblem");
    assert!(failure.message.starts_with("n: "), "{}", failure.message);
    let failure = bench.run("double", r#"{"m": 1}"#).unwrap_err();
    assert_eq!(&*failure.kind, "TypeError");
    assert_eq!(&*bench.run("exits", "null").unwrap_err().kind, "SystemExit");
    let failure = bench.run("nobody", "null").unwrap_err();
    assert_eq!(&*failure.kind, "UnknownAction");
    healthy(&mut bench);
}

#[test]
fn an_action_that_blocks_the_loop_is_told_in_its_log_and_does_not_cost_its_process() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let before = bench.run("who", "null").unwrap();
    let token = bench.start("blocks", r#"{"seconds": 3.0}"#);
    assert_eq!(bench.outcome(&token), Ok(Value::from("done")));
    let log = bench.log(&token).join("\n");
    assert!(
        log.contains("has blocked its worker's event loop") && log.contains("time.sleep(seconds)"),
        "{log}"
    );
    assert_eq!(bench.run("who", "null"), Ok(before));
}

#[test]
fn an_action_that_blocks_the_loop_and_is_cancelled_costs_its_process() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let token = bench.start("blocks", r#"{"seconds": 3600.0}"#);
    // A cancel before its first step would only be answered.
    bench.until_log(&token, "has blocked its worker's event loop");
    bench.pool.cancel(&token);
    assert_eq!(&*bench.outcome(&token).unwrap_err().kind, "WorkerLost");
    healthy(&mut bench);
}

/// "one that ignores cancellation": its process is replaced when the others in it are done.
#[test]
fn an_action_that_ignores_its_cancel_costs_its_process() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let before = bench.run("who", "null").unwrap();
    for (action, arguments) in [
        ("ignores", "null"),
        ("sleeps_in_c", r#"{"seconds": 3600.0}"#),
    ] {
        let token = bench.start(action, arguments);
        healthy(&mut bench);
        bench.pool.cancel(&token);
        assert_eq!(
            &*bench.outcome(&token).unwrap_err().kind,
            "WorkerLost",
            "{action}"
        );
        healthy(&mut bench);
    }
    assert_ne!(bench.run("who", "null"), Ok(before));
}

#[test]
fn a_module_that_does_not_load_is_told_with_its_traceback() {
    let Some(python) = python() else { return };
    let mut bench = Bench::new(settings(python, 2, "broken_module"));
    let failure = bench.runtime.block_on(bench.pool.ready()).unwrap_err();
    assert_eq!(&*failure.kind, "WorkerBroken");
    let message =
        "the module 'broken_module' cannot be imported: RuntimeError: this module does not load";
    assert_eq!(failure.message, message);
    assert!(
        failure
            .traceback
            .as_ref()
            .unwrap()
            .contains("broken_module.py\", line 1")
    );
    assert_eq!(
        bench.run("double", r#"{"n": 1}"#).unwrap_err().message,
        failure.message
    );
}

#[test]
fn an_interpreter_that_cannot_be_started_or_lacks_the_package_is_told() {
    let Some(python) = python() else { return };
    let nowhere = Bench::new(settings("no/such/python".into(), 1, "pool_actions"));
    let failure = nowhere.runtime.block_on(nowhere.pool.ready()).unwrap_err();
    assert!(
        failure
            .message
            .contains("'no/such/python' cannot be started"),
        "{}",
        failure.message
    );
    let mut bare = settings(python, 1, "pool_actions");
    bare.program.environment = vec![("PYTHONPATH".into(), "".into())];
    bare.program.arguments.insert(0, "-I".into());
    let bare = Bench::new(bare);
    let failure = bare.runtime.block_on(bare.pool.ready()).unwrap_err();
    assert!(
        failure.message.contains("No module named lope"),
        "{}",
        failure.message
    );
}

/// "a worker of another version": refused, with both versions named.
#[test]
fn a_worker_of_another_protocol_is_refused() {
    let Some(python) = python() else { return };
    let mut other = settings(python, 1, "pool_actions");
    other.program.arguments = vec![
        "-c".into(),
        "import sys; from lope.worker import protocol, main; protocol.PROTOCOL = 9; sys.exit(main(sys.argv[1:]))"
            .into(),
    ];
    let bench = Bench::new(PoolSettings { ..other });
    let failure = bench.runtime.block_on(bench.pool.ready()).unwrap_err();
    assert_eq!(&*failure.kind, "WorkerRefused");
    assert!(
        failure
            .message
            .contains("speaks version 9 of the protocol, this runner version 1"),
        "{}",
        failure.message
    );
}

#[test]
fn values_of_python_cross_as_they_are() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let given =
        value::from_json(r#"{"value": {"$tag": ["tuple", [1, {"$bytes": "AAE="}]]}}"#).unwrap();
    assert_eq!(
        bench.run("echo", &given.to_string()),
        Ok(given.get("value").unwrap().clone())
    );
}

/// "Secrets are masked wherever text leaves an attempt (Python workers' logs, tracebacks)"
#[test]
fn what_an_action_prints_and_raises_shows_no_secret() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let secret = "it's a \"secret\" of mine";
    let arguments = serde_json::json!({ "secret": secret }).to_string();
    let (task, done) = bench.task("tells/1", 1, "tells", &arguments);
    let (token, masks) = (task.token.clone(), Masks::of([secret.into()]));
    bench.pool.start(task, done.masking(masks));
    let failure = bench.outcome(&token).unwrap_err();
    assert_eq!(failure.message, "told '***'", "{failure:?}");
    let log = bench.log(&token).join("\n");
    assert!(log.contains("out telling ***"), "{log}");
    let said = format!("{log}{failure:?}");
    assert!(
        !said.contains("it's a") && !said.contains("of mine"),
        "{said}"
    );
}

/// "Whatever a step started is gone when the step is", also what a worker process had started.
#[test]
fn what_a_worker_has_started_goes_with_it() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let seconds = format!("91000.{}", std::process::id());
    let arguments = serde_json::json!({ "seconds": seconds }).to_string();
    let Value::Int(pid) = bench.run("starts", &arguments).unwrap() else {
        panic!("no number of a process");
    };
    // It was started by a process in between, which may not be that far yet.
    let begun = std::time::Instant::now();
    while sleepers(&seconds) == 0 {
        assert!(begun.elapsed() < crate::bench::PATIENCE);
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let begun = std::time::Instant::now();
    while sleepers(&seconds) > 0 {
        assert!(begun.elapsed() < crate::bench::PATIENCE);
        std::thread::yield_now();
    }
}

fn sleepers(seconds: &str) -> usize {
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = folders.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{seconds}\0").into_bytes();
    lines.filter(|line| **line == wanted).count()
}

/// "Children inherit only what the step or an allow-list names"
#[test]
fn a_worker_inherits_what_python_needs_and_little_else() {
    let Some(mut bench) = Bench::with(1) else {
        return;
    };
    let environment = bench.run("inherits", "{}").unwrap();
    assert!(environment.get("PYTHONPATH").is_some() && environment.get("PATH").is_some());
    // Of the test's own environment.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert_eq!(environment.get("CARGO_MANIFEST_DIR"), None);
}
