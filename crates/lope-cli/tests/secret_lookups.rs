//! A secret whose look-up does not return, seen with the real binary: it costs the attempt that
//! names it, and nobody else.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::stage::{Home, Watch, until};

/// A home whose secret `stuck` is a file that nobody writes, and one slot.
fn stuck() -> (Home, PathBuf) {
    let home = Home::new();
    let path = home.path().join("fifo");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    std::fs::create_dir(home.path().join(".lope")).unwrap();
    let config = json!({
        "secrets": { "stuck": { "file": path } }, "engine": { "concurrency": 1 }
    });
    home.file(".lope/config.yaml", &config.to_string());
    (home, path)
}

/// Its slot is free when its time is over, and the process ends though the look-up does not.
#[test]
fn an_attempt_whose_secret_cannot_be_had_gives_its_slot_back_when_its_time_is_over() {
    let (home, _) = stuck();
    let steps = json!({ "name": "w", "steps": {
        "a": { "try": { "ask": { "run": ["echo", "${{ secrets.stuck }}"], "timeout": "100ms" } },
               "catch": [{ "as": "e", "steps": { "told": { "let": "${{ e.type }}" } } }] },
        "b": { "run": ["echo", "b"] },
        "r": { "return": ["${{ a }}", "${{ b }}"], "needs": ["a", "b"] },
    } });
    let file = home.file("w.yaml", &steps.to_string());
    let said = home.lope(&["run", &file, "--json"]).done();
    assert_eq!(said.json()["result"], json!(["Timeout", "b"]), "{said:?}");
}

/// One TERM ends the command, and the run goes on elsewhere: nothing of its step had begun.
#[test]
fn a_command_ends_although_a_secret_is_looked_up() {
    let (home, fifo) = stuck();
    let steps =
        json!({ "name": "w", "steps": { "a": { "run": ["echo", "${{ secrets.stuck }}"] } } });
    let file = home.file("w.yaml", &steps.to_string());
    let mut lope = home
        .command(&["run", &file])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _watch = Watch::over(&lope);
    let write = OFlags::WRONLY | OFlags::NONBLOCK;
    let mut writer = None;
    until("it is looked up", || {
        writer = rustix::fs::open(&fifo, write, Mode::empty()).ok();
        writer.is_some()
    });
    let listed = home.lope(&["runs", "list", "--json"]).done().json();
    let run = listed[0]["run_id"].as_str().unwrap().to_owned();
    let why = home.lope(&["runs", "why", &run]).done().out;
    let told = "a is at work, or waits there for a slot, or its secret is looked up (stuck): ";
    assert!(why.contains(told), "{why}");
    kill_process(Pid::from_child(&lope), Signal::TERM).unwrap();
    let ended = lope.wait().unwrap();
    assert!(ended.code().is_some(), "it ended by itself: {ended:?}");
    drop(writer);
    std::fs::remove_file(&fifo).unwrap();
    std::fs::write(&fifo, "hush-hush-42\n").unwrap();
    let said = home.lope(&["run", "--resume", &run, "--json"]).done();
    assert_eq!(said.json()["result"], "***", "{said:?}");
}
