//! `--server URL`: this command is done by a running server. It is told what was typed; what it
//! says is printed, what it needs of this machine is given, and nothing else.

use std::path::PathBuf;

use clap::ArgMatches;
use lope::agents::TOKEN_VARIABLE;
use lope_agents_cli::{AgentsCommand, RunnersCommand};
use lope_remote::{CommandOrder, ServerClient, ServerTrust};
use lope_terminal::picture::screen_size;
use lope_terminal::this_process::ThisProcess;

use crate::args::Command;
use crate::commands::mailbox::MailboxCommand;
use crate::commands::open;
use crate::commands::python::{PythonArgs, PythonWorkflow};
use crate::commands::spaces::{CellsCommand, RecipesCommand};
use crate::commands::store::StoreCommand;
use crate::commands::workflow_file;
use crate::commands::workflows::WorkflowsCommand;
use crate::error::{CliError, CliResult, Exit};
use crate::flags::Everywhere;
use crate::home::typed;
use crate::output::Output;
use crate::table::width;

/// Flags that say where a command is done; a server need not hear them.
const OWN_FLAGS: [&str; 5] = ["--server", "--server-ca", "--token", "--store", "--home"];

/// Where a command is done when a server is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommandPlace {
    /// It needs no store.
    Here,
    Server,
    /// It works on the machine where it is typed, with a store of its own.
    Store,
}

/// The server that a command is for. Nothing: it is for a store.
pub(crate) fn server(flags: &Everywhere) -> CliResult<Option<ServerClient>> {
    let Some(url) = &flags.server else {
        return Ok(None);
    };
    let is_typed = typed("LOPE_SERVER", url.as_ref());
    let store = flags.store.as_ref();
    if store.is_some_and(|store| typed("LOPE_STORE", store.as_ref())) {
        if is_typed {
            let message = "--server and --store: a command is for one of them";
            return Err(CliError::usage(message));
        }
        return Ok(None);
    }
    if url.is_empty() {
        return Ok(None);
    }
    let file = flags.server_ca.as_ref();
    let file = file.filter(|file| !file.as_os_str().is_empty());
    let authority = file.map(|file| {
        std::fs::read(file)
            .map_err(|error| CliError::usage(format!("--server-ca: {}: {error}", file.display())))
    });
    let trust = ServerTrust {
        token: flags.token.clone().filter(|token| !token.is_empty()),
        authority: authority.transpose()?,
    };
    Ok(Some(ServerClient::new(url, trust)?))
}

/// Does a command that a server is named for. Nothing: it needs neither server nor store.
pub(crate) async fn run(
    server: &ServerClient,
    command: &Command,
    matches: &ArgMatches,
    output: Output,
) -> CliResult<Option<Exit>> {
    if let Command::Open(args) = command {
        return open::on_server(args, server, output).await.map(Some);
    }
    match place(command) {
        CommandPlace::Here => Ok(None),
        CommandPlace::Store => Err(store_only(&verb(matches))),
        CommandPlace::Server => {
            let words: Vec<String> = std::env::args().skip(1).collect();
            ask(server, command, words, matches).await.map(Some)
        }
    }
}

async fn ask(
    server: &ServerClient,
    command: &Command,
    words: Vec<String>,
    matches: &ArgMatches,
) -> CliResult<Exit> {
    let columns = width();
    let order = CommandOrder {
        arguments: without_own(&words),
        attachments: Vec::new(),
        width: (columns != usize::MAX).then_some(columns),
        screen: screen_size(),
        called: called(server),
        folder: std::env::current_dir()
            .map(|folder| folder.to_string_lossy().into_owned())
            .unwrap_or_default(),
        task: std::env::var(TOKEN_VARIABLE).ok(),
        last: None,
    };
    let python = PythonArgs::by(python_bin(matches));
    let compile = move |words: &[String], need: &_| python.answer(words, need);
    let mut giver = ThisProcess::new(words, Box::new(compile));
    let code = match command {
        Command::Cells(CellsCommand::Watch { .. }) => server.follow(order, &mut giver).await?,
        _ => server.run(order, &mut giver).await?,
    };
    Ok(Exit::of(code))
}

fn place(command: &Command) -> CommandPlace {
    match command {
        Command::Run(_)
        | Command::Start(_)
        | Command::Runs(_)
        | Command::Schedules(_)
        | Command::Cells(_)
        | Command::Streams(_)
        | Command::Tokens(_)
        | Command::Open(_) => CommandPlace::Server,
        Command::Workflows(command) => match command {
            WorkflowsCommand::Check { .. } => CommandPlace::Here,
            WorkflowsCommand::Graph { workflow, .. } if is_own(workflow) => CommandPlace::Here,
            _ => CommandPlace::Server,
        },
        Command::Mailbox(MailboxCommand::Work(_)) => CommandPlace::Store,
        Command::Mailbox(_) => CommandPlace::Server,
        Command::Recipes(RecipesCommand::Check { .. }) => CommandPlace::Here,
        Command::Recipes(_) => CommandPlace::Server,
        Command::Agents(AgentsCommand::Mcp) => CommandPlace::Store,
        Command::Agents(AgentsCommand::Runners(command)) => match command {
            RunnersCommand::Start(_) | RunnersCommand::Wakeup(_) | RunnersCommand::Cron(_) => {
                CommandPlace::Store
            }
            _ => CommandPlace::Server,
        },
        Command::Agents(_) => CommandPlace::Server,
        Command::Store(StoreCommand::Migrate { .. } | StoreCommand::Copy(_)) => CommandPlace::Store,
        Command::Store(_) => CommandPlace::Server,
        Command::Up(_) | Command::Doctor | Command::Converse => CommandPlace::Store,
        Command::Config(_)
        | Command::Drive
        | Command::Bench(_)
        | Command::Completions { .. }
        | Command::Version => CommandPlace::Here,
    }
}

/// Does a text name a workflow of this machine's?
fn is_own(workflow: &str) -> bool {
    workflow_file::is_file(workflow)
        || PythonWorkflow::parse(workflow).is_some()
        || workflow.ends_with(".py")
}

fn store_only(verb: &str) -> CliError {
    let message = format!("'lope {verb}' works on this machine with a store, not through a server");
    CliError::usage(message).hint("leave out --server, or unset LOPE_SERVER; --store names a store")
}

fn verb(matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut at = matches;
    while let Some((name, below)) = at.subcommand() {
        words.push(name);
        at = below;
    }
    words.join(" ")
}

/// The Python that was named for the command, or in the environment.
fn python_bin(matches: &ArgMatches) -> Option<PathBuf> {
    let mut at = matches;
    while let Some((_, below)) = at.subcommand() {
        at = below;
    }
    let found = at.try_get_one::<PathBuf>("python_bin");
    found.ok().flatten().cloned()
}

/// What was typed, without the flags that say where it is done.
fn without_own(words: &[String]) -> Vec<String> {
    let mut left = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            left.push(word.clone());
            left.extend(words.cloned());
            break;
        }
        if OWN_FLAGS.contains(&word.as_str()) {
            words.next();
            continue;
        }
        let is_own = |flag: &&str| {
            word.strip_prefix(*flag)
                .is_some_and(|it| it.starts_with('='))
        };
        if !OWN_FLAGS.iter().any(is_own) {
            left.push(word.clone());
        }
    }
    left
}

fn called(server: &ServerClient) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "lope".to_owned());
    let is_it = |word: &str| word.split('=').next() == Some("--server");
    if std::env::args().any(|word| is_it(&word)) {
        format!("{program} --server {}", server.url())
    } else {
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_server_hears_what_was_typed_but_not_where() {
        let typed = words(
            "--server http://x runs --token=t list --server-ca ca.pem --store=s --json -- --server",
        );
        assert_eq!(without_own(&typed), words("runs list --json -- --server"));
    }
}
