//! What tests need around them. In: which needs a command has; out: a setting, whose variables go
//! to every command that is run in it and whose servers and folders end with it. A further need is
//! one file here and one method below.

mod browser;
mod packages;
mod postgres;
mod python;
mod valgrind;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

pub(crate) use self::browser::provide as browser;
pub(crate) use self::python::target;
pub(crate) use self::valgrind::provide as valgrind;
use crate::sweeper::Sweeper;

/// Told to the tests when the caller chose to go without Postgres; they print that they were left
/// out.
const NO_POSTGRES: &str = "LOPE_TEST_NO_POSTGRES";
/// The same for the browser.
const NO_BROWSER: &str = "LOPE_TEST_NO_BROWSER";
/// The same for Python, and where it is when it is there.
const NO_PYTHON: &str = "LOPE_TEST_NO_PYTHON";
const PYTHON: &str = "LOPE_TEST_PYTHON";

#[derive(Debug)]
pub(crate) struct Setting {
    variables: Vec<(&'static str, String)>,
    // Ends before the sweeper, which then finds nothing left to do but to remove the folders.
    held: Vec<Box<dyn Any>>,
    pub(crate) sweeper: Sweeper,
}

impl Setting {
    pub(crate) fn bare() -> Result<Self> {
        Ok(Self {
            variables: Vec::new(),
            held: Vec::new(),
            sweeper: Sweeper::start()?,
        })
    }

    /// Starts a Postgres server of our own, installing Postgres first where that is allowed.
    pub(crate) fn add_postgres(&mut self) -> Result<()> {
        let server = postgres::provide(&self.sweeper)?;
        self.variables.extend(server.variables());
        self.held.push(Box::new(server));
        Ok(())
    }

    /// Makes the Python environment of the tests, if it is not there, and answers with its
    /// interpreter.
    pub(crate) fn add_python(&mut self, root: &Path) -> Result<PathBuf> {
        let interpreter = python::provide(root)?;
        self.variables
            .push((PYTHON, interpreter.display().to_string()));
        Ok(interpreter)
    }

    pub(crate) fn go_without_python(&mut self) {
        self.variables.push((NO_PYTHON, "1".to_owned()));
    }

    pub(crate) fn go_without_browser(&mut self) {
        self.variables.push((NO_BROWSER, "1".to_owned()));
    }

    pub(crate) fn go_without_postgres(&mut self) {
        self.variables.push((NO_POSTGRES, "1".to_owned()));
    }

    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.to_owned()));
    }

    /// What commands are told under this name.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Gives a command the variables of this setting and takes away those that would lead it to
    /// another server.
    pub(crate) fn dress<'command>(&self, command: &'command mut Command) -> &'command mut Command {
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("PG") || name.starts_with("LOPE_TEST_") {
                command.env_remove(name.as_ref());
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)))
    }
}
