//! `lope schedules …`: what starts runs again and again. One file a group of verbs.

mod add;
mod query;
mod steer;

use clap::Subcommand;
use lope::Client;
use lope::stores::CreateStore;
use lope::stores::StoreError;

use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesCommand {
    /// Start a workflow again and again, by a cron expression or at an interval
    Add(Box<add::AddArgs>),
    /// List schedules by name
    List,
    /// Show a schedule: its next ticks, its last runs, what went wrong
    Show { name: String },
    /// Start nothing more until it is resumed; what waits is given up
    Pause { name: String },
    /// Go on with the next tick
    Resume { name: String },
    /// Start a run of a schedule now, beside its ticks
    Run { name: String },
    /// Take a schedule away; its runs stay
    Remove { name: String },
}

pub(crate) async fn run(
    command: SchedulesCommand,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    match command {
        SchedulesCommand::Add(args) => add::run(*args, settings, output).await,
        SchedulesCommand::List => query::list(settings, output).await,
        SchedulesCommand::Show { name } => {
            query::show(&open(settings, &name).await?, &name, output).await
        }
        SchedulesCommand::Pause { name } => {
            steer::pause(&open(settings, &name).await?, &name, output).await
        }
        SchedulesCommand::Resume { name } => {
            steer::resume(&open(settings, &name).await?, &name, output).await
        }
        SchedulesCommand::Run { name } => {
            steer::run(&open(settings, &name).await?, &name, output).await
        }
        SchedulesCommand::Remove { name } => {
            steer::remove(&open(settings, &name).await?, &name, output).await
        }
    }
}

/// The store in which a schedule is looked for.
async fn open(settings: &Settings, name: &str) -> CliResult<Client> {
    match settings.open(CreateStore::Never).await {
        Err(StoreError::Missing { .. }) => Err(missing(name)),
        opened => Ok(opened?),
    }
}

fn missing(name: &str) -> CliError {
    CliError::new(Exit::Failed, format!("there is no schedule '{name}'"))
        .hint("'lope schedules list' shows what there is")
}
