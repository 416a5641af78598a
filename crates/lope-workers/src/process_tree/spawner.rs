//! The thread that starts processes where there is no subreaper. It lives as long as the runner,
//! and every process it starts dies with it.
//!
//! The kernel sends a process its parent's death signal when the *thread* that started it ends;
//! threads of a pool come and go, so one thread of its own starts them all.

use std::io;
use std::os::unix::process::CommandExt;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::mark::TreeMark;

struct SpawnRequest {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

#[derive(Clone, Debug)]
pub(super) struct Spawner(mpsc::UnboundedSender<SpawnRequest>);

impl Spawner {
    /// The thread ends when the last clone is dropped.
    pub(super) fn begin(runtime: Handle) -> Self {
        let (sender, mut requests) = mpsc::unbounded_channel::<SpawnRequest>();
        let work = move || {
            let _inside = runtime.enter();
            while let Some(SpawnRequest { mut command, reply }) = requests.blocking_recv() {
                // Whoever asked may have been cancelled meanwhile; the child is then killed by its
                // drop.
                let _ = reply.send(command.spawn());
            }
        };
        std::thread::Builder::new()
            .name("lope-spawner".into())
            .spawn(work)
            .expect("the system gives us a thread");
        Self(sender)
    }

    pub(super) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the spawner has ended");
        self.0
            .send(SpawnRequest { command, reply })
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// The process is killed when the thread that starts it ends, and carries the mark of its tree.
#[allow(
    unsafe_code,
    reason = "the death signal can only be asked for between fork and exec"
)]
pub(super) fn die_with_parent(command: &mut std::process::Command, mark: TreeMark) {
    // SAFETY: the closure makes system calls and touches no memory of ours, which is what may be
    // done after a fork.
    unsafe {
        command.pre_exec(move || {
            mark.carry();
            let signal = Some(rustix::process::Signal::KILL);
            rustix::process::set_parent_process_death_signal(signal).map_err(io::Error::from)
        });
    }
}
