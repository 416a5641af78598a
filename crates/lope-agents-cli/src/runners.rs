//! `lope runners …`: who works, with a heartbeat; started, stopped, woken up. One file a group of
//! verbs.

pub(crate) mod cron;
mod list;
pub(crate) mod logs;
mod start;
mod stop;
mod wakeup;

use clap::Subcommand;
use lope::agents::law::unstarted::UnstartedRunner;

use crate::context::AgentsContext;
use crate::report::CommandResult;

#[derive(Debug, Subcommand)]
pub enum RunnersCommand {
    /// List runners: those of agents by project, and those that work on runs
    List {
        /// Also those that have ended
        #[arg(long)]
        all: bool,
    },
    /// Show a runner
    Show {
        /// The runner, or the beginning of its id
        runner: String,
    },
    /// Start a runner that has agents do a project's tasks
    Start(start::StartRunnerArgs),
    /// Stop runners: they end their task, then are cancelled, then killed
    Stop(stop::StopRunnerArgs),
    /// Start runners where tasks wait, end those without a sign of life; what cron calls
    Wakeup(wakeup::WakeupArgs),
    /// Print a runner's log
    Logs(logs::RunnerLogsArgs),
    /// Have cron, or systemd, wake runners up
    #[command(subcommand)]
    Cron(cron::CronCommand),
}

/// That no runner of a project could be started, for people.
pub(crate) fn unstarted_words(unstarted: &UnstartedRunner) -> String {
    let UnstartedRunner {
        failures,
        error,
        not_before,
    } = unstarted;
    let times = if *failures == 1 { "time" } else { "times" };
    format!(
        "no runner could be started, {failures} {times}: {error}; a wake-up tries again at {not_before}"
    )
}

pub(crate) async fn run(command: RunnersCommand, context: &AgentsContext) -> CommandResult {
    match command {
        RunnersCommand::List { all } => list::list(all, context).await,
        RunnersCommand::Show { runner } => list::show(&runner, context).await,
        RunnersCommand::Start(args) => start::run(args, context).await,
        RunnersCommand::Stop(args) => stop::run(args, context).await,
        RunnersCommand::Wakeup(args) => wakeup::run(&args, context).await,
        RunnersCommand::Logs(args) => logs::run(&args, context).await,
        RunnersCommand::Cron(command) => cron::run(&command, context).await,
    }
}
