//! `lope start`: a run for whoever works on its queue.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lope::stores::{self, Create};
use lope_engine::client;
use lope_flow::law::Plan;
use lope_model::{Priority, QueueName, RunId};
use lope_store::Store;
use serde_json::json;

use super::run::{found, options};
use super::runs::wall;
use super::workflow_file;
use crate::args::StartArgs;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

pub(crate) async fn run(args: StartArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let bad = |error: &dyn std::fmt::Display| CliError::usage(error.to_string());
    let mut options = options(&args.begin)?;
    options.open = args.open;
    options.tags = tags(&args.tags)?;
    if args.open && args.begin.input.is_none() {
        options.input = None;
    }
    if let Some(time) = &args.at {
        options.at = Some(time.parse().map_err(|error: lope_model::time::BadTimestamp| bad(&error))?);
    }
    if let Some(queue) = &args.queue {
        options.queue = QueueName::parse(queue).map_err(|error| bad(&error))?;
    }
    if let Some(level) = args.priority {
        options.priority = Priority::new(level).map_err(|error| bad(&error))?;
    }
    let store = stores::open(&settings.store, Create::IfMissing).await?;
    let plan = plan(&store, &args.workflow).await?;
    let (run, _) = client::start(&store, &plan, options, wall()).await?;
    announce(&store, run, output).await
}

/// A file if there is one, else the latest version deployed under the name.
async fn plan(store: &Store, named: &str) -> CliResult<Arc<Plan>> {
    let path = Path::new(named);
    let is_file = path.extension().is_some_and(|end| end == "yaml" || end == "yml") || path.is_file();
    if is_file {
        let plan = workflow_file::read(path)?;
        client::deploy(store, &plan).await?;
        return Ok(plan);
    }
    let missing = || {
        let message = format!("no workflow '{named}' is deployed, and there is no such file");
        CliError::new(Exit::Failed, message).hint("give a workflow file")
    };
    client::latest_plan(store, named).await?.ok_or_else(missing)
}

pub(crate) fn tags(said: &[String]) -> CliResult<BTreeMap<String, String>> {
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some((name.to_owned(), value.to_owned()))
    };
    said.iter()
        .map(|text| pair(text).ok_or_else(|| CliError::usage(format!("'{text}' is no tag: write NAME=VALUE"))))
        .collect()
}

/// Tell which run was started.
pub(crate) async fn announce(store: &Store, run: RunId, output: Output) -> CliResult<Exit> {
    let record = found(store.runs.run(run).await?, run)?;
    let value = json!({ "run_id": run, "workflow": record.workflow, "status": record.status.as_str() });
    output.result(&value, &format!("{run} {}", record.status));
    store.upkeep.close().await?;
    Ok(Exit::Done)
}
