//! What every command that begins a run needs: its options, an engine, a word about it.

use std::sync::Arc;

use clap::Args;
use lope::executors::inherited;
use lope::runs::StartOptions;
use lope::secrets::ConfiguredSecrets;
use lope::workers::Pool;
use lope::workflows::Plan;
use lope::{Client, PreparedRun, Runner, Settings as EngineSettings};
use lope_model::{RunId, Value};
use serde_json::json;

use super::runs::find::found;
use super::workflow_file;
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
    Ok(StartOptions {
        input,
        key: begin.key.clone(),
        env: captured(settings),
        ..StartOptions::default()
    })
}

/// What expressions see as `env`: the allowed variables as they are now, but none that a secret is
/// read from and none of the runner's own, since what is captured is stored.
pub(crate) fn captured(settings: &Settings) -> Value {
    let allowed = &settings.config.env;
    if allowed.is_empty() {
        return Value::Null;
    }
    let environment = inherited(&settings.config);
    let found = environment
        .without_withheld(allowed)
        .into_iter()
        .filter_map(|name| Some((name.as_str(), Value::from(std::env::var(name).ok()?))));
    Value::map(found)
}

/// A run that could be admitted so. Made before anything is stored.
pub(crate) fn prepare(plan: &Arc<Plan>, options: StartOptions) -> CliResult<PreparedRun> {
    options
        .input
        .iter()
        .try_for_each(|input| validate_input(plan, input))?;
    Ok(PreparedRun::new(plan, options)?)
}

/// A key names one run: whoever starts another workflow with it meant another run.
pub(crate) async fn same_workflow(client: &Client, run: RunId, wanted: &Plan) -> CliResult<()> {
    let record = found(client.run(run).await?, run)?;
    if record.workflow == **wanted.name() {
        return Ok(());
    }
    let key = record.key.unwrap_or_default();
    let message = format!(
        "the key '{key}' belongs to run {run} of the workflow '{}', not to one of '{}'",
        record.workflow,
        wanted.name()
    );
    Err(CliError::new(Exit::Refused, message).hint("give another --key"))
}

/// Does an input fit what the workflow says about it?
pub(crate) fn validate_input(plan: &Plan, input: &Value) -> CliResult<()> {
    PreparedRun::validate_input(plan, input).map_err(|misfit| {
        let message = format!(
            "the input does not fit the workflow '{}': {misfit}",
            plan.name()
        );
        CliError::usage(message).hint("the workflow's 'input' says what it takes")
    })
}

/// A runner with everything that this process brings: its executors, the secrets of the config, and
/// a pool that does its actions if there is one.
pub(crate) async fn runner_with(
    client: &Client,
    settings: &Settings,
    engine: EngineSettings,
    pool: Option<&Arc<Pool>>,
) -> CliResult<Runner> {
    let mut builder = Runner::builder()
        .client(client)
        .shared_settings(engine)
        .secrets(secrets(settings))
        .inherited(inherited(&settings.config))
        .agents(
            settings.config.agents.clone(),
            settings.config.runners.clone(),
        )
        .workers(settings.logs.clone());
    if let Some(pool) = pool {
        builder = builder.pool(Arc::clone(pool));
    }
    Ok(builder.build().await?)
}

/// Where steps find the secrets that the configuration names.
pub(crate) fn secrets(settings: &Settings) -> Arc<ConfiguredSecrets> {
    let sources = settings.config.secrets.clone();
    Arc::new(ConfiguredSecrets::new(sources, |variable| {
        std::env::var(variable).ok()
    }))
}

/// Tell which run was started.
pub(crate) async fn announce(client: &Client, run: RunId, output: Output) -> CliResult<Exit> {
    let record = found(client.run(run).await?, run)?;
    let value =
        json!({ "run_id": run, "workflow": record.workflow, "status": record.status.as_str() });
    output.result(&value, &format!("{run} {}", record.status));
    client.close().await?;
    Ok(Exit::Done)
}
