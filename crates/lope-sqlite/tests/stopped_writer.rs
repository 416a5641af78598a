//! Processes that were stopped while they wrote, or while they waited for their turn to.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::ground;

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ground::{Ground, admit};
use lope_sqlite::SqliteOptions;
use lope_store::StoreError;
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};

async fn queued(ground: &Ground) -> u64 {
    ground.store.runs.counts().await.unwrap().by_status["queued"]
}

/// "A process frozen in a write must not hold SQLite's writer gate against everybody": one that was
/// stopped while it waited for its turn, or between two transactions, is passed by.
#[tokio::test]
async fn a_process_that_stands_still_in_the_queue_of_writers_is_passed_by() {
    let ground = Ground::with(|options| SqliteOptions {
        patience: Duration::from_millis(50),
        ..options
    })
    .await;
    for name in ["lope.db-writer.gate", "lope.db-writer.lock"] {
        let stopped = std::fs::File::open(ground.folder.path().join(name)).unwrap();
        stopped.lock().unwrap();
        admit(&ground.store, 3).await;
        admit(&ground.store, 3).await;
    }
    assert_eq!(queued(&ground).await, 12);
}

/// One that was stopped in the middle of a transaction keeps SQLite's lock, which nobody can break:
/// it is named, readers do not notice, and once it goes on or is killed everybody goes on.
#[tokio::test]
async fn a_process_that_was_stopped_in_a_write_is_named_and_nothing_is_lost() {
    const PLACE: &str = "LOPE_TEST_STOPPED";
    if let Some(path) = std::env::var_os(PLACE) {
        let other = Connection::open(path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        println!("\n@writes");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        other.execute_batch("COMMIT").unwrap();
        println!("\n@wrote");
        return std::future::pending().await;
    }
    let ground = Ground::with(|options| SqliteOptions {
        patience: Duration::from_millis(50),
        ..options
    })
    .await;
    for thaws in [true, false] {
        let mut stopped = StoppedWriter::begin(&ground.path(), PLACE);
        let pid = stopped.child.id();
        let refused = ground.store.runs.admit(vec![ground::admission()]).await;
        let Err(StoreError::Unavailable { message }) = refused else {
            panic!("{refused:?}")
        };
        assert!(message.contains(&format!("process {pid} (")), "{message}");
        assert!(message.contains(&format!("kill -CONT {pid}")), "{message}");
        assert!(ground.store.runs.counts().await.is_ok());
        let findings = ground.store.upkeep.check().await.unwrap();
        let [finding] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert_eq!(finding.rule, "writer");
        assert!(finding.message.contains(&pid.to_string()), "{finding:?}");
        if thaws {
            stopped.send(Signal::CONT);
            stopped.go_on();
        }
        stopped.end();
        admit(&ground.store, 1).await;
        assert_eq!(ground.store.upkeep.check().await.unwrap(), []);
    }
    assert_eq!(queued(&ground).await, 2);
}

/// This test's own program, in the middle of a write and stopped.
struct StoppedWriter {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl StoppedWriter {
    fn begin(path: &Path, place: &str) -> Self {
        let name =
            "stopped_writer::a_process_that_was_stopped_in_a_write_is_named_and_nothing_is_lost";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(place, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut writer = Self { child, said };
        writer.says("@writes");
        writer.send(Signal::STOP);
        let stat = format!("/proc/{}/stat", writer.child.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T") {
            std::thread::yield_now();
        }
        writer
    }

    fn says(&mut self, word: &str) {
        assert!(self.said.any(|line| line.unwrap() == word), "no {word}");
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn go_on(&mut self) {
        self.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        self.says("@wrote");
    }

    fn end(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
