//! A program that handles messages: the payload on its standard input, exit status 0 when it is
//! handled.
//!
//! Status 65 (`EX_DATAERR`) says that the message will never be handled: it becomes a dead letter
//! at once. Any other status, or a signal, is a failure that may pass: the message is tried again
//! within the budget. A program that cannot be started is not the message's fault: the worker
//! stops. It is a process tree as a `run` step's is: it inherits what is named, what it started is
//! gone when the message is handled, when its time is up, and when its worker loses the lease or
//! dies.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::process::ExitStatus;
use std::time::Duration;

use async_trait::async_trait;
use lope_engine::executor::StartRight;
use lope_mailbox::frame::Message;
use lope_mailbox::key::MessagePosition;
use lope_mailbox::{Context, Handled, Handler, HandlerError};
use lope_model::{Digest, Span};
use tokio::runtime::Handle;

use crate::environment::InheritedEnvironment;
use crate::process_tree::{ProcessTree, ProcessTrees, TreeCommand, TreeOutput, TreeWork};

/// The status of a program that will never handle a message.
pub const NEVER_STATUS: i32 = 65;
/// How long a program that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a program for each message. What it is about is in its environment: `LOPE_MESSAGE_ID`,
/// `LOPE_MESSAGE_KIND`, `LOPE_WORKER`, `LOPE_FROM_WORKER`, `LOPE_ATTEMPT`.
#[derive(Debug, Clone)]
pub struct ProcessHandler {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Longest time for one message.
    pub timeout: Option<Span>,
    /// What the program inherits.
    pub environment: InheritedEnvironment,
    /// The store's name: a message of the same id in another one is another message.
    pub store: String,
    trees: ProcessTrees,
}

impl ProcessHandler {
    /// The program's output goes where the worker's does.
    pub fn new(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = OsString>,
        runtime: &Handle,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().collect(),
            timeout: None,
            environment: InheritedEnvironment::default(),
            store: String::new(),
            trees: ProcessTrees::begin(runtime).with_output(TreeOutput::Inherited),
        }
    }

    /// The program's output goes there.
    #[must_use]
    pub fn with_output(mut self, output: TreeOutput) -> Self {
        self.trees = self.trees.with_output(output);
        self
    }

    async fn start(
        &self,
        context: &Context,
        message: &Message<'_>,
    ) -> Result<ProcessTree, HandlerError> {
        let about = context.about();
        // Messages may have the same id; where one stands is its own, over all its attempts.
        let position = about.position.map(MessagePosition::to_bytes);
        let digest = Digest::of_parts(&[
            self.store.as_bytes(),
            &about.worker.to_bytes(),
            &position.unwrap_or_default(),
            message.id,
        ]);
        let work = TreeWork {
            name: format!("message/{digest}"),
            attempt: about.attempt,
            epoch: 1,
        };
        let command = self.command(context, message);
        self.trees
            .start_work(&work, command, || StartRight::Always)
            .await
            .map_err(|error| self.unstartable(&error))
    }

    fn command(&self, context: &Context, message: &Message<'_>) -> TreeCommand {
        let about = context.about();
        let id = String::from_utf8_lossy(message.id).replace('\0', "\u{fffd}");
        let from = message.from_worker.map(|from| from.to_string());
        let own = [
            ("LOPE_MESSAGE_ID", id),
            ("LOPE_MESSAGE_KIND", message.kind.name().to_owned()),
            ("LOPE_WORKER", about.worker.to_string()),
            ("LOPE_ATTEMPT", about.attempt.to_string()),
            ("LOPE_FROM_WORKER", from.unwrap_or_default()),
        ];
        let mut environment = self.environment.for_processes();
        environment.extend(own.map(|(name, value)| (name.into(), value.into())));
        TreeCommand {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            environment,
            folder: None,
            input: Some(message.payload.to_vec()),
        }
    }

    fn unstartable(&self, error: &io::Error) -> HandlerError {
        let text = format!("'{}' cannot be started: {error}", self.program.display());
        match error.kind() {
            // No room or no memory, somebody killed what stands above it, or what an earlier
            // attempt started cannot be ended.
            ErrorKind::WouldBlock
            | ErrorKind::OutOfMemory
            | ErrorKind::Interrupted
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::Other => HandlerError::Busy(text),
            _ => HandlerError::Unfit(text),
        }
    }

    /// Nothing if its time is up.
    async fn ended(&self, tree: &mut ProcessTree) -> Option<io::Result<ExitStatus>> {
        let Some(timeout) = self.timeout else {
            return Some(tree.wait().await);
        };
        let ended = tokio::time::timeout(timeout.to_duration(), tree.wait()).await;
        if ended.is_err()
            && let Err(error) = tree.stop(GRACE).await
        {
            tracing::warn!(%error, "a program was stopped, and how it ended is not known");
        }
        ended.ok()
    }
}

#[async_trait]
impl Handler for ProcessHandler {
    async fn handle(&self, context: &mut Context, message: &Message<'_>) -> Handled {
        let mut tree = self.start(context, message).await?;
        match self.ended(&mut tree).await {
            Some(Ok(status)) if status.success() => Ok(()),
            Some(Ok(status)) if status.code() == Some(NEVER_STATUS) => {
                Err(HandlerError::Failed(status.to_string()))
            }
            Some(Ok(status)) => Err(HandlerError::Busy(status.to_string())),
            Some(Err(error)) => Err(HandlerError::Busy(error.to_string())),
            None => Err(HandlerError::Busy(format!(
                "the program took longer than {}",
                self.timeout.unwrap_or_default()
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
