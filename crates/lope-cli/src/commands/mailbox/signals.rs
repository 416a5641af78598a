//! Ctrl-C and TERM, heard from the moment this is made on.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{CliError, CliResult, Exit};

pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn listen() -> CliResult<Self> {
        let listen = |kind| signal(kind).map_err(|error| CliError::new(Exit::Bug, format!("no signals: {error}")));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Returns when somebody asks for a stop. Every call waits for the next time.
    pub(super) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
