//! `lope runs …`: look at runs and steer them. One file a group of verbs.

pub(crate) mod export;
pub(crate) mod find;
pub(crate) mod fork;
pub(crate) mod graph;
pub(crate) mod journal;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod results;
pub(crate) mod show;
pub(crate) mod steer;
pub(crate) mod wait;
pub(crate) mod watch;
pub(crate) mod why;

use clap::Subcommand;
use lope::Client;
use lope::stores::CreateStore;
use lope::stores::StoreError;
use lope::workers::Logs;

use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, youngest first
    List(list::ListArgs),
    /// Show one run with its steps
    Show { id: String },
    /// Say in plain words why a run is not moving
    Why { id: String },
    /// Print a run's journal
    Journal { id: String },
    /// Draw a run: its workflow, each step marked with how far it is
    Graph(graph::GraphArgs),
    /// Follow a run until it ends
    Watch { id: String },
    /// Wait until a run has ended and print its result
    Wait {
        id: String,
        /// Give up after this long
        #[arg(long, value_name = "DURATION")]
        timeout: Option<String>,
    },
    /// Print the logs of a run's steps
    Logs {
        id: String,
        /// Go on until the run ends
        #[arg(short, long)]
        follow: bool,
    },
    /// Print what became of the inputs that were fed to a run
    Results { id: String },
    /// Print everything there is of a run as one JSON document
    Export {
        id: String,
        /// Write it to this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<std::path::PathBuf>,
    },
    /// Start a new run that goes on from a position in this one's journal
    Fork(fork::ForkArgs),
    /// Send a signal
    Signal {
        id: String,
        name: String,
        /// JSON, @FILE, or - for standard input
        #[arg(value_name = "JSON")]
        value: Option<String>,
    },
    /// Feed an open run an input
    Feed {
        id: String,
        /// JSON, @FILE, or - for standard input
        #[arg(value_name = "JSON")]
        input: String,
    },
    /// Ask a run to end; `finally` blocks still run
    Cancel {
        id: String,
        /// End it at once
        #[arg(long)]
        force: bool,
    },
    /// Start no further step
    Pause { id: String },
    /// Go on after a pause
    Resume { id: String },
    /// Go on with a failed run where it failed
    Retry { id: String },
}

pub(crate) async fn run(
    command: RunsCommand,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    match command {
        // What is wrong with the words of these is said before they open the store.
        RunsCommand::List(args) => list::run(args, settings, output).await,
        RunsCommand::Signal { id, name, value } => {
            steer::signal(settings, &id, &name, value, output).await
        }
        RunsCommand::Feed { id, input } => steer::feed(settings, &id, &input, output).await,
        RunsCommand::Wait { id, timeout } => wait::run(settings, &id, timeout, output).await,
        RunsCommand::Show { id } => {
            with_store(settings, async |it| show::run(it, &id, output).await).await
        }
        RunsCommand::Why { id } => {
            with_store(settings, async |it| why::run(it, &id, output).await).await
        }
        RunsCommand::Journal { id } => {
            with_store(settings, async |it| journal::run(it, &id, output).await).await
        }
        RunsCommand::Graph(args) => {
            with_store(settings, async |it| graph::run(it, args, output).await).await
        }
        RunsCommand::Watch { id } => {
            with_store(settings, async |it| watch::run(it, &id, output).await).await
        }
        RunsCommand::Logs { id, follow } => {
            let logs = Logs::at(settings.logs.clone());
            with_store(settings, async |it| {
                logs::run(it, &logs, &id, follow, output).await
            })
            .await
        }
        RunsCommand::Results { id } => {
            with_store(settings, async |it| results::run(it, &id, output).await).await
        }
        RunsCommand::Export { id, output: target } => {
            with_store(settings, async |it| {
                export::run(it, &id, target.as_deref(), output).await
            })
            .await
        }
        RunsCommand::Fork(args) => {
            with_store(settings, async |it| fork::run(it, args, output).await).await
        }
        RunsCommand::Cancel { id, force } => {
            with_store(settings, async |it| {
                steer::cancel(it, &id, force, output).await
            })
            .await
        }
        RunsCommand::Pause { id } => {
            with_store(settings, async |it| steer::pause(it, &id, output).await).await
        }
        RunsCommand::Resume { id } => {
            with_store(settings, async |it| steer::resume(it, &id, output).await).await
        }
        RunsCommand::Retry { id } => {
            with_store(settings, async |it| steer::retry(it, &id, output).await).await
        }
    }
}

async fn with_store(
    settings: &Settings,
    work: impl AsyncFnOnce(&Client) -> CliResult<Exit>,
) -> CliResult<Exit> {
    let client = open(settings).await?;
    let exit = work(&client).await;
    client.close().await?;
    exit
}

/// The store, which must exist: looking at runs creates nothing.
pub(crate) async fn open(settings: &Settings) -> CliResult<Client> {
    match settings.open(CreateStore::Never).await {
        Ok(client) => Ok(client),
        Err(StoreError::Missing { message }) => {
            let error = CliError::new(
                Exit::Failed,
                format!("there are no runs: there is no store: {message}"),
            );
            Err(error.hint("'lope run FILE' or 'lope store migrate' creates it; --store or --home names another"))
        }
        Err(error) => Err(error.into()),
    }
}
