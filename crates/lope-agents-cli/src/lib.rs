//! The commands of agents: `projects`, `tasks`, `locks`, `runners`,
//! `mcp`. Arguments come in, a report goes out: JSON
//! and text, with an exit code. The binary reads the environment and prints.

mod context;
pub mod health;
mod locks;
mod log_text;
mod mcp;
mod projects;
mod question;
mod report;
mod runners;
mod table;
mod tasks;
mod tool_words;

use clap::Subcommand;

pub use context::AgentsContext;
pub use locks::LocksCommand;
pub use projects::ProjectsCommand;
pub use question::refuse_if_asked;
pub use report::{CommandError, CommandExit, CommandReport, CommandResult, ReportForm};
pub use runners::RunnersCommand;
pub use tasks::TasksCommand;

/// A command of this room.
#[derive(Debug, Subcommand)]
pub enum AgentsCommand {
    /// Register the folders whose tasks agents work on
    #[command(subcommand)]
    Projects(ProjectsCommand),
    /// Look at tasks, add them, decide about them
    #[command(subcommand)]
    Tasks(TasksCommand),
    /// See who works on what, and free it
    #[command(subcommand)]
    Locks(LocksCommand),
    /// Start runners, look at them, stop them, wake them up
    #[command(subcommand)]
    Runners(RunnersCommand),
    /// Offer the verbs of tasks to an agent, as an MCP server on standard input and output
    Mcp,
}

/// Do what a command says.
pub async fn run(command: AgentsCommand, context: &AgentsContext) -> CommandResult {
    match command {
        AgentsCommand::Projects(command) => projects::run(command, context).await,
        AgentsCommand::Tasks(command) => tasks::run(command, context).await,
        AgentsCommand::Locks(command) => locks::run(command, context).await,
        AgentsCommand::Runners(command) => runners::run(command, context).await,
        AgentsCommand::Mcp => mcp::run(context).await,
    }
}
