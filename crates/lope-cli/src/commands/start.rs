//! `lope start`: a run for whoever works on its queue.

use std::path::Path;
use std::sync::Arc;

use lope::stores::{self, Create};
use lope_engine::client;
use lope_flow::law::Plan;
use lope_model::{Priority, QueueName};
use lope_store::Store;

use super::begin::{announce, options};
use super::tags::tags;
use super::workflow_file;
use crate::args::StartArgs;
use crate::clock::wall;
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
