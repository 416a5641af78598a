//! `lope start`: a run for whoever works on its queue.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use lope::runs::RunStartOptions;
use lope::stores::CreateStore;
use lope::stores::StoreError;
use lope::workflows::Plan;
use lope::{Client, PreparedRun};
use lope_model::{Priority, QueueName};

use super::begin::{Begin, announce, options};
use super::python::{PythonArgs, PythonWorkflow};
use super::tags::tags;
use super::workflow_file;
use crate::clock::later;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// A workflow file, a workflow in Python (MODULE.py:NAME), or the name of a deployed workflow
    workflow: String,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    begin: Begin,
    /// When it may begin: RFC 3339, or in how long (30s, 2h)
    #[arg(long, value_name = "TIME|DURATION")]
    at: Option<String>,
    #[arg(long)]
    queue: Option<String>,
    /// 0 to 9, higher first
    #[arg(long)]
    priority: Option<i64>,
    /// A tag, as NAME=VALUE; may be given several times
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
    /// Stay open for more inputs
    #[arg(long)]
    open: bool,
}

pub(crate) async fn run(args: StartArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let bad = |error: &dyn std::fmt::Display| CliError::usage(error.to_string());
    let mut options = options(&args.begin, settings)?;
    options.open = args.open;
    options.tags = tags(&args.tags)?;
    if args.open && args.begin.input.is_none() {
        options.input = None;
    }
    if let Some(time) = &args.at {
        options.at = Some(later("--at", time)?);
    }
    if let Some(queue) = &args.queue {
        options.queue = QueueName::parse(queue).map_err(|error| bad(&error))?;
    }
    let priority = args.priority.map(Priority::new).transpose();
    options.priority = priority.map_err(|error| bad(&error))?;
    let target = PythonWorkflow::parse(&args.workflow);
    if let Some(asked) = args.python.unnamed(Path::new(&args.workflow)) {
        return Err(asked);
    }
    let bundle = target
        .map(|target| args.python.bundle(&target, &mut options))
        .transpose()?;
    let (client, run) = match bundle {
        None => prepared(&args.workflow, options, settings).await?,
        Some(plans) => deployed(&plans, options, settings).await?,
    };
    let (run, _) = client.start(run).await?;
    announce(&client, run, output).await
}

/// Plans that were read go into the store, which is made if it is not there; the first is the
/// run's.
async fn deployed(
    plans: &[Arc<Plan>],
    options: RunStartOptions,
    settings: &Settings,
) -> CliResult<(Client, PreparedRun)> {
    let limits = &settings.config.engine.queue_limits;
    let run = PreparedRun::new(&plans[0], options, limits)?;
    let client = settings
        .open_lasting("the run", CreateStore::IfMissing)
        .await?;
    for plan in plans {
        client.deploy(plan).await?;
    }
    Ok((client, run))
}

/// The run, and the store, which is only made for a file that could be read and whose run could be
/// admitted.
async fn prepared(
    named: &str,
    options: RunStartOptions,
    settings: &Settings,
) -> CliResult<(Client, PreparedRun)> {
    if workflow_file::is_file(named) {
        let plans = [workflow_file::read(Path::new(named))?];
        return deployed(&plans, options, settings).await;
    }
    let client = match settings.open(CreateStore::Never).await {
        Err(StoreError::Missing { .. }) => return Err(missing_workflow(named)),
        opened => opened?,
    };
    let plan = plan(&client, named).await?;
    let run = PreparedRun::new(&plan, options, &settings.config.engine.queue_limits)?;
    Ok((client, run))
}

/// A file if there is one, else the latest version deployed under the name.
pub(crate) async fn plan(client: &Client, named: &str) -> CliResult<Arc<Plan>> {
    if workflow_file::is_file(named) {
        let plan = workflow_file::read(Path::new(named))?;
        client.deploy(&plan).await?;
        return Ok(plan);
    }
    client
        .latest_plan(named)
        .await?
        .ok_or_else(|| missing_workflow(named))
}

pub(crate) fn missing_workflow(named: &str) -> CliError {
    let message = format!("no workflow '{named}' is deployed, and there is no such file");
    CliError::new(Exit::Failed, message)
        .hint("give a workflow file; 'lope workflows list' shows what is deployed")
}
