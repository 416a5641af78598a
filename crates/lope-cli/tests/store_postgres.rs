//! `lope store …` and runs on Postgres, through the binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Output};

use crate::fixture;
use crate::fixture::cluster::{Cluster, Stop};
use crate::stage;
use rustix::process::{Pid, Signal, kill_process};

/// A schema of this test in the server for tests; nothing if the caller chose to go without
/// Postgres.
fn place(name: &str) -> Option<String> {
    if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
        println!("left out: LOPE_TEST_NO_POSTGRES is set");
        return None;
    }
    let url =
        std::env::var("LOPE_TEST_POSTGRES").expect("LOPE_TEST_POSTGRES: run `cargo xtask test`");
    Some(format!("{url}?schema=cli_{name}_{}", std::process::id()))
}

struct Home {
    folder: tempfile::TempDir,
    store: String,
}

impl Home {
    fn on(store: &str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            store: store.to_owned(),
        }
    }

    fn lope(&self, args: &[&str]) -> Told {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lope"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap());
        let output = command
            .env("HOME", self.folder.path())
            .env("LOPE_STORE", &self.store)
            .output()
            .unwrap();
        Told::from(output)
    }
}

/// Exit code, stdout, stderr.
#[derive(Debug)]
struct Told {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Told {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// Change the schema version of a store by hand.
fn set_version(store: &str, version: i64) {
    let (url, schema) = store.split_once("?schema=").unwrap();
    let programs = std::path::PathBuf::from(std::env::var_os("LOPE_TEST_POSTGRES_BIN").unwrap());
    let text = format!("update {schema}.meta set value = '{version}' where key = 'schema_version'");
    let status = Command::new(programs.join("psql"))
        .args(["--quiet", "--command", &text, url])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn the_store_is_made_checked_and_shown() {
    let Some(store) = place("upkeep") else { return };
    let home = Home::on(&store);
    let missing = home.lope(&["store", "check"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.err.contains("lope store migrate"), "{missing:?}");
    let planned = home.lope(&["store", "migrate", "--dry-run", "--json"]);
    assert!(
        planned.code == 0 && planned.out.contains("\"from\":0")
            || planned.out.contains("\"from\": 0"),
        "{planned:?}"
    );
    assert_eq!(
        home.lope(&["store", "check"]).code,
        1,
        "a plan makes nothing"
    );
    assert_eq!(home.lope(&["store", "migrate"]).code, 0);
    let again = home.lope(&["store", "migrate"]);
    assert!(
        again.code == 0 && again.out.contains("already"),
        "{again:?}"
    );
    let sound = home.lope(&["store", "check"]);
    assert!(
        sound.code == 0 && sound.out.contains("is sound"),
        "{sound:?}"
    );
    let schema = home.lope(&["store", "schema"]);
    assert!(
        schema.code == 0 && schema.out.contains("create table"),
        "{schema:?}"
    );
}

#[test]
fn another_version_is_refused_with_the_command_that_mends_it() {
    let Some(store) = place("version") else {
        return;
    };
    let home = Home::on(&store);
    assert_eq!(home.lope(&["store", "migrate"]).code, 0);
    let now: i64 = version_of(&home);
    for (found, hint) in [(now - 1, "lope store migrate"), (now + 1, "newer")] {
        set_version(&store, found);
        for words in [&["store", "check"][..], &["runs", "list"], &["up"]] {
            let refused = home.lope(words);
            assert_eq!(refused.code, 3, "{words:?}: {refused:?}");
            assert!(refused.err.contains(hint), "{words:?}: {refused:?}");
        }
    }
    for words in [
        &["store", "migrate"][..],
        &["store", "migrate", "--dry-run"],
    ] {
        let migrated = home.lope(words);
        assert_eq!(migrated.code, 3, "nobody migrates backwards: {migrated:?}");
        assert!(migrated.err.contains("newer"), "{words:?}: {migrated:?}");
    }
    set_version(&store, now);
    assert_eq!(home.lope(&["store", "check"]).code, 0);
}

fn version_of(home: &Home) -> i64 {
    let told = home.lope(&["store", "migrate", "--dry-run", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    json["to"].as_i64().unwrap()
}

#[test]
fn a_backup_is_refused_with_the_command_that_makes_one_and_it_does() {
    let Some(store) = place("backup") else { return };
    let home = Home::on(&store);
    assert_eq!(home.lope(&["store", "migrate"]).code, 0);
    let file = home.folder.path().join("copy.dump");
    let refused = home.lope(&["store", "backup", file.to_str().unwrap()]);
    assert_eq!(refused.code, 3, "{refused:?}");
    let command = refused.err.split_once("run: ").unwrap().1.trim();
    let programs = std::env::var("LOPE_TEST_POSTGRES_BIN").unwrap();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let made = Command::new("sh")
        .args(["-c", command])
        .env("PATH", path)
        .status()
        .unwrap();
    assert!(made.success(), "{command}");
    assert!(std::fs::metadata(&file).unwrap().len() > 1_000);
}

#[test]
fn a_server_that_is_not_there_is_out_of_reach_and_its_password_is_not_told() {
    let home = Home::on("postgres://me:secret@127.0.0.1:1/x");
    for words in [
        &["store", "check"][..],
        &["store", "migrate"],
        &["runs", "list"],
    ] {
        let told = home.lope(words);
        assert_eq!(told.code, 4, "{words:?}: {told:?}");
        assert!(
            told.err.contains("hint:") && !told.err.contains("secret"),
            "{words:?}: {told:?}"
        );
    }
    // A runner waits, and does not tell it either.
    let site = Site::at("postgres://me:secret@127.0.0.1:1/x".to_owned());
    let up = site.up();
    up.says("waiting for postgres");
    assert!(
        !std::fs::read_to_string(&up.words)
            .unwrap()
            .contains("secret")
    );
    up.ends();
}

#[test]
fn a_run_on_postgres_ends_and_is_found() {
    let Some(store) = place("run") else { return };
    let home = Home::on(&store);
    let file = home.folder.path().join("hello.yaml");
    std::fs::write(
        &file,
        "name: hello\nsteps: { say: { run: [echo, '${{ input }}'] } }",
    )
    .unwrap();
    let ran = home.lope(&[
        "run",
        file.to_str().unwrap(),
        "--input",
        "\"hi\"",
        "--key",
        "one",
    ]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "hi\n"), "{ran:?}");
    let listed = home.lope(&["runs", "list", "--json"]);
    assert!(
        listed.code == 0 && listed.out.contains("completed"),
        "{listed:?}"
    );
    assert_eq!(home.lope(&["store", "check"]).code, 0);
}

/// A command on a server of a test's own, and what it says while it works.
struct Site {
    home: stage::Home,
    url: String,
}

impl Site {
    fn at(url: String) -> Self {
        let home = stage::Home::new();
        Self { home, url }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("LOPE_STORE", &self.url);
        command
    }

    fn done(&self, args: &[&str]) -> stage::Said {
        stage::said(&mut self.command(args)).done()
    }

    fn up(&self) -> Up {
        let words = self.home.path().join("words");
        let mut command = self.command(&["up"]);
        command.stderr(std::fs::File::create(&words).unwrap());
        let child = command.spawn().unwrap();
        let watch = stage::Watch::over(&child);
        Up {
            child,
            words,
            _watch: watch,
        }
    }
}

struct Up {
    child: std::process::Child,
    words: std::path::PathBuf,
    _watch: stage::Watch,
}

impl Up {
    fn says(&self, word: &str) {
        let said = || std::fs::read_to_string(&self.words).unwrap();
        stage::until(word, || said().contains(word));
    }

    /// It ends well when it is asked to.
    fn ends(mut self) {
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

const SAYS: &str = "name: says\nsteps: { say: { run: [echo, hi] } }\n";

#[test]
fn a_runner_waits_for_its_server_and_for_its_database() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.down(Stop::Fast);
    let server = cluster.url();
    let (server, _) = server.rsplit_once('/').unwrap();
    let site = Site::at(format!("{server}/later"));
    let waits = site.up();
    waits.says("waiting for postgres");
    waits.ends();
    let up = site.up();
    up.says("waiting for postgres");
    cluster.up();
    up.says("\"later\" does not exist");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (client, _messages) = listening(&cluster.url()).await;
        client.batch_execute("create database later").await.unwrap();
    });
    up.says("works on");
    let file = site.home.file("says.yaml", SAYS);
    site.done(&["start", &file, "--key", "a"]);
    stage::until("it is worked on", || {
        let shown = site.done(&["runs", "show", "a", "--json"]);
        shown.json()["status"] == "completed"
    });
    up.ends();
}

/// What a killed runner held is free for the next one on its machine, however long its lease.
#[test]
fn nobody_waits_for_the_lease_of_a_runner_that_was_killed_on_the_same_machine() {
    let Some(url) = place("killed") else {
        return;
    };
    let site = Site::at(url);
    std::fs::create_dir_all(site.home.path().join(".lope")).unwrap();
    site.home
        .file(".lope/config.yaml", "engine: { lease: 1h }\n");
    let file = site.home.file("w.yaml", TWICE);
    let seen = || std::fs::read_to_string(site.home.path().join("seen")).unwrap_or_default();
    let mut first = site.up();
    first.says("works on");
    site.done(&["start", &file, "--key", "a"]);
    stage::until("it has begun", || seen() == "x\n");
    kill_process(Pid::from_child(&first.child), Signal::KILL).unwrap();
    first.child.wait().unwrap();
    let second = site.up();
    stage::until("it is done", || {
        let shown = site.done(&["runs", "show", "a", "--json"]);
        shown.json()["status"] == "completed"
    });
    assert_eq!(seen(), "x\nx\n");
    second.ends();
}

/// Hangs when it is tried for the first time.
const TWICE: &str = "name: twice\nsteps:\n  a: { run: \"echo x >> seen;                      [ $(wc -l < seen) -ge 2 ] || sleep 600\" }\n";

/// A connection and what it hears, each notification as it comes.
async fn listening(
    url: &str,
) -> (
    tokio_postgres::Client,
    tokio::sync::mpsc::UnboundedReceiver<String>,
) {
    let (client, mut wire) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    let (sender, heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| wire.poll_message(context)).await
        {
            if let tokio_postgres::AsyncMessage::Notification(heard) = message {
                // Nobody may be listening any more.
                let _ = sender.send(heard.payload().to_owned());
            }
        }
    });
    (client, heard)
}

/// Each command that gives a runner something to do has told the others when it ends, however soon
/// that is: it does not leave them to look for themselves.
#[test]
fn commands_that_end_at_once_have_notified_the_runners() {
    let Some(url) = place("notified") else {
        return;
    };
    let site = Site::at(url.clone());
    let waits = "name: waits\nsteps: { wait: { wait: go } }\n";
    let file = site.home.file("waits.yaml", waits);
    site.done(&["workflows", "deploy", &file]);
    let (server, schema) = url.split_once("?schema=").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (client, mut heard) = runtime.block_on(listening(server));
    let listen = format!("listen lope_{schema}; listen told");
    runtime.block_on(client.batch_execute(&listen)).unwrap();
    let told = |heard: &mut tokio::sync::mpsc::UnboundedReceiver<String>| {
        runtime
            .block_on(client.batch_execute("notify told, 'end'"))
            .unwrap();
        let mut told = Vec::new();
        // What was told before the mark was sent before the command ended.
        while let Some(payload) = heard.blocking_recv().filter(|payload| payload != "end") {
            told.push(payload);
        }
        told
    };
    told(&mut heard);
    for args in [
        ["start", "waits", "--key", "a"].as_slice(),
        &["runs", "signal", "a", "go"],
        &["runs", "cancel", "a"],
        &["mailbox", "send", "7", "--payload", "hello"],
    ] {
        site.done(args);
        let payloads = told(&mut heard);
        let door = if args[0] == "mailbox" { 't' } else { 'r' };
        let about = |payload: &String| {
            payload
                .split(' ')
                .next()
                .is_some_and(|it| it.contains(door))
        };
        assert!(payloads.iter().any(about), "{args:?}: {payloads:?}");
    }
    site.done(&["runs", "list"]);
    assert_eq!(told(&mut heard), Vec::<String>::new());
}

/// "Other commands end at once with exit code 4": a database that is not there is not an empty store.
#[test]
fn a_database_that_is_not_there_is_out_of_reach() {
    let Some(server) = fixture::server() else {
        return;
    };
    let (server, _) = server.rsplit_once('/').unwrap();
    let home = stage::Home::new();
    let asked: [&[&str]; 5] = [
        &["runs", "list"],
        &["runs", "show", "x"],
        &["schedules", "list"],
        &["workflows", "list"],
        &["store", "check"],
    ];
    for asked in asked {
        let mut command = home.command(asked);
        command.env("LOPE_STORE", format!("{server}/no_such_database"));
        let said = stage::said(&mut command);
        assert_eq!(said.code, 4, "{asked:?}: {said:?}");
        assert!(said.err.contains("does not exist"), "{asked:?}: {said:?}");
    }
}
