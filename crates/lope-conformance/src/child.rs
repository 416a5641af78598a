//! Test binaries that start themselves again as other processes: how a child learns its role, and
//! the lines in which it reports.
//!
//! A backend calls [`child_entry`] first thing in a test binary without harness (or in a test that
//! the child is told to run alone); a process that was not started as a child goes on.

use std::env;
use std::fmt;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use lope_store::store::Store;

/// A store on its way.
pub type Opening = Pin<Box<dyn Future<Output = Store> + Send>>;
/// How a backend opens a store by its URL, in any process.
pub type OpenStore = fn(String) -> Opening;

const ROLE: &str = "LOPE_CONFORMANCE_ROLE";
const URL: &str = "LOPE_CONFORMANCE_URL";
const INDEX: &str = "LOPE_CONFORMANCE_INDEX";
/// Marks lines of ours among what a test harness prints.
const MARK: char = '@';
/// A child that says nothing for longer than this hangs.
const PATIENCE: Duration = Duration::from_mins(2);

/// What a child process is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChildRole {
    /// One of several that share a store.
    Worker,
    /// Writes until it is killed.
    Writer,
}

/// What a child was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ChildOrder {
    pub(super) role: ChildRole,
    pub(super) url: String,
    pub(super) index: usize,
}

/// A child, seen from its parent: killed when it is dropped.
pub(super) struct Child {
    process: Process,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl ChildRole {
    fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Writer => "writer",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Worker, Self::Writer]
            .into_iter()
            .find(|role| role.as_str() == text)
    }
}

/// What this process was told, if it was started as a child.
pub(super) fn order() -> Option<ChildOrder> {
    let role = ChildRole::parse(&env::var(ROLE).ok()?)
        .expect("a parent of the same program chose the role");
    let url = env::var(URL).expect("a child is told the store's URL");
    let index = env::var(INDEX)
        .expect("a child is told its index")
        .parse()
        .expect("a number");
    Some(ChildOrder { role, url, index })
}

/// Say a line to the parent.
pub(super) fn say(line: impl fmt::Display) {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{MARK}{line}").and_then(|()| out.flush());
    said.expect("the parent listens");
}

/// Wait until the parent lets the child begin.
pub(super) fn wait_for_parent() {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .expect("the parent is there");
}

/// This very program, even when a build has replaced its file meanwhile.
fn this_program() -> PathBuf {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        running
    } else {
        env::current_exe().expect("this program has a path")
    }
}

impl Child {
    /// Start this program again. `args` lead its own command line to `child_entry`.
    pub(super) fn start(order: &ChildOrder, args: &[&str]) -> Self {
        let mut process = Command::new(this_program())
            .args(args)
            .env(ROLE, order.role.as_str())
            .env(URL, &order.url)
            .env(INDEX, order.index.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let (stdin, stdout) = (
            process.stdin.take(),
            process.stdout.take().expect("it is piped"),
        );
        let (send, lines) = channel();
        // Ends with the pipe, which ends with the child.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Some((_, said)) = line.split_once(MARK) else {
                    continue;
                };
                if send.send(said.to_owned()).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            stdin,
            lines,
        }
    }

    /// Let the child begin.
    pub(super) fn go(&mut self) {
        let mut stdin = self.stdin.take().expect("a child begins once");
        writeln!(stdin, "go").expect("the child listens");
    }

    /// What the child says next; nothing when it has ended.
    pub(super) fn hear(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                panic!("a child said nothing for {PATIENCE:?}")
            }
        }
    }

    /// Everything the child says until it ends, which must be well.
    pub(super) fn hear_out(mut self) -> Vec<String> {
        let lines: Vec<String> = std::iter::from_fn(|| self.hear()).collect();
        let status = self.process.wait().expect("a child can be waited for");
        assert!(
            status.success(),
            "a child ended with {status}; it said {:?}",
            lines.last()
        );
        lines
    }

    /// Kill the child where it stands (SIGKILL), and hear what it had said.
    pub(super) fn kill(mut self) -> Vec<String> {
        self.process.kill().expect("a child can be killed");
        std::iter::from_fn(|| self.hear()).collect()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail only when the child has ended and was waited for.
        let _ended = self.process.kill();
        let _waited = self.process.wait();
    }
}
