//! The binary `lope`: reads arguments, environment and terminal, calls the library, prints, and
//! answers with an exit code.
//!
//! It decides nothing about work; that is the library's.

mod args;
mod clock;
mod commands;
mod error;
mod flags;
mod format;
mod home;
mod output;
mod progress;
mod reports;
mod signals;
mod table;

use std::pin::Pin;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Command, Lope};
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

/// Runs are made by one thread and let go by another, in many small pieces; the system's allocator
/// needs twice as long for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    lope::process_tree::serve_if_asked();
    let lope = Lope::parse();
    let exit = match std::panic::catch_unwind(|| run(lope)) {
        Ok(Ok(exit)) => exit,
        Ok(Err(error)) => {
            output::complain(&error.to_string());
            error.exit
        }
        Err(_) => {
            output::complain("this is a bug in Lope; please report it with the lines above");
            Exit::Bug
        }
    };
    ExitCode::from(exit as u8)
}

fn run(lope: Lope) -> CliResult<Exit> {
    let output = Output {
        json: lope.everywhere.json,
        tagged: lope.everywhere.tagged,
        quiet: lope.everywhere.quiet,
        verbose: lope.everywhere.verbose,
    };
    reports::show(output);
    let settings = || Settings::read(&lope.everywhere);
    match lope.command {
        Command::Run(args) => block_on(commands::run::run(args, &settings()?, output)),
        Command::Up(args) => block_on(commands::up::run(args, &settings()?, output)),
        Command::Start(args) => block_on(commands::start::run(args, &settings()?, output)),
        Command::Runs(command) => block_on(commands::runs::run(command, &settings()?, output)),
        Command::Workflows(command) => {
            block_on(commands::workflows::run(command, settings, output))
        }
        Command::Schedules(command) => {
            block_on(commands::schedules::run(command, &settings()?, output))
        }
        Command::Mailbox(command) => {
            block_on(commands::mailbox::run(command, &settings()?, output))
        }
        Command::Recipes(command) => {
            block_on(commands::spaces::run_recipes(command, settings, output))
        }
        Command::Cells(command) => {
            block_on(commands::spaces::run_cells(command, &settings()?, output))
        }
        Command::Streams(command) => {
            block_on(commands::spaces::run_streams(command, &settings()?, output))
        }
        Command::Agents(command) => block_on(commands::agents::run(command, &settings()?, output)),
        Command::Tokens(command) => block_on(commands::tokens::run(command, &settings()?, output)),
        Command::Open(args) => block_on(commands::open::run(args, &settings()?, output)),
        Command::Store(command) => block_on(commands::store::run(command, &settings()?, output)),
        Command::Config(command) => Ok(commands::config::run(
            command,
            &lope.everywhere,
            &settings()?,
            output,
        )),
        Command::Doctor => block_on(commands::doctor::run(settings(), output)),
        Command::Drive => commands::drive::run(),
        Command::Converse => block_on(commands::converse::run(settings()?)),
        Command::Bench(args) => block_on(commands::bench::run(args, &settings()?, output)),
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

fn block_on(work: impl Future<Output = CliResult<Exit>>) -> CliResult<Exit> {
    // Tokio polls what it is given in three places; in a box a command is in the program once.
    let boxed: Pin<Box<dyn Future<Output = CliResult<Exit>> + '_>> = Box::pin(work);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime
        .map_err(|error| CliError::new(Exit::Bug, format!("no runtime: {error}")))?
        .block_on(boxed)
}
