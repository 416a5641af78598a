//! A program that handles messages: the payload on its standard input, exit status 0 when it is
//! handled.
//!
//! Status 65 (`EX_DATAERR`) says that the message will never be handled: it becomes a dead letter
//! at once. Any other status, or a signal, is a failure that may pass: the message is tried again
//! within the budget. A program that cannot be started is not the message's fault: the worker
//! stops. The program's process group is killed when its worker loses the lease or the time is up.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::process::{ExitStatus, Stdio};

use async_trait::async_trait;
use lope_model::Span;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::context::Context;
use crate::error::HandlerError;
use crate::frame::Message;
use crate::handler::{Handled, Handler};

/// The status of a program that will never handle a message.
pub const NEVER: i32 = 65;

/// Runs a program for each message. What it is about is in its environment: `LOPE_MESSAGE_ID`,
/// `LOPE_MESSAGE_KIND`, `LOPE_WORKER`, `LOPE_FROM_WORKER`, `LOPE_ATTEMPT`.
#[derive(Debug, Clone)]
pub struct ProcessHandler {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Longest time for one message.
    pub timeout: Option<Span>,
    /// Where the program's standard output goes.
    pub output: HandlerOutput,
}

/// What becomes of a program's standard output. Its error output always goes where the worker's
/// does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HandlerOutput {
    /// To the worker's own.
    #[default]
    Inherit,
    /// To the worker's error output.
    ToErrors,
    /// Nowhere.
    Discard,
}

/// A running program; its whole group is killed when this is dropped before it has ended.
struct ProcessGroup {
    child: Child,
    group: Option<Pid>,
}

impl ProcessHandler {
    pub fn new(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Self {
        let arguments = arguments.into_iter().collect();
        Self {
            program: program.into(),
            arguments,
            timeout: None,
            output: HandlerOutput::default(),
        }
    }

    fn start(
        &self,
        context: &Context,
        message: &Message<'_>,
    ) -> Result<ProcessGroup, HandlerError> {
        let about = context.about();
        let mut command = Command::new(&self.program);
        let input = input(message.payload).map_err(|error| {
            HandlerError::Busy(format!("there is no room for the program's input: {error}"))
        })?;
        command
            .args(&self.arguments)
            .stdin(input)
            .process_group(0)
            .kill_on_drop(true);
        command.stdout(match self.output {
            HandlerOutput::Inherit => Stdio::inherit(),
            HandlerOutput::ToErrors => Stdio::from(std::io::stderr()),
            HandlerOutput::Discard => Stdio::null(),
        });
        command.env(
            "LOPE_MESSAGE_ID",
            String::from_utf8_lossy(message.id).replace('\0', "\u{fffd}"),
        );
        command.env("LOPE_MESSAGE_KIND", message.kind.name());
        command.env("LOPE_WORKER", about.worker.to_string());
        command.env("LOPE_ATTEMPT", about.attempt.to_string());
        command.env(
            "LOPE_FROM_WORKER",
            message
                .from_worker
                .map(|from| from.to_string())
                .unwrap_or_default(),
        );
        let child = command.spawn().map_err(|error| self.unstartable(&error))?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        Ok(ProcessGroup { child, group })
    }

    fn unstartable(&self, error: &std::io::Error) -> HandlerError {
        let text = format!("'{}' cannot be started: {error}", self.program.display());
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::OutOfMemory | ErrorKind::Interrupted => {
                HandlerError::Busy(text)
            }
            _ => HandlerError::Unfit(text),
        }
    }
}

impl ProcessGroup {
    async fn run(&mut self) -> io::Result<ExitStatus> {
        let ended = self.child.wait().await;
        if ended.is_ok() {
            self.group = None;
        }
        ended
    }
}

/// The payload lies there as a whole, in a file without a name, before the program begins. From a
/// pipe, a program whose worker is killed would read the first part and an end, and take it for all
/// of it.
fn input(payload: &[u8]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(payload)?;
    file.rewind()?;
    Ok(file)
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // It may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[async_trait]
impl Handler for ProcessHandler {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        let mut group = self.start(context, message)?;
        let status = match self.timeout {
            None => group.run().await,
            Some(timeout) => match tokio::time::timeout(timeout.to_duration(), group.run()).await {
                Ok(status) => status,
                Err(_) => {
                    return Err(HandlerError::Busy(format!(
                        "the program took longer than {timeout}"
                    )));
                }
            },
        };
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) if status.code() == Some(NEVER) => {
                Err(HandlerError::Failed(status.to_string()))
            }
            Ok(status) => Err(HandlerError::Busy(status.to_string())),
            Err(error) => Err(HandlerError::Busy(error.to_string())),
        }
    }
}
