//! Python as the handler of messages: one process with the module loaded, and an action of it for each message.

use std::path::PathBuf;
use std::sync::Arc;

use lope::mailbox::{ActionHandler, Handler};
use lope_flow::definition::executor;
use lope_model::{Failure, Span};
use lope_workers::Logs;
use lope_workers::pool::{Pool, PoolSettings, Program};
use tokio::runtime::Handle;

use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;

/// Names the interpreter; without it `python3` is looked for.
const INTERPRETER: &str = "LOPE_PYTHON";

/// How many messages at once, and how long one may take.
pub(super) struct Bounds {
    pub(super) slots: usize,
    pub(super) timeout: Option<Span>,
}

pub(super) async fn handler(named: &str, bounds: Bounds, settings: &Settings) -> CliResult<Arc<dyn Handler>> {
    let (module, action) = named
        .split_once(':')
        .filter(|(module, action)| !module.is_empty() && !action.is_empty())
        .ok_or_else(|| CliError::usage(format!("--python {named}: MODULE:ACTION is expected, as in orders:charge")))?;
    let interpreter = std::env::var_os(INTERPRETER).map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let here = std::env::current_dir().map_err(|error| CliError::usage(format!("the current folder: {error}")))?;
    let settings_of_pool = PoolSettings {
        processes: 1,
        slots: bounds.slots,
        program: Program::python(interpreter, &[module.to_owned()], &[here]),
        ..PoolSettings::default()
    };
    let pool = Pool::begin(settings_of_pool, Handle::current(), Logs::at(settings.logs.clone()));
    let pool = pool.map_err(|error| CliError::new(Exit::Failed, format!("no Python workers: {error}")))?;
    let actions = pool.ready().await.map_err(|why| unready(module, &why))?;
    if !actions.contains(action) {
        let known: Vec<&str> = actions.iter().map(|action| &**action).collect();
        let error = CliError::usage(format!("the module '{module}' has no action '{action}'"));
        return Err(error.hint(format!("it has: {}", known.join(", "))));
    }
    let (kind, action) = (executor::ACTION.into(), action.into());
    Ok(Arc::new(ActionHandler { executor: Arc::new(pool), kind, action, timeout: bounds.timeout }))
}

fn unready(module: &str, why: &Failure) -> CliError {
    let error = CliError::usage(format!("Python cannot load '{module}': {}: {}", why.kind, why.message));
    error.hint(format!("'pip install ./python' installs the package lope; {INTERPRETER} names the interpreter"))
}
