//! Real processes: output, failure, input, cancel, and nothing left behind.

use super::*;
use crate::bench_tests::{Bench, RUN};

struct Shop {
    bench: Bench<Processes>,
    logs: Logs,
    folder: tempfile::TempDir,
}

fn shop() -> Shop {
    let folder = tempfile::tempdir().unwrap();
    let logs = Logs::at(folder.path().to_owned());
    let bench = Bench::new(|runtime| Processes::new(runtime, logs.clone()));
    Shop {
        bench,
        logs,
        folder,
    }
}

impl Shop {
    fn run(&self, arguments: &str) -> Result<Value, Failure> {
        self.bench.run("run", arguments)
    }
}

#[test]
fn standard_output_is_the_result_and_json_keeps_its_type() {
    let shop = shop();
    assert_eq!(
        shop.run(r#"{"argv": ["echo", "two", "words"]}"#),
        Ok(Value::from("two words"))
    );
    assert_eq!(
        shop.run(r#"{"command": "echo '{\"n\": 1}'"}"#),
        Ok(Value::map([("n", Value::Int(1))]))
    );
    assert_eq!(
        shop.run(r#"{"argv": ["cat"], "stdin": "through"}"#),
        Ok(Value::from("through"))
    );
    // All of it is there before the process begins: one whose runner is killed does not take a part
    // of it for the whole.
    assert_eq!(
        shop.run(r#"{"command": "test -f /dev/stdin && cat", "stdin": "whole"}"#),
        Ok(Value::from("whole"))
    );
    assert_eq!(
        shop.run(r#"{"command": "echo $A", "env": {"A": "b c"}}"#),
        Ok(Value::from("b c"))
    );
    assert_eq!(
        shop.run(r#"{"argv": ["pwd"], "cwd": "/"}"#),
        Ok(Value::from("/"))
    );
}

#[test]
fn a_bad_end_is_a_failure_with_its_code_and_last_words() {
    let shop = shop();
    let failure = shop
        .run(r#"{"command": "echo no luck >&2; exit 3"}"#)
        .unwrap_err();
    assert_eq!(&*failure.kind, failure::kind::EXIT_STATUS);
    assert!(failure.message.contains("no luck"), "{}", failure.message);
    assert_eq!(failure.detail.get("code"), Some(&Value::Int(3)));
    let failure = shop
        .run(r#"{"argv": ["no-such-program-here"]}"#)
        .unwrap_err();
    assert!(
        failure.message.contains("no-such-program-here"),
        "{}",
        failure.message
    );
    assert_eq!(&*shop.run("{}").unwrap_err().kind, "BadArguments");
}

#[test]
fn output_beyond_the_bound_is_an_error_not_a_hang() {
    let failure = shop()
        .run(r#"{"command": "head -c 17000000 /dev/zero"}"#)
        .unwrap_err();
    assert_eq!(&*failure.kind, failure::kind::LIMIT, "{failure:?}");
}

#[test]
fn every_line_is_logged_with_its_stream() {
    let shop = shop();
    shop.run(r#"{"command": "echo one; echo two >&2"}"#)
        .unwrap();
    let logs = shop.logs.of_run(RUN).unwrap();
    assert_eq!(logs[0].execution, "a/0/b");
    let text = std::fs::read_to_string(&logs[0].path).unwrap();
    assert!(
        text.contains(" out one\n") && text.contains(" err two\n"),
        "{text}"
    );
}

#[test]
fn a_cancelled_process_is_ended_with_its_whole_group() {
    let shop = shop();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    // A grandchild that would outlive its parent holds the write end; the reader sees the end only
    // when all are gone.
    let script = format!(
        "mkfifo {0}; (trap '' TERM; exec 9>{0}; sleep 600) & wait",
        fifo.display()
    );
    let token = shop.bench.start(
        "run",
        &format!(r#"{{"command": {}}}"#, serde_json::json!(script)),
    );
    while !fifo.exists() {
        std::thread::yield_now();
    }
    let mut reader = std::fs::File::open(&fifo).unwrap();
    shop.bench.executor.cancel(&token);
    assert_eq!(
        &*shop.bench.outcome().unwrap_err().kind,
        failure::kind::CANCELLED
    );
    std::io::Read::read_to_end(&mut reader, &mut Vec::new()).unwrap();
}

/// A process that says much quickly is read without keeping anything else of its runner waiting.
#[tokio::test]
async fn a_talkative_process_lets_others_have_their_turn() {
    let text = "y\n".repeat(100_000);
    let (mut lines, mut turns) = (0_u32, 0_u32);
    let signs = std::cell::Cell::new(0_u32);
    let reading = each_line(
        text.as_bytes(),
        || signs.set(signs.get() + 1),
        |_| lines += 1,
    );
    let other = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = reading => {}
        () = other => unreachable!("it never ends"),
    }
    assert_eq!(lines, 100_000);
    assert!(
        turns > 100 && (1..1_000).contains(&signs.get()),
        "{turns} turns, {} signs of life",
        signs.get()
    );
}

/// Processes that sleep for so long.
fn sleepers(seconds: &str) -> usize {
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = folders.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{seconds}\0").into_bytes();
    lines.filter(|line| **line == wanted).count()
}

#[test]
fn what_a_process_leaves_behind_ends_with_it_though_nobody_supervises() {
    let shop = shop();
    let long = format!("92000.{}", std::process::id());
    let line = format!("sleep {long} & setsid -f sleep {long}; echo ok");
    let arguments = serde_json::json!({ "command": line }).to_string();
    assert_eq!(shop.run(&arguments), Ok(Value::from("ok")));
    assert_eq!(sleepers(&long), 0);
}

#[test]
fn what_an_earlier_attempt_has_left_is_gone_when_the_next_begins() {
    let shop = shop();
    let next = self::shop();
    let long = format!("93000.{}", std::process::id());
    let line = format!("trap '' TERM; setsid -f sleep {long}; sleep {long}");
    let arguments = serde_json::json!({ "command": line }).to_string();
    // An execution of its own: the others of these tests shall live.
    shop.bench.start_attempt("run", &arguments, ("swept", 1));
    while sleepers(&long) < 2 {
        std::thread::yield_now();
    }
    next.bench
        .start_attempt("run", r#"{"argv": ["echo", "next"]}"#, ("swept", 2));
    assert_eq!(next.bench.outcome(), Ok(Value::from("next")));
    assert_eq!(sleepers(&long), 0);
}

#[test]
fn a_process_inherits_little() {
    let Value::Str(said) = shop()
        .run(r#"{"argv": ["env"], "env": {"A": "1"}}"#)
        .unwrap()
    else {
        panic!("no text");
    };
    // Of the test's own environment.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!said.contains("CARGO_MANIFEST_DIR"), "{said}");
    assert!(
        said.contains("PATH=") && said.lines().any(|line| line == "A=1"),
        "{said}"
    );
}

#[test]
fn a_failure_shows_the_last_lines() {
    let failure = shop()
        .run(r#"{"command": "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exit 2"}"#)
        .unwrap_err();
    let lines = "line 3\nline 4\nline 5\nline 6\nline 7";
    assert_eq!(failure.message, format!("exit status: 2: {lines}"));
}

/// A sink for which every attempt comes too late.
struct TooLateSink(std::sync::mpsc::Sender<Token>);

impl lope_engine::executor::OutcomeSink for TooLateSink {
    fn settle(&self, outcome: lope_engine::executor::TaskOutcome) {
        panic!("it was begun: {outcome:?}");
    }

    fn alive(&self, _token: &Token) {}

    fn start_right(&self, _token: &Token) -> lope_engine::executor::StartRight {
        lope_engine::executor::StartRight::Over
    }

    fn give_back(&self, token: &Token) {
        self.0.send(token.clone()).unwrap();
    }
}

/// A runner that stood still when it had the task in its hands.
#[test]
fn what_may_not_begin_any_more_goes_back_and_nothing_is_started() {
    let shop = shop();
    let made = shop.folder.path().join("made");
    let arguments = format!(r#"{{"argv": ["touch", "{}"]}}"#, made.display());
    let (sender, returned) = std::sync::mpsc::channel();
    let token = shop
        .bench
        .start_with("run", &arguments, Arc::new(TooLateSink(sender)));
    let back = returned.recv_timeout(crate::bench_tests::PATIENCE);
    assert_eq!(back.unwrap(), token);
    assert!(!made.exists());
}

/// A sink whose lease is over for a while and is then renewed.
struct RenewedSink {
    asked: std::sync::atomic::AtomicUsize,
    outcomes: std::sync::mpsc::Sender<Result<Value, Box<Failure>>>,
}

impl lope_engine::executor::OutcomeSink for RenewedSink {
    fn settle(&self, outcome: lope_engine::executor::TaskOutcome) {
        self.outcomes.send(outcome.result).unwrap();
    }

    fn alive(&self, _token: &Token) {}

    fn start_right(&self, _token: &Token) -> StartRight {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            0..5 => StartRight::Until(std::time::Instant::now()),
            _ => StartRight::Always,
        }
    }

    fn give_back(&self, token: &Token) {
        panic!("it was given up: {token:?}");
    }
}

/// A heartbeat that came late: the session is held after all, and so is the attempt.
#[test]
fn what_may_not_begin_for_a_moment_begins_when_the_lease_is_renewed() {
    let shop = shop();
    let (outcomes, settled) = std::sync::mpsc::channel();
    let sink = RenewedSink {
        asked: std::sync::atomic::AtomicUsize::new(0),
        outcomes,
    };
    shop.bench
        .start_with("run", r#"{"argv": ["echo", "late"]}"#, Arc::new(sink));
    let settled = settled.recv_timeout(crate::bench_tests::PATIENCE).unwrap();
    assert_eq!(settled, Ok(Value::from("late")));
}
