//! The one owner of process trees: what a step or a worker process starts is gone when it is.
//!
//! Every process of a tree carries a cookie in its environment, whose it is, and a mark that it keeps
//! when it clears that. Where the executable can supervise (`serve_if_asked`), a small process of its
//! own stands above each tree; whatever loses its parent becomes its child, and it kills all when the
//! runner dies. Elsewhere the first process dies with the runner. What is left then, or when somebody
//! has killed the supervisor, is found by its cookie or its mark, at the latest by the next runner on
//! the machine. How output is read and what an end means is not known here.

mod cookie;
mod identity;
mod mark;
mod spawner;
mod start_limit;
mod subreaper;
mod sweep;
mod wire;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use lope_engine::executor::{StartRight, Token};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::runtime::Handle;

pub(crate) use self::cookie::TreeCookie;
pub use self::cookie::{TREE_VARIABLE, TreeWork};
pub use self::identity::ProcessIdentity;
use self::spawner::{Spawner, die_with_parent};
use self::start_limit::TooLate;
use self::subreaper::LEFTOVER_GRACE;
use self::sweep::{KILL_LIMIT, Swept};
use self::wire::{ReportBuffer, StartOrder, SubreaperReport, send_order};
pub use self::wire::{TreeCommand, TreeOutput};

/// The argument with which an executable is asked to supervise a tree.
const SUBREAPER_ARGUMENT: &str = "__subreaper-of-process-tree";
/// What a subreaper needs of the environment, to be loaded at all.
const LOADER_PATH: &str = "LD_LIBRARY_PATH";
/// How long what earlier owners left may take to end when it is told to.
const SWEEP_GRACE: Duration = Duration::from_secs(1);

/// How long a subreaper may take longer than it was told, before its tree is ended without it.
const SUBREAPER_LATE: Duration = Duration::from_secs(2);
/// How often a tree is pressed that its subreaper does not end.
const PRESS_AGAIN: Duration = Duration::from_millis(50);
/// How often it is looked whether somebody has stopped a subreaper.
const STOPPED_POLL: Duration = Duration::from_secs(3);

/// Whether this executable answers when it is asked to supervise.
static CAN_REAP: OnceLock<()> = OnceLock::new();

/// What names this process among all that ever were.
pub fn own_mark() -> String {
    ProcessIdentity::own().to_string()
}

/// Is it certain that the process with this mark has ended?
pub fn is_gone(mark: &str) -> bool {
    ProcessIdentity::parse(mark).is_some_and(|process| process.is_gone())
}

/// Supervise a tree of processes, if that is what this program was started for; then it ends here.
/// A program that calls this first in its `main` leaves no process behind, however it dies.
pub fn serve_if_asked() {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == SUBREAPER_ARGUMENT)
    {
        std::process::exit(i32::from(!supervised()));
    }
    // Said twice is said once.
    let _ = CAN_REAP.set(());
}

/// Supervise until the tree is gone. A program may ask from inside a runtime (`#[tokio::main]`), where
/// no other one can begin: then on a thread of its own.
fn supervised() -> bool {
    if tokio::runtime::Handle::try_current().is_err() {
        return subreaper::serve().is_ok();
    }
    let served = std::thread::spawn(subreaper::serve).join();
    served.is_ok_and(|served| served.is_ok())
}

/// End what runners that are gone have left on this machine, and wait until it has ended.
pub async fn end_abandoned() {
    if let Err(error) = sweep::end(SWEEP_GRACE, Swept::Abandoned).await {
        tracing::warn!(%error, "a runner that is gone has left processes");
    }
}

/// Starts trees and answers for them.
#[derive(Clone, Debug)]
pub struct ProcessTrees {
    owner: Arc<ProcessIdentity>,
    spawner: Spawner,
    output: TreeOutput,
}

/// A tree of processes. Dropped, it is killed.
#[derive(Debug)]
pub struct ProcessTree {
    cookie: TreeCookie,
    child: Child,
    /// That of its first process, where nobody supervises it.
    group: Option<Pid>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
    subreaper: Option<SubreaperLink>,
    ended: Option<ExitStatus>,
}

/// What a tree has used of a processor so far: its first process, and what is below it.
#[derive(Clone, Copy, Debug)]
pub struct CpuMeter(Option<u32>);

impl CpuMeter {
    pub fn used(self) -> Duration {
        self.0.map_or(Duration::ZERO, identity::cpu_time)
    }
}

#[derive(Debug)]
struct SubreaperLink {
    stream: UnixStream,
    reports: ReportBuffer,
}

impl ProcessTrees {
    /// What runners that are gone have left on this machine is ended meanwhile.
    pub fn begin(runtime: &Handle) -> Self {
        runtime.spawn(end_abandoned());
        Self {
            owner: Arc::new(ProcessIdentity::own()),
            spawner: Spawner::begin(runtime.clone()),
            output: TreeOutput::default(),
        }
    }

    /// The output of its trees goes there.
    #[must_use]
    pub fn with_output(mut self, output: TreeOutput) -> Self {
        self.output = output;
        self
    }

    /// Start the tree of an attempt, when nothing is left of earlier ones. Its `right` to begin is
    /// asked for at the last moment.
    pub(crate) async fn start_attempt(
        &self,
        token: &Token,
        command: TreeCommand,
        right: impl Fn() -> StartRight,
    ) -> io::Result<ProcessTree> {
        self.start_after_earlier(TreeCookie::of_attempt(&self.owner, token), command, right)
            .await
    }

    /// Start the tree of other work, when nothing is left of what came before it.
    pub async fn start_work(
        &self,
        work: &TreeWork,
        command: TreeCommand,
        right: impl Fn() -> StartRight,
    ) -> io::Result<ProcessTree> {
        self.start_after_earlier(TreeCookie::of_work(&self.owner, work), command, right)
            .await
    }

    async fn start_after_earlier(
        &self,
        cookie: TreeCookie,
        command: TreeCommand,
        right: impl Fn() -> StartRight,
    ) -> io::Result<ProcessTree> {
        // A later owner may have it by now: what is before ours is then not ours to end.
        if right().is_over() {
            return Err(too_late());
        }
        if !cookie.is_first() {
            sweep::end(SWEEP_GRACE, Swept::Before(&cookie)).await?;
        }
        self.start(cookie, command, right).await
    }

    pub(crate) async fn start_worker(
        &self,
        worker: u64,
        command: TreeCommand,
    ) -> io::Result<ProcessTree> {
        let cookie = TreeCookie::of_worker(&self.owner, worker);
        self.start(cookie, command, || StartRight::Always).await
    }

    async fn start(
        &self,
        cookie: TreeCookie,
        mut command: TreeCommand,
        right: impl Fn() -> StartRight,
    ) -> io::Result<ProcessTree> {
        let carried = OsString::from(cookie.to_string());
        command.environment.push((TREE_VARIABLE.into(), carried));
        if CAN_REAP.get().is_some() {
            let process = subreaper_process(&cookie, self.output);
            ProcessTree::under_subreaper(cookie, process, command, right).await
        } else if right().is_over() {
            Err(too_late())
        } else {
            self.start_alone(cookie, &command).await
        }
    }

    async fn start_alone(
        &self,
        cookie: TreeCookie,
        command: &TreeCommand,
    ) -> io::Result<ProcessTree> {
        let mut process = command.to_process()?;
        die_with_parent(&mut process, cookie.mark());
        let mut process = Command::from(process);
        let (stdout, stderr) = self.output.streams();
        process
            .process_group(0)
            .kill_on_drop(true)
            .stdout(stdout)
            .stderr(stderr);
        let child = self.spawner.spawn(process).await?;
        Ok(ProcessTree::new(cookie, child, None))
    }
}

impl ProcessTree {
    fn new(cookie: TreeCookie, mut child: Child, subreaper: Option<SubreaperLink>) -> Self {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let id = child.id().filter(|_| subreaper.is_none());
        Self {
            cookie,
            child,
            group: id.and_then(|id| Pid::from_raw(id.cast_signed())),
            stdout,
            stderr,
            subreaper,
            ended: None,
        }
    }

    async fn under_subreaper(
        cookie: TreeCookie,
        mut subreaper: Command,
        command: TreeCommand,
        right: impl Fn() -> StartRight,
    ) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = subreaper.stdin(OwnedFd::from(theirs)).spawn()?;
        // Its descriptor of their end goes with it, so that the end of the subreaper is heard.
        drop(subreaper);
        let mut link = SubreaperLink {
            stream: UnixStream::from_std(ours)?,
            reports: ReportBuffer::default(),
        };
        let before = start_limit::limit(right()).map_err(|TooLate| too_late())?;
        send_order(&mut link.stream, &StartOrder { command, before }).await?;
        // What it starts may stop it before it could say so.
        match link.next_of(child.id(), PRESS_AGAIN).await? {
            Some(SubreaperReport::Started) => Ok(Self::new(cookie, child, Some(link))),
            Some(SubreaperReport::NotStarted { code, message }) => Err(match code {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::other(message),
            }),
            Some(SubreaperReport::TooLate) => Err(too_late()),
            Some(SubreaperReport::Ended(_)) | None => Err(subreaper_lost()),
        }
    }

    /// Measures what the tree uses of a processor, while it is waited for.
    pub fn cpu_meter(&self) -> CpuMeter {
        CpuMeter(self.child.id())
    }

    /// How its first process ended, when nothing of the tree is left.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let Some(link) = &mut self.subreaper else {
            let status = self.child.wait().await?;
            self.end_rest(LEFTOVER_GRACE).await;
            self.ended = Some(status);
            return Ok(status);
        };
        let report = link.next_of(self.child.id(), STOPPED_POLL).await;
        if let Ok(Some(SubreaperReport::Ended(status))) = report {
            self.ended = Some(ExitStatus::from_raw(status));
            // It has said its last word; its number is free when it was waited for.
            let _ = self.child.wait().await;
            return Ok(ExitStatus::from_raw(status));
        }
        // Somebody has killed the subreaper; what it had in its sight is found by cookie and mark.
        self.end_rest(Duration::ZERO).await;
        Err(subreaper_lost())
    }

    /// Tell all to end, kill those that have not after a while, until none is left.
    pub async fn stop(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        if let Some(link) = &mut self.subreaper {
            let millis = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
            // One that is gone is noticed by the wait.
            let _ = link.stream.write_all(&millis.to_be_bytes()).await;
            let ended = tokio::time::timeout(grace + SUBREAPER_LATE, self.wait()).await;
            return match ended {
                Ok(ended) => ended,
                Err(_) => self.end_without_subreaper().await,
            };
        }
        self.signal_group(Signal::TERM);
        if tokio::time::timeout(grace, self.child.wait())
            .await
            .is_err()
        {
            self.signal_group(Signal::KILL);
        }
        self.wait().await
    }

    /// Somebody has stopped the subreaper, or it has no time. What is below it is killed from here;
    /// it goes on when nobody is left who would stop it again.
    async fn end_without_subreaper(&mut self) -> io::Result<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < KILL_LIMIT {
            let below = self.child.id().map_or_else(Vec::new, identity::descendants);
            for (pid, stat) in below {
                // It may have ended meanwhile, or be another user's.
                let _ = ProcessIdentity::of(pid, stat).kill();
            }
            continue_stopped(self.child.id());
            if let Ok(ended) = tokio::time::timeout(PRESS_AGAIN, self.wait()).await {
                return ended;
            }
        }
        self.end_rest(Duration::ZERO).await;
        Err(subreaper_lost())
    }

    async fn end_rest(&mut self, grace: Duration) {
        if let Err(error) = sweep::end(grace, Swept::Own(&self.cookie)).await {
            let (work, attempt) = self.cookie.of();
            tracing::error!(%work, attempt, %error, "a step has ended and its processes have not");
        }
        self.signal_group(Signal::KILL);
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is gone is what we want.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if let Some(id) = self.child.id() {
            self.signal_group(Signal::KILL);
            // A subreaper notices that its connection ends, if nobody has stopped it.
            continue_stopped(Some(id).filter(|_| self.subreaper.is_some()));
        }
    }
}

impl SubreaperLink {
    /// What the subreaper says next; if somebody has stopped it, it goes on.
    async fn next_of(
        &mut self,
        subreaper: Option<u32>,
        poll: Duration,
    ) -> io::Result<Option<SubreaperReport>> {
        loop {
            tokio::select! {
                report = self.reports.next(&mut self.stream) => return report,
                () = tokio::time::sleep(poll) => continue_stopped(subreaper),
            }
        }
    }
}

/// This executable again, also when its file was replaced meanwhile.
fn subreaper_process(cookie: &TreeCookie, output: TreeOutput) -> Command {
    let (stdout, stderr) = output.streams();
    let mut process = Command::new("/proc/self/exe");
    process
        .arg0("lope-process-tree")
        .arg(SUBREAPER_ARGUMENT)
        .env_clear()
        .env(cookie::SUBREAPER_VARIABLE, cookie.to_string())
        .stdout(stdout)
        .stderr(stderr);
    if let Some(path) = std::env::var_os(LOADER_PATH) {
        process.env(LOADER_PATH, path);
    }
    process
}

/// Let a child of ours that was stopped go on.
fn continue_stopped(child: Option<u32>) {
    let stopped = child.filter(|id| identity::stat(*id).is_some_and(|stat| stat.is_stopped));
    if let Some(pid) = stopped.and_then(|id| Pid::from_raw(id.cast_signed())) {
        // Its number is nobody else's while we have not waited for it.
        let _ = kill_process(pid, Signal::CONT);
    }
}

fn subreaper_lost() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the process that supervised it was killed",
    )
}

fn too_late() -> io::Error {
    io::Error::other(TooLate)
}

/// Was a tree not started because its time to begin was over?
pub fn is_too_late(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner
        .and_then(|inner| inner.downcast_ref::<TooLate>())
        .is_some()
}

/// Is nothing known of a tree because somebody killed its subreaper?
pub fn is_subreaper_lost(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionAborted
}
