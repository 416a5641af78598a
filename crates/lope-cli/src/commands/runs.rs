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
use lope::stores::{self, Create};
use lope_store::{Store, StoreError};
use lope_workers::Logs;

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

pub(crate) async fn run(command: RunsCommand, settings: &Settings, output: Output) -> CliResult<Exit> {
    // What is wrong with the words is said before the store is opened.
    let command = match command {
        RunsCommand::List(args) => return list::run(args, settings, output).await,
        RunsCommand::Signal { id, name, value } => return steer::signal(settings, &id, &name, value, output).await,
        RunsCommand::Feed { id, input } => return steer::feed(settings, &id, &input, output).await,
        RunsCommand::Wait { id, timeout } => return wait::run(settings, &id, timeout, output).await,
        other => other,
    };
    let store = open(settings).await?;
    let exit = perform(command, &store, settings, output).await;
    store.upkeep.close().await?;
    exit
}

async fn perform(command: RunsCommand, store: &Store, settings: &Settings, output: Output) -> CliResult<Exit> {
    match command {
        RunsCommand::Show { id } => show::run(store, &id, output).await,
        RunsCommand::Why { id } => why::run(store, &id, output).await,
        RunsCommand::Journal { id } => journal::run(store, &id, output).await,
        RunsCommand::Graph(args) => graph::run(store, args, output).await,
        RunsCommand::Watch { id } => watch::run(store, &id, output).await,
        RunsCommand::Logs { id, follow } => {
            logs::run(store, &Logs::at(settings.logs.clone()), &id, follow, output).await
        }
        RunsCommand::Results { id } => results::run(store, &id, output).await,
        RunsCommand::Export { id, output: target } => export::run(store, &id, target.as_deref(), output).await,
        RunsCommand::Fork(args) => fork::run(store, args, output).await,
        RunsCommand::Cancel { .. } | RunsCommand::Pause { .. } | RunsCommand::Resume { .. } => {
            steer::run(store, command, output).await
        }
        RunsCommand::Retry { .. } => steer::run(store, command, output).await,
        RunsCommand::List(_) | RunsCommand::Signal { .. } | RunsCommand::Feed { .. } | RunsCommand::Wait { .. } => {
            unreachable!("these open the store themselves")
        }
    }
}

/// The store, which must exist: looking at runs creates nothing.
pub(crate) async fn open(settings: &Settings) -> CliResult<Store> {
    match stores::open(&settings.store, Create::Never).await {
        Ok(store) => Ok(store),
        Err(StoreError::Missing { message }) => {
            let error = CliError::new(Exit::Failed, format!("there are no runs: there is no store: {message}"));
            Err(error.hint("'lope run FILE' or 'lope store migrate' creates it; --store or --home names another"))
        }
        Err(error) => Err(error.into()),
    }
}
