//! What every command that begins a run needs: its options, an engine, a word about it.

use std::sync::Arc;

use clap::Args;
use lope::vault::Vault;
use lope_engine::client::{self, StartOptions};
use lope_engine::executor::Executor;
use lope_engine::{Engine, Settings as EngineSettings};
use lope_flow::definition::executor;
use lope_flow::fits::fits;
use lope_flow::law::Plan;
use lope_model::{RunId, Value};
use lope_store::Store;
use lope_workers::{Functions, Pool};
use serde_json::json;

use super::runs::find::found;
use super::workflow_file;
use crate::clock::wall;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

/// How a run is begun.
#[derive(Debug, Args)]
pub(crate) struct Begin {
    /// The input: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
    /// A name of your own for the run: a second start with it returns the first run
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

pub(crate) fn options(begin: &Begin, settings: &Settings) -> CliResult<StartOptions> {
    let input = Some(workflow_file::input(begin.input.as_deref())?);
    Ok(StartOptions { input, key: begin.key.clone(), env: captured(&settings.config.env), ..StartOptions::default() })
}

/// What expressions see as `env`: the allowed variables as they are now.
pub(crate) fn captured(allowed: &[String]) -> Value {
    if allowed.is_empty() {
        return Value::Null;
    }
    let found = allowed.iter().filter_map(|name| Some((name.as_str(), Value::from(std::env::var(name).ok()?))));
    Value::map(found)
}

/// Could a run be admitted so? Asked before anything is stored.
pub(crate) fn check(plan: &Plan, options: &StartOptions) -> CliResult<()> {
    options.input.iter().try_for_each(|input| check_input(plan, input))?;
    let admit = client::admission(plan, options.clone(), wall());
    Ok(lope_store::runs::check::admits(&[admit])?)
}

/// Does an input fit what the workflow says about it?
pub(crate) fn check_input(plan: &Plan, input: &Value) -> CliResult<()> {
    fits(&plan.definition().input, input).map_err(|misfit| {
        let message = format!("the input does not fit the workflow '{}': {misfit}", plan.name());
        CliError::usage(message).hint("the workflow's 'input' says what it takes")
    })
}

/// An engine with the executors that every runner brings, and a pool that does its actions if there is one.
pub(crate) fn engine_with(
    store: &Store,
    settings: &Settings,
    mut engine: EngineSettings,
    pool: Option<&Arc<Pool>>,
) -> CliResult<Engine> {
    engine.post = Some(lope::post::encode);
    let vault = Vault::new(settings.config.secrets.clone(), |variable| std::env::var(variable).ok());
    engine.secrets = Some(Arc::new(vault));
    let runtime = tokio::runtime::Handle::current();
    let functions = Functions::new(runtime.clone());
    let executors = lope::executors::standard(&runtime, settings.logs.clone(), functions);
    let mut executors = executors.map_err(|error| CliError::new(Exit::Bug, format!("no HTTP client: {error}")))?;
    if let Some(pool) = pool {
        executors.insert(executor::ACTION.into(), Arc::clone(pool) as Arc<dyn Executor>);
    }
    let engine = EngineSettings { host: lope::host::name(), ..engine };
    let begun = Engine::begin(store.clone(), executors, engine);
    begun.map_err(|error| CliError::new(Exit::Bug, format!("the engine cannot start: {error}")))
}

/// Tell which run was started.
pub(crate) async fn announce(store: &Store, run: RunId, output: Output) -> CliResult<Exit> {
    let record = found(store.runs.run(run).await?, run)?;
    let value = json!({ "run_id": run, "workflow": record.workflow, "status": record.status.as_str() });
    output.result(&value, &format!("{run} {}", record.status));
    store.upkeep.close().await?;
    Ok(Exit::Done)
}
