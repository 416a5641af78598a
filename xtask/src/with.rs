//! `cargo xtask with COMMAND`: any command beside the Postgres server and the Python that the tests
//! get, for work on one room: `cargo xtask with cargo test -p lope-postgres`. In: the command; out:
//! whether it went well.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::needs::Setting;
use crate::tree;

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (program, rest) = arguments
        .split_first()
        .context("with what? name a command")?;
    let mut setting = Setting::bare()?;
    setting.add_postgres()?;
    if let Err(error) = setting.add_python(&tree::root()?) {
        println!("without Python: {error:#}");
        setting.go_without_python();
    }
    let passed = setting
        .sweeper
        .run(setting.dress(Command::new(program).args(rest)))?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
