//! The commands of agents, which have a room of their own: what they need of the environment goes
//! in, what they report is printed.

use std::path::PathBuf;

use lope::agents::{RoundSettings, TOKEN_VARIABLE, TREE_VARIABLE, TaskToken};
use lope::executors::inherited;
use lope_agents_cli::{AgentsCommand, AgentsContext, CommandError, CommandExit, ReportForm};
use lope_remote::CommandCall;

use super::begin::{captured, secrets};
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{self, Output};

pub(crate) async fn run(
    command: AgentsCommand,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let report = lope_agents_cli::run(command, &context(settings, output)?).await?;
    match report.form {
        ReportForm::Words => output.result(&report.value, &report.text),
        ReportForm::Document => output.document(&report.value, &report.text),
        ReportForm::Verbatim => output.verbatim(&report.value, &report.text),
        ReportForm::Streamed => {}
    }
    Ok(report.exit.into())
}

pub(super) fn context(settings: &Settings, output: Output) -> CliResult<AgentsContext> {
    let (folder, token) = whereabouts()?;
    let token = token.map(|text| text.parse::<TaskToken>()).transpose();
    Ok(AgentsContext {
        store: settings.store.clone(),
        is_configured: is_configured(settings),
        lent: settings.lent.clone(),
        home: settings.home.clone(),
        folder,
        user_folder: std::env::home_dir(),
        runners: settings.config.runners.clone(),
        agents: settings.config.agents.clone(),
        token: token.map_err(CliError::usage)?,
        is_within_tree: CommandCall::current().is_none()
            && std::env::var_os(TREE_VARIABLE).is_some(),
        quiet: output.quiet,
        json: output.json,
        environment: inherited(&settings.config),
        steps: RoundSettings {
            engine: settings.config.engine.clone(),
            secrets: secrets(settings),
            env: captured(settings),
            logs: settings.logs.clone(),
            environment: inherited(&settings.config),
        },
        program: std::env::current_exe().unwrap_or_else(|_| "lope".into()),
        path: std::env::var("PATH").unwrap_or_default(),
        print: output::text,
    })
}

/// Is the caller an agent at work on a task?
pub(crate) fn is_agent() -> bool {
    match CommandCall::current() {
        Some(call) => call.order.task.is_some(),
        None => std::env::var_os(TOKEN_VARIABLE).is_some(),
    }
}

/// Does the file of the configuration name the store that is used?
fn is_configured(settings: &Settings) -> bool {
    let named = settings.config.store.as_deref();
    named.and_then(|url| url.parse().ok()).as_ref() == Some(&settings.store)
}

/// The folder in which the command was called, and the claim that its caller speaks for.
fn whereabouts() -> CliResult<(PathBuf, Option<String>)> {
    if let Some(call) = CommandCall::current() {
        return Ok((PathBuf::from(&call.order.folder), call.order.task.clone()));
    }
    let folder = std::env::current_dir()
        .map_err(|error| CliError::usage(format!("the current folder: {error}")))?;
    Ok((folder, std::env::var(TOKEN_VARIABLE).ok()))
}

impl From<CommandExit> for Exit {
    fn from(exit: CommandExit) -> Self {
        match exit {
            CommandExit::Done => Self::Done,
            CommandExit::Failed => Self::Failed,
            CommandExit::Usage => Self::Usage,
            CommandExit::Refused => Self::Refused,
        }
    }
}

impl From<CommandError> for CliError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Store(error) => error.into(),
            CommandError::Told {
                exit,
                message,
                hint,
            } => {
                let error = Self::new(exit.into(), message);
                match hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
        }
    }
}
