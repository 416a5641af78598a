//! Real processes: output, failure, input, cancel, and nothing left behind.

use super::*;
use crate::bench_tests::{Bench, RUN};

struct Shop {
    bench: Bench<Processes>,
    logs: Logs,
    _folder: tempfile::TempDir,
}

fn shop() -> Shop {
    let folder = tempfile::tempdir().unwrap();
    let logs = Logs::at(folder.path().to_owned());
    let bench = Bench::new(|runtime| Processes::new(runtime, logs.clone()));
    Shop { bench, logs, _folder: folder }
}

impl Shop {
    fn run(&self, arguments: &str) -> Result<Value, Failure> {
        self.bench.run("run", arguments)
    }
}

#[test]
fn standard_output_is_the_result_and_json_keeps_its_type() {
    let shop = shop();
    assert_eq!(shop.run(r#"{"argv": ["echo", "two", "words"]}"#), Ok(Value::from("two words")));
    assert_eq!(shop.run(r#"{"command": "echo '{\"n\": 1}'"}"#), Ok(Value::map([("n", Value::Int(1))])));
    assert_eq!(shop.run(r#"{"argv": ["cat"], "stdin": "through"}"#), Ok(Value::from("through")));
    // All of it is there before the process begins: one whose runner is killed does not take a part of it for the whole.
    assert_eq!(shop.run(r#"{"command": "test -f /dev/stdin && cat", "stdin": "whole"}"#), Ok(Value::from("whole")));
    assert_eq!(shop.run(r#"{"command": "echo $A", "env": {"A": "b c"}}"#), Ok(Value::from("b c")));
    assert_eq!(shop.run(r#"{"argv": ["pwd"], "cwd": "/"}"#), Ok(Value::from("/")));
}

#[test]
fn a_bad_end_is_a_failure_with_its_code_and_last_words() {
    let shop = shop();
    let failure = shop.run(r#"{"command": "echo no luck >&2; exit 3"}"#).unwrap_err();
    assert_eq!(&*failure.kind, failure::kind::EXIT_STATUS);
    assert!(failure.message.contains("no luck"), "{}", failure.message);
    assert_eq!(failure.detail.get("code"), Some(&Value::Int(3)));
    let failure = shop.run(r#"{"argv": ["no-such-program-here"]}"#).unwrap_err();
    assert!(failure.message.contains("no-such-program-here"), "{}", failure.message);
    assert_eq!(&*shop.run("{}").unwrap_err().kind, "BadArguments");
}

#[test]
fn output_beyond_the_bound_is_an_error_not_a_hang() {
    let failure = shop().run(r#"{"command": "head -c 17000000 /dev/zero"}"#).unwrap_err();
    assert_eq!(&*failure.kind, failure::kind::LIMIT);
}

#[test]
fn every_line_is_logged_with_its_stream() {
    let shop = shop();
    shop.run(r#"{"command": "echo one; echo two >&2"}"#).unwrap();
    let logs = shop.logs.of_run(RUN).unwrap();
    assert_eq!(logs[0].execution, "a/0/b");
    let text = std::fs::read_to_string(&logs[0].path).unwrap();
    assert!(text.contains(" out one\n") && text.contains(" err two\n"), "{text}");
}

#[test]
fn a_cancelled_process_is_ended_with_its_whole_group() {
    let shop = shop();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    // A grandchild that would outlive its parent holds the write end; the reader sees the end only when all are gone.
    let script = format!("mkfifo {0}; (trap '' TERM; exec 9>{0}; sleep 600) & wait", fifo.display());
    let token = shop.bench.start("run", &format!(r#"{{"command": {}}}"#, serde_json::json!(script)));
    while !fifo.exists() {
        std::thread::yield_now();
    }
    let mut reader = std::fs::File::open(&fifo).unwrap();
    shop.bench.executor.cancel(&token);
    assert_eq!(&*shop.bench.outcome().unwrap_err().kind, failure::kind::CANCELLED);
    std::io::Read::read_to_end(&mut reader, &mut Vec::new()).unwrap();
}

/// A process that says much quickly is read without keeping anything else of its runner waiting.
#[tokio::test]
async fn a_talkative_process_lets_others_have_their_turn() {
    let text = "y\n".repeat(100_000);
    let (mut lines, mut turns) = (0_u32, 0_u32);
    let signs = std::cell::Cell::new(0_u32);
    let reading = each_line(text.as_bytes(), || signs.set(signs.get() + 1), |_| lines += 1);
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
    assert!(turns > 100 && (1..1_000).contains(&signs.get()), "{turns} turns, {} signs of life", signs.get());
}
