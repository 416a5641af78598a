//! The small process between a runner and a tree: the parent of last resort of everything that the
//! tree starts, so that nothing gets out of sight.
//!
//! It is this executable, started again with one hidden argument. A command comes in on its
//! standard input and reports go out on it. When the tree's first process has ended, the rest is
//! ended; when the runner is gone, everything is killed at once. It ends when no process is left.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use super::cookie::{self, TreeCookie};
use super::identity;
use super::spawner::die_with_parent;
use super::start_limit::forward_nanos;
use super::sweep::KILL_LIMIT;
use super::wire::{SubreaperReport, TreeCommand, read_order, send};

/// How long what a process leaves behind may take to end when it is told to.
pub(super) const LEFTOVER_GRACE: Duration = Duration::from_millis(200);
/// How often it is looked again while processes end.
const POLL: Duration = Duration::from_millis(10);
/// Nothing has to be done until somebody says so.
const IDLE: Duration = Duration::from_secs(3_600);

/// Be a subreaper until the tree is gone.
pub(super) fn serve() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work())
}

async fn work() -> io::Result<()> {
    // A session of its own: what the terminal says to the runner is not said to the tree. It fails
    // where it is one already.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // Heard and left alone: the runner decides when the tree ends.
    let _unheeded = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ]
    .map(signal);
    let mut deaths = signal(SignalKind::child())?;
    let mut runner = control()?;
    let order = read_order(&mut runner).await?;
    if order.before.is_some_and(|before| forward_nanos() >= before) {
        return send(&mut runner, &SubreaperReport::TooLate).await;
    }
    let first = match start(&order.command) {
        Ok(child) => child.id(),
        Err(error) => {
            return send(&mut runner, &SubreaperReport::not_started(&error)).await;
        }
    };
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    let mut tree = ReapedTree::new(first);
    // A runner that is gone notices nothing, and is noticed below.
    let _ = send(&mut runner, &SubreaperReport::Started).await;
    let mut order = [0; 4];
    let mut is_owned = true;
    while tree.reap() {
        tokio::select! {
            _ = deaths.recv() => {}
            read = runner.read_exact(&mut order), if is_owned => match read {
                Ok(_) => tree.end_after(Duration::from_millis(u32::from_be_bytes(order).into())),
                Err(_) => {
                    is_owned = false;
                    tree.kill_group();
                    tree.end_after(Duration::ZERO);
                }
            },
            () = tokio::time::sleep(tree.pause()) => {}
        }
        tree.press();
    }
    let _ = send(&mut runner, &SubreaperReport::Ended(tree.status)).await;
    Ok(())
}

/// The connection to the runner, which nothing in the tree inherits.
fn control() -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    UnixStream::from_std(stream)
}

fn start(command: &TreeCommand) -> io::Result<Child> {
    let mut child = command.to_process()?;
    child
        .process_group(0)
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit());
    let cookie = std::env::var(cookie::SUBREAPER_VARIABLE).ok();
    let cookie = cookie.and_then(|text| TreeCookie::parse(&text));
    let cookie = cookie.ok_or_else(|| io::Error::other("it is not said whose tree this is"))?;
    die_with_parent(&mut child, cookie.mark());
    child.spawn()
}

/// The processes below this one.
struct ReapedTree {
    first: u32,
    /// How the first one ended, as the kernel says it.
    status: i32,
    kill_at: Option<Instant>,
    told: Vec<u32>,
}

impl ReapedTree {
    fn new(first: u32) -> Self {
        Self {
            first,
            // Until it has ended: one that is left behind was killed.
            status: Signal::KILL.as_raw(),
            kill_at: None,
            told: Vec::new(),
        }
    }

    /// Take in those that have ended; is anybody left?
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status)))
                    if pid.as_raw_nonzero().get().cast_unsigned() == self.first =>
                {
                    self.status = status.as_raw();
                    self.end_after(LEFTOVER_GRACE);
                }
                Ok(Some(_)) => {}
                Ok(None) => return !self.is_hopeless(),
                Err(_) => return false,
            }
        }
    }

    /// Those that cannot be killed (by a user that is not theirs) are left.
    fn is_hopeless(&self) -> bool {
        self.kill_at
            .is_some_and(|at| Instant::now() > at + KILL_LIMIT)
    }

    /// The first process and whoever stayed in its group, in one call: looking for the others takes
    /// a moment.
    fn kill_group(&self) {
        if let Some(first) = Pid::from_raw(self.first.cast_signed()) {
            let _ = kill_process_group(first, Signal::KILL);
        }
    }

    fn end_after(&mut self, grace: Duration) {
        let at = Instant::now() + grace;
        self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
    }

    fn pause(&self) -> Duration {
        if self.kill_at.is_some() { POLL } else { IDLE }
    }

    /// Tell those that shall end, once; kill them when their time is over.
    fn press(&mut self) {
        let Some(kill_at) = self.kill_at else { return };
        let killing = Instant::now() >= kill_at;
        for pid in descendants() {
            let signal = if killing { Signal::KILL } else { Signal::TERM };
            if killing || !self.told.contains(&pid) {
                self.told.push(pid);
                if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
                    // It may have ended meanwhile; only we can reap those, so no other has its
                    // number.
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

/// Everything below this process: whoever loses its parent becomes a child of ours.
fn descendants() -> Vec<u32> {
    let below = identity::descendants(std::process::id());
    below.into_iter().map(|(pid, _)| pid).collect()
}
