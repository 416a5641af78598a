//! The words users type: the commands. A command's own flags stand in its file, those that all take
//! in `flags`.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use lope_agents_cli::AgentsCommand;

use crate::commands::config::ConfigCommand;
use crate::commands::mailbox::MailboxCommand;
use crate::commands::open::OpenArgs;
use crate::commands::run::RunArgs;
use crate::commands::runs::RunsCommand;
use crate::commands::schedules::SchedulesCommand;
use crate::commands::spaces::{CellsCommand, RecipesCommand, StreamsCommand};
use crate::commands::start::StartArgs;
use crate::commands::store::StoreCommand;
use crate::commands::tokens::TokensCommand;
use crate::commands::up::UpArgs;
use crate::commands::workflows::WorkflowsCommand;
use crate::flags::Everywhere;

/// A durable runner: it runs your work to its end through crashes, restarts and lost machines.
#[derive(Debug, Parser)]
#[command(name = "lope", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Lope {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workflow file to its end here, show progress, print the result
    Run(RunArgs),
    /// Work on runs until stopped, with an API and a dashboard
    Up(UpArgs),
    /// Start a run for whoever works on its queue
    Start(StartArgs),
    /// Look at runs and steer them
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Check workflow files and draw them
    #[command(subcommand)]
    Workflows(WorkflowsCommand),
    /// Start workflows again and again
    #[command(subcommand)]
    Schedules(SchedulesCommand),
    /// Send messages to workers, look at them, handle them
    #[command(subcommand)]
    Mailbox(MailboxCommand),
    /// Run recipes over cells, and see what runs and why
    #[command(subcommand)]
    Recipes(RecipesCommand),
    /// Look at cells and change them
    #[command(subcommand)]
    Cells(CellsCommand),
    /// Send events to streams
    #[command(subcommand)]
    Streams(StreamsCommand),
    #[command(flatten)]
    Agents(AgentsCommand),
    /// Say who may use a server, and what for
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Show the dashboard, or a run's page, in the browser
    Open(OpenArgs),
    /// Look after the store: check it, bring it up to date, see its schema, back it up
    #[command(subcommand)]
    Store(StoreCommand),
    /// Say which settings are in force
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look whether everything is there that work needs
    Doctor,
    /// Fold runs in memory for tests in other languages: requests and answers are lines of JSON
    #[command(hide = true)]
    Drive,
    /// Start runs and steer them for one program: requests and answers are lines of JSON
    #[command(hide = true)]
    Converse,
    /// Measure this machine
    Bench(crate::commands::bench::BenchArgs),
    /// Print a completion script for a shell
    Completions { shell: Shell },
    /// Print the version
    Version,
}
