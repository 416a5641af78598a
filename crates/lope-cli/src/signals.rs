//! Ctrl-C and TERM, heard from one moment on: none that comes while something else is done is lost.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{CliError, CliResult, Exit};

/// Whoever asks this program to stop.
#[derive(Debug)]
pub(crate) struct Stops {
    interrupt: Signal,
    terminate: Signal,
}

impl Stops {
    /// From now on.
    pub(crate) fn listen() -> CliResult<Self> {
        let on = |kind| signal(kind).map_err(|error| CliError::new(Exit::Bug, format!("no signals: {error}")));
        Ok(Self { interrupt: on(SignalKind::interrupt())?, terminate: on(SignalKind::terminate())? })
    }

    /// The next Ctrl-C or TERM.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
