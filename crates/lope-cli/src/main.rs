//! The binary `lope`: reads arguments, environment and terminal, calls the library, prints, and
//! answers with an exit code.
//!
//! It decides nothing about work; that is the library's.

mod agent_scope;
mod args;
mod asking;
mod clock;
mod commands;
mod dispatch;
mod error;
mod flags;
mod home;
mod served;
mod signals;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
pub(crate) use lope_terminal::{format, output, progress, reports, table};

use crate::args::Lope;
use crate::error::{CliError, CliResult, Exit};
use crate::flags::Everywhere;
use crate::home::{HostMaker, Settings};

/// Runs are made by one thread and let go by another, in many small pieces; the system's allocator
/// needs twice as long for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a command that has ended waits for threads of its own that are still busy, such as the
/// look-up of a secret that hangs.
const THREADS_WAITED_FOR: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    lope::process_tree::serve_if_asked();
    let matches = Lope::command().get_matches();
    let lope = Lope::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let exit = match std::panic::catch_unwind(AssertUnwindSafe(|| run(lope, &matches))) {
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

fn run(lope: Lope, matches: &ArgMatches) -> CliResult<Exit> {
    let output = lope.everywhere.output();
    reports::show(output);
    block_on(async {
        let server = asking::server(&lope.everywhere)?;
        if let Some(server) = server {
            let done = asking::run(&server, &lope.command, matches, output).await?;
            if let Some(exit) = done {
                return Ok(exit);
            }
        }
        let settings = |flags: &Everywhere| {
            let read = Settings::read(flags)?;
            let host = Some(served::host as HostMaker);
            Ok(Settings { host, ..read })
        };
        Box::pin(dispatch::dispatch(lope, settings)).await
    })
}

fn block_on(work: impl Future<Output = CliResult<Exit>>) -> CliResult<Exit> {
    // Tokio polls what it is given in three places; in a box a command is in the program once.
    let boxed: Pin<Box<dyn Future<Output = CliResult<Exit>> + '_>> = Box::pin(work);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime =
        runtime.map_err(|error| CliError::new(Exit::Bug, format!("no runtime: {error}")))?;
    let done = runtime.block_on(boxed);
    runtime.shutdown_timeout(THREADS_WAITED_FOR);
    done
}
