//! The thread that starts processes. It lives as long as the runner, and every process it starts dies with it.
//!
//! The kernel sends a process its parent's death signal when the *thread* that started it ends; threads of a pool come and
//! go, so one thread of its own starts them all.

use std::io;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

type Wish = (Command, oneshot::Sender<io::Result<Child>>);

#[derive(Clone, Debug)]
pub(crate) struct Spawner(mpsc::UnboundedSender<Wish>);

impl Spawner {
    /// The thread ends when the last clone is dropped.
    pub(crate) fn begin(runtime: Handle) -> Self {
        let (sender, mut wishes) = mpsc::unbounded_channel::<Wish>();
        let work = move || {
            let _inside = runtime.enter();
            while let Some((mut command, reply)) = wishes.blocking_recv() {
                // Whoever asked may have been cancelled meanwhile; the child is then killed by its drop.
                let _ = reply.send(start(&mut command));
            }
        };
        std::thread::Builder::new().name("lope-spawner".into()).spawn(work).expect("the system gives us a thread");
        Self(sender)
    }

    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the spawner has ended");
        self.0.send((command, reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

#[allow(unsafe_code, reason = "the death signal can only be asked for between fork and exec")]
fn start(command: &mut Command) -> io::Result<Child> {
    // SAFETY: the closure makes one system call and touches no memory of ours, which is what may be done after a fork.
    unsafe {
        command.pre_exec(|| {
            let signal = Some(rustix::process::Signal::KILL);
            rustix::process::set_parent_process_death_signal(signal).map_err(io::Error::from)
        });
    }
    command.spawn()
}
