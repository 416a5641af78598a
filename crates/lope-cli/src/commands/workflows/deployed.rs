//! `lope workflows deploy|list|show`: what a store knows.

use std::sync::Arc;

use lope::Client;
use lope::describe;
use lope::runs::RunFilter;
use lope::stores::CreateStore;
use lope::stores::StoreError;
use lope::workflows::Plan;
use lope::workflows::{Definition, Step};
use serde_json::{Value as Json, json};

use crate::clock::wall;
use crate::commands::shown;
use crate::error::{CliError, CliResult, Exit};
use crate::format::{age, paint_status};
use crate::home::Settings;
use crate::output::Output;
use crate::table::{Column, Table};

/// Runs shown with a workflow.
const RUNS: usize = 5;

/// All files are read first: one bad file, and nothing is stored.
pub(super) async fn deploy(
    plans: &[Arc<Plan>],
    dry_run: bool,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    if !dry_run {
        let client = settings
            .open_lasting("the workflow", CreateStore::IfMissing)
            .await?;
        for plan in plans {
            client.deploy(plan).await?;
        }
        client.close().await?;
    }
    let values: Vec<Json> = plans
        .iter()
        .map(|plan| json!({ "workflow": &**plan.name(), "version": plan.version(), "dry_run": dry_run }))
        .collect();
    let word = if dry_run {
        "would be deployed"
    } else {
        "deployed"
    };
    let lines = plans
        .iter()
        .map(|plan| format!("{} {} {word}", plan.name(), short(plan)));
    output.result(&Json::Array(values), &lines.collect::<Vec<_>>().join("\n"));
    Ok(Exit::Done)
}

fn short(plan: &Plan) -> String {
    plan.version().to_string().chars().take(12).collect()
}

pub(super) async fn list(settings: &Settings, output: Output) -> CliResult<Exit> {
    let all = match settings.open(CreateStore::Never).await {
        Ok(client) => {
            let all = client.workflows().await?;
            client.close().await?;
            all
        }
        Err(StoreError::Missing { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let values: Vec<Json> = all
        .iter()
        .map(|it| describe::workflow(&it.name, it.version, it.deployed_at))
        .collect();
    let mut table = Table::new([
        Column::cut("WORKFLOW"),
        Column::whole("VERSION"),
        Column::whole("DEPLOYED"),
    ]);
    for stored in &all {
        let version = stored.version.to_string().chars().take(12).collect();
        let ago = format!("{} ago", age(wall().since(stored.deployed_at)));
        table.row(vec![stored.name.clone(), version, ago]);
    }
    output.result(&Json::Array(values), &table.text_or("no workflows"));
    Ok(Exit::Done)
}

/// The plan of the version deployed last under a name.
pub(super) async fn latest(name: &str, settings: &Settings) -> CliResult<Arc<Plan>> {
    let client = open(name, settings).await?;
    let plan = client.latest_plan(name).await?;
    client.close().await?;
    plan.ok_or_else(|| missing(name))
}

/// The store in which a workflow is looked for: where there is none, it is not deployed.
async fn open(name: &str, settings: &Settings) -> CliResult<Client> {
    match settings.open(CreateStore::Never).await {
        Err(StoreError::Missing { .. }) => Err(missing(name)),
        opened => Ok(opened?),
    }
}

fn missing(name: &str) -> CliError {
    let error = CliError::new(
        Exit::Failed,
        format!("no workflow '{name}' is deployed, and there is no such file"),
    );
    error
        .hint("'lope workflows list' shows what is deployed, 'lope workflows deploy FILE' adds one")
}

pub(super) async fn show(name: &str, settings: &Settings, output: Output) -> CliResult<Exit> {
    let client = open(name, settings).await?;
    let stored = client.workflow(name).await?.ok_or_else(|| missing(name))?;
    let definition = stored.definition().map_err(|error| {
        CliError::new(
            Exit::Failed,
            format!("the definition of '{name}' cannot be read: {error}"),
        )
    })?;
    let filter = RunFilter {
        workflow: Some(name.to_owned()),
        limit: RUNS,
        ..RunFilter::default()
    };
    let mut runs = client.list(filter).await?;
    shown::redact_all(&client, &mut runs).await;
    client.close().await?;
    let mut value = describe::workflow(name, stored.version, stored.deployed_at);
    value["definition"] = describe::definition(&definition);
    value["runs"] = runs.iter().map(describe::run).collect();
    let mut lines = vec![
        format!("{:<10} {name}", "workflow"),
        format!("{:<10} {}", "version", stored.version),
        format!(
            "{:<10} {} ({} ago)",
            "deployed",
            stored.deployed_at,
            age(wall().since(stored.deployed_at))
        ),
        format!("{:<10} {}", "steps", names(&definition)),
    ];
    if !runs.is_empty() {
        lines.push("\nyoungest runs".to_owned());
    }
    for run in &runs {
        lines.push(format!(
            "  {}  {}  {} ago",
            run.run,
            paint_status(run.status),
            age(wall().since(run.created_at))
        ));
    }
    output.document(&value, &lines.join("\n"));
    Ok(Exit::Done)
}

fn names(definition: &Definition) -> String {
    definition
        .root()
        .steps
        .iter()
        .map(|step: &Step| &*step.name)
        .collect::<Vec<_>>()
        .join(", ")
}
