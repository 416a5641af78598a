//! Programs as handlers: the payload on standard input, exit 0 when it is handled.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use lope_mailbox::process::{HandlerOutput, ProcessHandler};
use lope_mailbox::{ConsumerConfig, ConsumerLoop, ConsumerLoopError, Until};
use lope_model::Span;

use super::stand::{SEVEN, Stand, command, config, worker};

fn shell(script: &str, folder: &Path) -> ProcessHandler {
    let arguments = ["-c", script, "sh"].map(OsString::from);
    let mut handler = ProcessHandler::new(
        "sh",
        arguments.into_iter().chain([folder.as_os_str().to_owned()]),
    );
    handler.output = HandlerOutput::Discard;
    handler
}

async fn run(stand: &Stand, handler: ProcessHandler) -> Result<ConsumerLoop, ConsumerLoopError> {
    let config = ConsumerConfig {
        max_batch: 4,
        ..config(SEVEN, "desk")
    };
    let time = lope_mailbox::time::TimeHooks {
        sleep: stand.time().sleep,
        clock: stand.clock.clone(),
    };
    let mut worker = ConsumerLoop::init(Arc::clone(&stand.tables), Arc::new(handler), config, time)
        .await
        .unwrap();
    worker.run(Until::Idle).await.map(|()| worker)
}

/// `lope mailbox work WORKER -- CMD`: "payload on stdin, exit 0 = handled"
#[tokio::test]
async fn a_program_gets_the_payload_and_says_whether_it_is_handled() {
    let (stand, folder) = (Stand::new(), tempfile::tempdir().unwrap());
    for (id, payload) in [("a", "one"), ("b", "two"), ("big", &"x".repeat(1_000_000))] {
        stand.send(&command(SEVEN, id, payload)).await;
    }
    let script = r#"cat > "$1/$LOPE_MESSAGE_ID"; echo "$LOPE_MESSAGE_KIND $LOPE_WORKER $LOPE_ATTEMPT" > "$1/about""#;
    let worker = run(&stand, shell(script, folder.path())).await.unwrap();
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
    stand.send(&command(SEVEN, "m", "whole")).await;
    run(
        &stand,
        shell(r#"test -f /dev/stdin && cat > "$1/seen""#, folder.path()),
    )
    .await
    .unwrap();
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
        stand
            .send(&command(SEVEN, "m", &"x".repeat(1_000_000)))
            .await;
        run(&stand, shell(script, folder.path())).await.unwrap();
        let dead = stand
            .mailbox
            .dead(worker(SEVEN), None, 9)
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
    stand.send(&command(SEVEN, "m", "")).await;
    let error = run(&stand, ProcessHandler::new("no-such-program-here", []))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no-such-program-here"),
        "{error}"
    );
    assert_eq!(
        (stand.queued(SEVEN).await.len(), stand.leases().await),
        (1, vec![])
    );
}

/// A program that takes too long is killed, with what it started.
#[tokio::test]
async fn a_program_that_takes_too_long_is_killed_with_its_children() {
    let (stand, folder) = (Stand::new(), tempfile::tempdir().unwrap());
    stand.send(&command(SEVEN, "m", "")).await;
    let script = r#"sleep 600 & echo $! >> "$1/pids"; wait"#;
    let mut handler = shell(script, folder.path());
    handler.timeout = Some(Span::from_millis(300));
    let mut config = config(SEVEN, "desk");
    config.retry.budget = 1;
    let time = lope_mailbox::time::TimeHooks::on(stand.clock.clone());
    let mut worker = ConsumerLoop::init(Arc::clone(&stand.tables), Arc::new(handler), config, time)
        .await
        .unwrap();
    worker.run(Until::Idle).await.unwrap();
    let dead = stand
        .mailbox
        .dead(super::stand::worker(SEVEN), None, 9)
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
