//! `lope mailbox …`: messages, timers and dead letters of workers, and workers whose messages a
//! program or a workflow handles.

mod counting;
mod listing;
mod mending;
mod owner;
mod python;
mod send;
mod show;
mod watching;
mod work;

use clap::{Args, Subcommand};
use lope::Client;
use lope::mailbox::key::WorkerId;
use lope::mailbox::{BootError, Mailbox, MailboxError};
use lope::reactive::{SpaceName, worker_of};
use lope::stores::CreateStore;

use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum MailboxCommand {
    /// Put a message into a worker's inbox, now or at a time
    Send(send::SendArgs),
    /// List the messages in a worker's inbox, oldest first
    List(Page),
    /// List a worker's timers, earliest first
    Timers(listing::TimersArgs),
    /// List a worker's dead letters, oldest first
    Dead(Page),
    /// Put a dead letter, or all of them, at the end of the inbox again
    Replay(mending::ReplayArgs),
    /// Take a dead letter away for good; or a message, or a timer
    Drop(mending::DropArgs),
    /// Count what is in the inboxes, timers and dead letters
    Stats(counting::StatsArgs),
    /// Handle a worker's messages: with a program, or with a workflow run each
    Work(work::WorkArgs),
}

/// A page of a worker's messages.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// Whose: a number, or the name of a reactive space
    #[arg(allow_negative_numbers = true, value_parser = worker)]
    worker: WorkerId,
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Begin behind this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
}

/// A worker by its number; the events of a reactive space wait for one that has the space's name.
fn worker(text: &str) -> Result<WorkerId, String> {
    if text.parse::<i64>().is_ok() {
        return text.parse().map_err(|error| format!("{error}"));
    }
    let space = text.parse::<SpaceName>();
    let space = space.map_err(|error| format!("no number of a worker, nor a space: {error}"))?;
    Ok(worker_of(&space))
}

/// A store with its mailboxes.
struct OpenMailbox {
    client: Client,
    mailbox: Mailbox,
}

impl OpenMailbox {
    async fn open(settings: &Settings) -> CliResult<Self> {
        Self::of(open(settings).await?).await
    }

    async fn of(client: Client) -> CliResult<Self> {
        let mailbox = client.mailbox().await?;
        Ok(Self { client, mailbox })
    }
}

async fn open(settings: &Settings) -> CliResult<Client> {
    settings
        .open_lasting("every message", CreateStore::IfMissing)
        .await
}

pub(crate) async fn run(
    command: MailboxCommand,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    // What is wrong with the arguments is said before a store is opened or made.
    let command = match command {
        MailboxCommand::Send(args) => {
            let message = send::read(args)?;
            let opened = OpenMailbox::open(settings).await?;
            let exit = send::run(&message, &opened, output).await;
            return closed(&opened, exit).await;
        }
        MailboxCommand::Work(args) => return work::run(args, settings, output).await,
        other => other,
    };
    let opened = OpenMailbox::of(settings.open_to_look("every message").await?).await?;
    let exit = match command {
        MailboxCommand::List(page) => listing::messages(&page, &opened, output).await,
        MailboxCommand::Timers(args) => listing::timers(&args, &opened, output).await,
        MailboxCommand::Dead(page) => listing::dead(&page, &opened, output).await,
        MailboxCommand::Replay(args) => mending::replay(&args, &opened, output).await,
        MailboxCommand::Drop(args) => mending::drop(&args, &opened, output).await,
        MailboxCommand::Stats(args) => counting::stats(&args, &opened, output).await,
        MailboxCommand::Send(_) | MailboxCommand::Work(_) => Ok(Exit::Done),
    };
    closed(&opened, exit).await
}

async fn closed(opened: &OpenMailbox, exit: CliResult<Exit>) -> CliResult<Exit> {
    let closed = opened.client.close().await;
    let exit = exit?;
    closed?;
    Ok(exit)
}

impl From<BootError> for CliError {
    fn from(error: BootError) -> Self {
        match error {
            BootError::Store(error) => error.into(),
            BootError::Manifest(_) | BootError::NotFound | BootError::Conflict { .. } => {
                let hint = "the tables were made by another version of Lope; 'lope store check' tells more";
                Self::new(Exit::Refused, error.to_string()).hint(hint)
            }
        }
    }
}

impl From<MailboxError> for CliError {
    fn from(error: MailboxError) -> Self {
        match error {
            MailboxError::Store(error) => error.into(),
            MailboxError::Message(_) => Self::usage(error.to_string()),
            MailboxError::Exists { .. } => Self::new(Exit::Refused, error.to_string()),
            MailboxError::Changed => {
                Self::new(Exit::Refused, error.to_string()).hint("look again, then repeat")
            }
            MailboxError::NotFound { what, worker, .. } => {
                let verb = match what {
                    "dead letter" => "dead",
                    "timer" => "timers",
                    _ => "list",
                };
                let hint = format!("'lope mailbox {verb} {worker}' shows what there is");
                Self::new(Exit::Failed, error.to_string()).hint(hint)
            }
        }
    }
}
