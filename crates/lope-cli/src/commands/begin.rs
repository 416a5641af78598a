//! What every command that begins a run needs: its options, an engine, a word about it.

use std::sync::Arc;

use clap::Args;
use lope::executors::inherited;
use lope::runs::RunStartOptions;
use lope::secrets::ConfiguredSecrets;
use lope::workers::Pool;
use lope::{Client, Runner, Settings as EngineSettings};
use lope_model::{RunId, Value};
use serde_json::json;

use super::runs::find::found;
use super::workflow_file;
use crate::error::{CliResult, Exit};
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

pub(crate) fn options(begin: &Begin, settings: &Settings) -> CliResult<RunStartOptions> {
    let input = Some(workflow_file::input(begin.input.as_deref())?);
    Ok(RunStartOptions {
        input,
        key: begin.key.clone(),
        env: captured(settings),
        ..RunStartOptions::default()
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
