//! `lope schedules pause|resume|run|remove`.

use lope::Client;
use lope::describe;
use lope::schedules::{FireError, ScheduleEntry, ScheduleRecord};
use serde_json::json;

use super::missing;
use super::query::when;
use crate::commands::begin::announce;
use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

pub(super) async fn pause(client: &Client, name: &str, output: Output) -> CliResult<Exit> {
    let entry = client.pause_schedule(name).await?;
    changed(client, name, entry, output).await
}

pub(super) async fn resume(client: &Client, name: &str, output: Output) -> CliResult<Exit> {
    let entry = client.resume_schedule(name).await?;
    changed(client, name, entry, output).await
}

async fn changed(
    client: &Client,
    name: &str,
    entry: Option<ScheduleEntry>,
    output: Output,
) -> CliResult<Exit> {
    let entry = entry.ok_or_else(|| missing(name))?;
    let record = client.schedule(name).await?;
    client.close().await?;
    let next = match entry.due() {
        Some(due) => format!("next at {}", when(&entry.schedule, due)),
        None => describe::schedule_status(&entry).to_owned(),
    };
    let record = record.unwrap_or(ScheduleRecord {
        entry,
        last_run: None,
        running: false,
    });
    output.result(&describe::schedule(&record), &format!("{name}: {next}"));
    Ok(Exit::Done)
}

/// A run beside the ticks, paused or not: it counts for no overlap.
pub(super) async fn run(client: &Client, name: &str, output: Output) -> CliResult<Exit> {
    match client.fire_schedule(name).await {
        Ok(run) => announce(client, run, output).await,
        Err(FireError::Missing) => Err(missing(name)),
        Err(FireError::Store(error)) => Err(error.into()),
        Err(FireError::NoRun(why)) => {
            client.close().await?;
            let error = CliError::new(
                Exit::Failed,
                format!("schedule '{name}' cannot start a run: {why}"),
            );
            Err(error.hint(
                "'lope workflows list' shows what is deployed, 'lope schedules add --replace' changes the schedule",
            ))
        }
    }
}

pub(super) async fn remove(client: &Client, name: &str, output: Output) -> CliResult<Exit> {
    let removed = client.remove_schedule(name).await?;
    client.close().await?;
    if !removed {
        return Err(missing(name));
    }
    output.result(
        &json!({ "name": name, "removed": true }),
        &format!("{name} removed; its runs stay"),
    );
    Ok(Exit::Done)
}
