//! `cargo xtask with COMMAND`: any command beside the Postgres server that the tests get, for work on one room:
//! `cargo xtask with cargo test -p lope-postgres`. In: the command; out: whether it went well.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::needs::Setting;

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (program, rest) = arguments.split_first().context("with what? name a command")?;
    let mut setting = Setting::bare()?;
    setting.add_postgres()?;
    let passed = setting.sweeper.run(setting.dress(Command::new(program).args(rest)))?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
