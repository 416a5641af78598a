//! `lope drive`: the law as a filter, for tests in other languages. A request is a line of JSON,
//! and so is its answer.

use std::io::{BufRead, Write};

use lope::drive::Driver;

use crate::error::{CliError, CliResult, Exit};

pub(crate) fn run() -> CliResult<Exit> {
    let mut driver = Driver::default();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| CliError::usage(format!("standard input: {error}")))?;
        let answer = driver.answer(&line);
        let written = writeln!(out, "{answer}").and_then(|()| out.flush());
        if written.is_err() {
            break;
        }
    }
    Ok(Exit::Done)
}
