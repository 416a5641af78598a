//! Which command is done by which file: in this process, or in a server for somebody else.

use clap::CommandFactory;

use crate::agent_scope;
use crate::args::{Command, Lope};
use crate::commands;
use crate::error::{CliResult, Exit};
use crate::flags::Everywhere;
use crate::home::Settings;
use crate::output::{self, Output};

/// Does a command, in this process or for somebody else.
pub(crate) async fn dispatch(
    lope: Lope,
    read: impl Fn(&Everywhere) -> CliResult<Settings>,
) -> CliResult<Exit> {
    let output = lope.everywhere.output();
    let is_agent = commands::agents::is_agent();
    agent_scope::check(&lope.command, &lope.everywhere, is_agent)?;
    let settings = || read(&lope.everywhere);
    match lope.command {
        Command::Run(args) => commands::run::run(args, &settings()?, output).await,
        Command::Up(args) => commands::up::run(args, &settings()?, output).await,
        Command::Start(args) => commands::start::run(args, &settings()?, output).await,
        Command::Runs(command) => commands::runs::run(command, &settings()?, output).await,
        Command::Workflows(command) => commands::workflows::run(command, settings, output).await,
        Command::Schedules(command) => {
            commands::schedules::run(command, &settings()?, output).await
        }
        Command::Mailbox(command) => commands::mailbox::run(command, &settings()?, output).await,
        Command::Recipes(command) => commands::spaces::run_recipes(command, settings, output).await,
        Command::Cells(command) => commands::spaces::run_cells(command, &settings()?, output).await,
        Command::Streams(command) => {
            commands::spaces::run_streams(command, &settings()?, output).await
        }
        Command::Agents(command) => commands::agents::run(command, &settings()?, output).await,
        Command::Tokens(command) => commands::tokens::run(command, &settings()?, output).await,
        Command::Open(args) => commands::open::run(args, &settings()?, output).await,
        Command::Store(command) => commands::store::run(command, &settings()?, output).await,
        Command::Config(command) => Ok(commands::config::run(
            command,
            &lope.everywhere,
            &settings()?,
            output,
        )),
        Command::Doctor => commands::doctor::run(settings(), output).await,
        Command::Drive => commands::drive::run(),
        Command::Converse => commands::converse::run(settings()?).await,
        Command::Bench(args) => commands::bench::run(args, &settings()?, output).await,
        Command::Completions { shell } => Ok(completions(shell, output)),
        Command::Version => Ok(version(output)),
    }
}

fn completions(shell: clap_complete::Shell, output: Output) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Lope::command(), "lope", &mut script);
    if output.json {
        let script = String::from_utf8_lossy(&script);
        let value = serde_json::json!({ "shell": shell.to_string(), "script": script });
        output.document(&value, "");
    } else {
        output::bytes(&script);
    }
    Exit::Done
}

fn version(output: Output) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    output.document(
        &serde_json::json!({ "version": version }),
        &format!("lope {version}"),
    );
    Exit::Done
}
