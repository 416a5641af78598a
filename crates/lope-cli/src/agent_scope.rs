//! What an agent at work on a task may do besides: it looks at everything, and changes nothing but
//! its own task. A store of its own, named by `--store`, is its own affair.

use lope::agents::TOKEN_VARIABLE;

use crate::args::Command;
use crate::commands::mailbox::MailboxCommand;
use crate::commands::runs::RunsCommand;
use crate::commands::schedules::SchedulesCommand;
use crate::commands::spaces::{CellsCommand, RecipesCommand, StreamsCommand};
use crate::commands::store::StoreCommand;
use crate::commands::tokens::TokensCommand;
use crate::commands::workflows::WorkflowsCommand;
use crate::error::{CliError, CliResult, Exit};
use crate::flags::Everywhere;
use crate::home::typed;

/// Refused to an agent at work: a command that changes what is not its own.
pub(crate) fn check(command: &Command, flags: &Everywhere, is_agent: bool) -> CliResult<()> {
    let store = flags.store.as_ref();
    let is_own = store.is_some_and(|url| typed("LOPE_STORE", url.as_ref()));
    if !is_agent || is_own || !changes(command) {
        return Ok(());
    }
    let message = "an agent at work on a task may not do this";
    Err(CliError::new(Exit::Refused, message).hint(format!(
        "'lope tasks ask' asks a person; for a store of your own give --store, or unset {TOKEN_VARIABLE}"
    )))
}

/// Does a command change something in the store? Those of agents look after that themselves.
fn changes(command: &Command) -> bool {
    match command {
        Command::Run(_)
        | Command::Up(_)
        | Command::Start(_)
        | Command::Converse
        | Command::Streams(StreamsCommand::Send { .. }) => true,
        Command::Runs(command) => changes_runs(command),
        Command::Workflows(command) => matches!(command, WorkflowsCommand::Deploy { .. }),
        Command::Schedules(command) => !matches!(
            command,
            SchedulesCommand::List | SchedulesCommand::Show { .. }
        ),
        Command::Mailbox(command) => changes_mailbox(command),
        Command::Recipes(command) => {
            matches!(
                command,
                RecipesCommand::Run { .. } | RecipesCommand::Stop { .. }
            )
        }
        Command::Cells(command) => matches!(command, CellsCommand::Set { .. }),
        Command::Tokens(command) => !matches!(command, TokensCommand::List),
        Command::Store(command) => !matches!(command, StoreCommand::Check | StoreCommand::Schema),
        Command::Agents(_)
        | Command::Open(_)
        | Command::Config(_)
        | Command::Doctor
        | Command::Drive
        | Command::Bench(_)
        | Command::Completions { .. }
        | Command::Version => false,
    }
}

fn changes_runs(command: &RunsCommand) -> bool {
    match command {
        RunsCommand::Fork(_)
        | RunsCommand::Signal { .. }
        | RunsCommand::Feed { .. }
        | RunsCommand::Cancel { .. }
        | RunsCommand::Pause { .. }
        | RunsCommand::Resume { .. }
        | RunsCommand::Retry { .. } => true,
        RunsCommand::List(_)
        | RunsCommand::Show { .. }
        | RunsCommand::Why { .. }
        | RunsCommand::Journal { .. }
        | RunsCommand::Graph(_)
        | RunsCommand::Watch { .. }
        | RunsCommand::Wait { .. }
        | RunsCommand::Logs { .. }
        | RunsCommand::Results { .. }
        | RunsCommand::Export { .. } => false,
    }
}

fn changes_mailbox(command: &MailboxCommand) -> bool {
    match command {
        MailboxCommand::Send(_)
        | MailboxCommand::Replay(_)
        | MailboxCommand::Drop(_)
        | MailboxCommand::Work(_) => true,
        MailboxCommand::List(_)
        | MailboxCommand::Timers(_)
        | MailboxCommand::Dead(_)
        | MailboxCommand::Stats(_) => false,
    }
}
