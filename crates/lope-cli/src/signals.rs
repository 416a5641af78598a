//! Ctrl-C and TERM, heard from one moment on: none that comes while something else is done is lost.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{CliError, CliResult, Exit};

/// What a program says that was asked to stop and waits for what is at work.
pub(crate) const STOPPING: &str = "finishing what is in flight; once more to stop at once";

/// How this program was asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StopRequest {
    /// By somebody at the terminal, who may ask again.
    Interrupt,
    /// By a machine, which asks once and kills later.
    Terminate,
}

/// Whoever asks this program to stop.
#[derive(Debug)]
pub(crate) struct Stops {
    interrupt: Signal,
    terminate: Signal,
}

impl Stops {
    /// From now on.
    pub(crate) fn listen() -> CliResult<Self> {
        let on = |kind| {
            signal(kind).map_err(|error| CliError::new(Exit::Bug, format!("no signals: {error}")))
        };
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
        })
    }

    /// The next Ctrl-C or TERM.
    pub(crate) async fn asked(&mut self) -> StopRequest {
        tokio::select! {
            _ = self.interrupt.recv() => StopRequest::Interrupt,
            _ = self.terminate.recv() => StopRequest::Terminate,
        }
    }
}
