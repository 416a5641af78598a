//! A worker on a thread of its own: started here, joined here.

use std::thread::{Builder, JoinHandle};

use tokio::runtime::{self, Handle, Runtime, RuntimeFlavor};

use super::error::WorkerError;
use super::shift::{Until, work};
use crate::error::RunnerError;
use crate::runner::Runner;

type Ended = (Box<Runner>, Result<(), RunnerError>);

/// A thread that works.
#[derive(Debug)]
pub(super) struct Running {
    thread: JoinHandle<Ended>,
}

/// What drives the loop's timers and sockets. The thread polls the loop itself.
enum Drive {
    Own(Runtime),
    /// The runtime that the caller stands in: the store's connections may live there.
    Outer(Handle),
}

impl Running {
    pub(super) fn start(mut runner: Box<Runner>) -> Result<Self, WorkerError> {
        let drive = Drive::find().map_err(WorkerError::Thread)?;
        let name = format!("lope-worker-{}", runner.config().worker);
        let thread = Builder::new().name(name).spawn(move || {
            let result = match drive {
                Drive::Own(own) => own.block_on(work(&mut runner, Until::Stopped)),
                Drive::Outer(outer) => outer.block_on(work(&mut runner, Until::Stopped)),
            };
            (runner, result)
        });
        Ok(Self { thread: thread.map_err(WorkerError::Thread)? })
    }

    pub(super) fn join(self) -> Result<Ended, WorkerError> {
        self.thread.join().map_err(|_| WorkerError::Panicked)
    }
}

impl Drive {
    /// A runtime of one thread stands still while that thread waits for us, so it is not used.
    fn find() -> std::io::Result<Self> {
        match Handle::try_current() {
            Ok(outer) if outer.runtime_flavor() != RuntimeFlavor::CurrentThread => Ok(Self::Outer(outer)),
            Ok(_) | Err(_) => runtime::Builder::new_current_thread().enable_all().build().map(Self::Own),
        }
    }
}
