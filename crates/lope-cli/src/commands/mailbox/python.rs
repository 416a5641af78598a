//! Python as the handler of messages: processes with the module loaded, and an action of it for
//! each message.

use std::sync::Arc;

use lope::executors::{self, inherited};
use lope::mailbox::{ActionHandler, Handler};
use lope_model::Span;

use crate::commands::python::{Module, PythonArgs};
use crate::error::{CliError, CliResult};
use crate::home::Settings;

pub(super) async fn handler(
    named: &str,
    interpreters: &PythonArgs,
    timeout: Option<Span>,
    settings: &Settings,
) -> CliResult<Arc<dyn Handler>> {
    let (module, action) = named
        .rsplit_once(':')
        .filter(|(module, action)| !module.is_empty() && !action.is_empty())
        .ok_or_else(|| {
            CliError::usage(format!(
                "--python {named}: MODULE:ACTION is expected, as in orders:charge"
            ))
        })?;
    let (pool, actions) = interpreters
        .pool(
            &[Module::parse(module)?],
            false,
            &settings.logs,
            inherited(&settings.config),
        )
        .await?;
    if !actions.contains(action) {
        let known: Vec<&str> = actions.iter().map(|action| &**action).collect();
        let error = CliError::usage(format!("the module '{module}' has no action '{action}'"));
        return Err(error.hint(format!("it has: {}", known.join(", "))));
    }
    let (kind, action) = (executors::ACTION.into(), action.into());
    Ok(Arc::new(ActionHandler {
        executor: pool,
        kind,
        action,
        timeout,
    }))
}
