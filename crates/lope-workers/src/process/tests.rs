//! Real processes: output, failure, input, cancel, and nothing left behind.

use std::sync::mpsc;

use lope_engine::executor::{Limits, Outcome, Outcomes};
use lope_model::{Epoch, RunId};

use super::*;

struct Ear(mpsc::Sender<Outcome>);

impl Outcomes for Ear {
    fn settle(&self, outcome: Outcome) {
        self.0.send(outcome).unwrap();
    }

    fn alive(&self, _token: &Token) {}
}

struct Bench {
    processes: Processes,
    ear: Arc<Ear>,
    outcomes: mpsc::Receiver<Outcome>,
    _runtime: tokio::runtime::Runtime,
    logs: Logs,
    _folder: tempfile::TempDir,
}

fn bench() -> Bench {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let logs = Logs::at(folder.path().to_owned());
    let processes = Processes::new(runtime.handle().clone(), logs.clone());
    let (sender, outcomes) = mpsc::channel();
    Bench { processes, ear: Arc::new(Ear(sender)), outcomes, _runtime: runtime, logs, _folder: folder }
}

impl Bench {
    fn start(&self, arguments: &str) -> Token {
        let token = Token { run: RunId::from_bytes([9; 16]), execution: "a/0/b".into(), attempt: 1, epoch: Epoch(1) };
        let task = Task {
            token: token.clone(),
            workflow: "w".into(),
            step: "b".into(),
            executor: "run".into(),
            action: "run".into(),
            arguments: value::from_json(arguments).unwrap(),
            limits: Limits::default(),
            idempotency_key: None,
        };
        let outcomes: Arc<dyn Outcomes> = self.ear.clone();
        self.processes.start(task, Done::new(token.clone(), outcomes));
        token
    }

    fn run(&self, arguments: &str) -> Result<Value, Failure> {
        self.start(arguments);
        self.outcomes.recv_timeout(Duration::from_secs(30)).unwrap().result
    }
}

#[test]
fn standard_output_is_the_result_and_json_keeps_its_type() {
    let bench = bench();
    assert_eq!(bench.run(r#"{"argv": ["echo", "two", "words"]}"#), Ok(Value::from("two words")));
    assert_eq!(bench.run(r#"{"command": "echo '{\"n\": 1}'"}"#), Ok(Value::map([("n", Value::Int(1))])));
    assert_eq!(bench.run(r#"{"argv": ["cat"], "stdin": "through"}"#), Ok(Value::from("through")));
    assert_eq!(bench.run(r#"{"command": "echo $A", "env": {"A": "b c"}}"#), Ok(Value::from("b c")));
    assert_eq!(bench.run(r#"{"argv": ["pwd"], "cwd": "/"}"#), Ok(Value::from("/")));
}

#[test]
fn a_bad_end_is_a_failure_with_its_code_and_last_words() {
    let bench = bench();
    let failure = bench.run(r#"{"command": "echo no luck >&2; exit 3"}"#).unwrap_err();
    assert_eq!(&*failure.kind, failure::kind::EXIT_STATUS);
    assert!(failure.message.contains("no luck"), "{}", failure.message);
    assert_eq!(failure.detail.get("code"), Some(&Value::Int(3)));
    let failure = bench.run(r#"{"argv": ["no-such-program-here"]}"#).unwrap_err();
    assert!(failure.message.contains("no-such-program-here"), "{}", failure.message);
    assert_eq!(&*bench.run("{}").unwrap_err().kind, "BadArguments");
}

#[test]
fn output_beyond_the_bound_is_an_error_not_a_hang() {
    let failure = bench().run(r#"{"command": "head -c 17000000 /dev/zero"}"#).unwrap_err();
    assert_eq!(&*failure.kind, failure::kind::LIMIT);
}

#[test]
fn every_line_is_logged_with_its_stream() {
    let bench = bench();
    bench.run(r#"{"command": "echo one; echo two >&2"}"#).unwrap();
    let logs = bench.logs.of_run(RunId::from_bytes([9; 16])).unwrap();
    assert_eq!(logs[0].execution, "a/0/b");
    let text = std::fs::read_to_string(&logs[0].path).unwrap();
    assert!(text.contains(" out one\n") && text.contains(" err two\n"), "{text}");
}

#[test]
fn a_cancelled_process_is_ended_with_its_whole_group() {
    let bench = bench();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    // A grandchild that would outlive its parent holds the write end; the reader sees the end only when all are gone.
    let script = format!("mkfifo {0}; (trap '' TERM; exec 9>{0}; sleep 600) & wait", fifo.display());
    let token = bench.start(&format!(r#"{{"command": {}}}"#, serde_json::json!(script)));
    while !fifo.exists() {
        std::thread::yield_now();
    }
    let mut reader = std::fs::File::open(&fifo).unwrap();
    bench.processes.cancel(&token);
    let outcome = bench.outcomes.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(&*outcome.result.unwrap_err().kind, failure::kind::CANCELLED);
    std::io::Read::read_to_end(&mut reader, &mut Vec::new()).unwrap();
}
