//! The sweeper, seen from outside: whatever end xtask comes to, what it started ends and what it
//! made is removed. The pipe is held by the tests themselves; the last test kills a real `xtask
//! with` beside a real Postgres server.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// Feeds a sweeper with orders, closes the pipe, waits until it has ended; whether it took the
/// orders.
fn sweep(orders: &[String]) -> bool {
    let mut command = Command::new(XTASK);
    command
        .arg("sweep-when-the-pipe-closes")
        .stdin(Stdio::piped())
        .stderr(Stdio::null());
    let mut sweeper = command.spawn().expect("the sweeper starts");
    let mut pipe = sweeper.stdin.take().expect("it has a pipe");
    for order in orders {
        writeln!(pipe, "{order}").expect("it takes orders");
    }
    drop(pipe);
    sweeper.wait().expect("it ends").success()
}

/// A shell that waits for a line that never comes, as long as the returned child's pipe is open.
fn waiting(script: &str, argument: &Path) -> Child {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .arg(argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn().expect("sh starts");
    let mut ready = String::new();
    BufReader::new(child.stdout.as_mut().expect("it has a pipe"))
        .read_line(&mut ready)
        .expect("it speaks");
    child
}

#[test]
fn groups_end_and_forgotten_ones_stay() {
    let script = "echo ready; read wait";
    let mut ours = waiting(script, Path::new("-"));
    let mut forgotten = waiting(script, Path::new("-"));
    let ids = [ours.id(), forgotten.id()];
    // The sweeper cannot see our own children end before we have asked for them, so somebody has to
    // ask.
    let asked = std::thread::spawn(move || ours.wait().expect("it ended"));
    assert!(sweep(&[
        format!("group {}", ids[0]),
        format!("group {}", ids[1]),
        format!("forget {}", ids[1])
    ]));
    assert!(!asked.join().expect("no panic").success());
    assert!(
        forgotten.try_wait().expect("it can be asked").is_none(),
        "nobody should have ended it"
    );
    drop(forgotten.stdin.take());
    forgotten.wait().expect("it ended");
}

#[test]
fn folders_are_removed_with_what_runs_on_them() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let [ours, other] = ["lope-test-1-a", "other"].map(|name| parent.path().join(name));
    for folder in [&ours, &other] {
        std::fs::create_dir(folder).expect("it is made");
    }
    std::fs::write(ours.join("file"), "text").expect("it is written");
    let mut server = waiting("echo ready; read wait", &ours);
    assert!(sweep(&[
        format!("folder {}", ours.display()),
        format!("folder {}", other.display())
    ]));
    assert!(!server.wait().expect("it ended").success());
    assert!(
        !ours.exists() && other.exists(),
        "only folders with our name are removed"
    );
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    assert!(!sweep(&["hello there".to_owned()]));
}

/// Whoever gives the orders may be killed before it could name what it just started.
#[cfg(target_os = "linux")]
#[test]
fn a_command_that_no_order_named_yet_ends_too() {
    let mark = format!("test-{}", std::process::id());
    let mut sleeper = Command::new("sleep");
    sleeper.arg("600").env("LOPE_XTASK_SWEEPER", &mark);
    let mut unnamed = sleeper.process_group(0).spawn().expect("sleep starts");
    let asked = std::thread::spawn(move || unnamed.wait().expect("it is our child"));
    assert!(sweep(&[format!("starting {mark}")]));
    let ended = asked.join().expect("no panic");
    assert!(!ended.success(), "{ended}");
}

#[test]
fn a_killed_command_leaves_no_server_behind() {
    if std::env::var_os("LOPE_TEST_NO_POSTGRES").is_some() {
        println!("left out: --no-postgres");
        return;
    }
    // Prints where the scratch folder is and waits; the pipes close when the last process of the
    // command has ended.
    let script = "echo $LOPE_TEST_POSTGRES_DIR; exec sleep 600";
    let mut command = Command::new(XTASK);
    command
        .args(["with", "sh", "-c", script])
        .stdout(Stdio::piped());
    let mut xtask = command.spawn().expect("xtask starts");
    let mut lines = BufReader::new(xtask.stdout.take().expect("it has a pipe"))
        .lines()
        .map_while(Result::ok);
    let scratch = lines
        .find(|line| line.ends_with("/scratch"))
        .expect("the command tells its folder");
    let folder = Path::new(&scratch).parent().expect("it is in our folder");
    let server =
        std::fs::read_to_string(folder.join("pgdata/postmaster.pid")).expect("the server runs");
    let server = server
        .lines()
        .next()
        .expect("its first line is its number")
        .to_owned();

    xtask.kill().expect("it can be killed");
    xtask.wait().expect("it ended");
    assert_eq!(
        lines.next(),
        None,
        "the pipe closes when the command and the sweeper have ended"
    );
    assert!(!folder.exists(), "the folder is gone");
    // A process that has ended keeps its number until somebody asks for it, but no command line.
    let script = format!("cat /proc/{server}/cmdline 2>/dev/null || ps -o args= -p {server}");
    let output = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("sh runs");
    let line = String::from_utf8_lossy(&output.stdout);
    assert!(
        !line.contains(&folder.display().to_string()),
        "the server is gone, but here is {line}"
    );
}
