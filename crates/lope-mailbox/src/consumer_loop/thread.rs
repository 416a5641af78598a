//! A consumer on a thread of its own: started here, joined here.

use std::thread::{Builder, JoinHandle};

use tokio::runtime::{self, Handle, Runtime, RuntimeFlavor};

use super::error::ConsumerLoopError;
use super::run::{Until, run_until};
use crate::consumer::Consumer;
use crate::error::ConsumerError;

type Ended = (Box<Consumer>, Result<(), ConsumerError>);

/// A thread that works.
#[derive(Debug)]
pub(super) struct ConsumerThread {
    thread: JoinHandle<Ended>,
}

/// What drives the loop's timers and sockets. The thread polls the loop itself.
enum Drive {
    Own(Runtime),
    /// The runtime that the caller stands in: the store's connections may live there.
    Outer(Handle),
}

impl ConsumerThread {
    pub(super) fn start(mut consumer: Box<Consumer>) -> Result<Self, ConsumerLoopError> {
        let drive = Drive::find().map_err(ConsumerLoopError::Thread)?;
        let name = format!("lope-worker-{}", consumer.config().worker);
        let thread = Builder::new().name(name).spawn(move || {
            let result = match drive {
                Drive::Own(own) => own.block_on(run_until(&mut consumer, Until::Stopped)),
                Drive::Outer(outer) => outer.block_on(run_until(&mut consumer, Until::Stopped)),
            };
            (consumer, result)
        });
        Ok(Self {
            thread: thread.map_err(ConsumerLoopError::Thread)?,
        })
    }

    pub(super) fn join(self) -> Result<Ended, ConsumerLoopError> {
        self.thread.join().map_err(|_| ConsumerLoopError::Panicked)
    }
}

impl Drive {
    /// A runtime of one thread stands still while that thread waits for us, so it is not used.
    fn find() -> std::io::Result<Self> {
        match Handle::try_current() {
            Ok(outer) if outer.runtime_flavor() != RuntimeFlavor::CurrentThread => {
                Ok(Self::Outer(outer))
            }
            Ok(_) | Err(_) => runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map(Self::Own),
        }
    }
}
