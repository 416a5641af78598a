//! Programs as handlers: the payload on standard input, exit 0 when it is handled.

use std::path::Path;
use std::sync::Arc;

use lope_mailbox::frame::MessageKind;
use lope_mailbox::key::WorkerId;
use lope_mailbox::record::Owner;
use lope_mailbox::time::{Sleep, TimeHooks};
use lope_mailbox::{ConsumerConfig, ConsumerLoop, ConsumerLoopError, Mailbox, Until};
use lope_store::{ManualClock, MemoryStore, Tables};

use super::*;

/// A memory store with a clock that moves when somebody sleeps.
struct Stand {
    clock: Arc<ManualClock>,
    tables: Arc<dyn Tables>,
    mailbox: Mailbox,
}

#[derive(Debug)]
struct HandSleep(Arc<ManualClock>);

#[async_trait]
impl Sleep for HandSleep {
    async fn sleep(&self, span: Span) {
        self.0.pass(span);
        tokio::task::yield_now().await;
    }
}

fn seven() -> WorkerId {
    WorkerId::new(7).unwrap()
}

impl Stand {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let tables = MemoryStore::with_clock(clock.clone()).tables;
        Self {
            clock,
            mailbox: Mailbox::new(Arc::clone(&tables)),
            tables,
        }
    }

    async fn send(&self, id: &str, payload: &str) {
        let message = Message::new(MessageKind::Command, 7, id.as_bytes(), payload.as_bytes());
        self.mailbox.send(&message).await.unwrap();
    }

    async fn run(
        &self,
        handler: ProcessHandler,
        attempts: u32,
    ) -> Result<ConsumerLoop, ConsumerLoopError> {
        let mut config = ConsumerConfig::new(seven(), Owner::new("desk").unwrap());
        (config.max_batch, config.retry.budget) = (4, attempts);
        let mut time = TimeHooks::on(self.clock.clone());
        if attempts > 1 {
            // Nobody waits for the next one.
            time.sleep = Arc::new(HandSleep(self.clock.clone()));
        }
        let handler = Arc::new(handler);
        let mut worker = ConsumerLoop::init(Arc::clone(&self.tables), handler, config, time)
            .await
            .unwrap();
        worker.run(Until::Idle).await.map(|()| worker)
    }
}

fn program(program: &str, arguments: &[&str]) -> ProcessHandler {
    let arguments = arguments.iter().map(OsString::from);
    ProcessHandler::new(program, arguments, &Handle::current()).with_output(TreeOutput::ToErrors)
}

fn shell(script: &str, folder: &Path) -> ProcessHandler {
    let mut handler = program("sh", &["-c", script, "sh", folder.to_str().unwrap()]);
    // Tests run beside each other: the messages of one are not those of another.
    handler.store = folder.display().to_string();
    handler
}

/// `lope mailbox work WORKER -- CMD`: "payload on stdin, exit 0 = handled"
#[tokio::test]
async fn a_program_gets_the_payload_and_says_whether_it_is_handled() {
    let (stand, folder) = (Stand::new(), tempfile::tempdir().unwrap());
    for (id, payload) in [("a", "one"), ("b", "two"), ("big", &"x".repeat(1_000_000))] {
        stand.send(id, payload).await;
    }
    let script = r#"cat > "$1/$LOPE_MESSAGE_ID"; echo "$LOPE_MESSAGE_KIND $LOPE_WORKER $LOPE_ATTEMPT" > "$1/about""#;
    let worker = stand.run(shell(script, folder.path()), 4).await.unwrap();
    assert_eq!(worker.counters().read().successes, 3);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(
        (read("a"), read("b"), read("big").len()),
        ("one".into(), "two".into(), 1_000_000)
    );
    assert_eq!(read("about"), "command 7 1\n");
}

/// All of the payload is there before the program begins: one whose worker is killed does not take
/// a part of it for the whole.
#[tokio::test]
async fn the_payload_is_no_pipe_that_may_end_early() {
    let (stand, folder) = (Stand::new(), tempfile::tempdir().unwrap());
    stand.send("m", "whole").await;
    let script = r#"test -f /dev/stdin && cat > "$1/seen""#;
    stand.run(shell(script, folder.path()), 4).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(folder.path().join("seen")).unwrap(),
        "whole"
    );
}

/// A program that does not read its input, or fails, or dies, is not waited for in vain.
#[tokio::test]
async fn a_program_that_fails_is_tried_again_and_one_that_never_will_is_not() {
    for (script, attempts, reason) in [
        ("exit 3", 4, "busy: exit status: 3"),
        ("kill -9 $$", 4, "busy: signal: 9 (SIGKILL)"),
        ("exit 65", 1, "failed: exit status: 65"),
    ] {
        let (stand, folder) = (Stand::new(), tempfile::tempdir().unwrap());
        stand.send("m", &"x".repeat(1_000_000)).await;
        stand.run(shell(script, folder.path()), 4).await.unwrap();
        let dead = stand
            .mailbox
            .dead(seven(), None, 9)
            .await
            .unwrap()
            .remove(0);
        assert_eq!((dead.attempts, dead.reason.as_str()), (attempts, reason));
    }
}

/// A program that is not there stops the worker; the messages stay.
#[tokio::test]
async fn a_program_that_cannot_be_started_stops_the_worker() {
    let stand = Stand::new();
    stand.send("m", "").await;
    let error = stand
        .run(program("no-such-program-here", &[]), 4)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no-such-program-here"),
        "{error}"
    );
    let left = stand.mailbox.list(seven(), None, 9).await.unwrap();
    assert_eq!(left.len(), 1);
}

/// A program that takes too long is killed, with what it started.
#[tokio::test]
async fn a_program_that_takes_too_long_is_killed_with_its_children() {
    let (stand, folder) = (Stand::new(), tempfile::tempdir().unwrap());
    stand.send("m", "").await;
    let script = r#"sleep 600 & echo $! >> "$1/pids"; wait"#;
    let mut handler = shell(script, folder.path());
    handler.timeout = Some(Span::from_millis(300));
    stand.run(handler, 1).await.unwrap();
    let dead = stand
        .mailbox
        .dead(seven(), None, 9)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(dead.reason, "busy: the program took longer than 300ms");
    let pids = std::fs::read_to_string(folder.path().join("pids")).unwrap();
    let is_alive = |pid: &str| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while pids.lines().any(is_alive) {
        assert!(std::time::Instant::now() < deadline, "{pids} still runs");
        tokio::task::yield_now().await;
    }
}
