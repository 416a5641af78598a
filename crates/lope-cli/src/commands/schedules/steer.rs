//! `lope schedules pause|resume|run|remove`.

use lope::describe;
use lope_engine::schedule::book::{self, Booked, Changed};
use lope_engine::schedule::{Entry, fire};
use lope_store::Store;
use serde_json::json;

use super::look::when;
use super::missing;
use crate::commands::begin::announce;
use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

pub(super) async fn pause(store: &Store, name: &str, output: Output) -> CliResult<Exit> {
    change(store, name, output, Entry::pause).await
}

pub(super) async fn resume(store: &Store, name: &str, output: Output) -> CliResult<Exit> {
    let now = store.upkeep.reading().await?.now;
    change(store, name, output, |entry| entry.resume(now)).await
}

async fn change(store: &Store, name: &str, output: Output, how: impl Fn(&mut Entry)) -> CliResult<Exit> {
    let Changed::Done(entry) = book::change(store, name, how).await? else { return Err(missing(name)) };
    let booked = book::find(store, name).await?;
    store.upkeep.close().await?;
    let next = match entry.due() {
        Some(due) => format!("next at {}", when(&entry.schedule, due)),
        None => describe::schedule_status(&entry).to_owned(),
    };
    let booked = booked.unwrap_or(Booked { entry: *entry, last_run: None, running: false });
    output.result(&describe::schedule(&booked), &format!("{name}: {next}"));
    Ok(Exit::Done)
}

/// A run beside the ticks, paused or not: it counts for no overlap.
pub(super) async fn run(store: &Store, name: &str, output: Output) -> CliResult<Exit> {
    let booked = book::find(store, name).await?.ok_or_else(|| missing(name))?;
    let now = store.upkeep.reading().await?.now;
    match fire::at_once(store, &booked.entry.schedule, now).await? {
        Ok(run) => announce(store, run, output).await,
        Err(why) => {
            store.upkeep.close().await?;
            let error = CliError::new(Exit::Failed, format!("schedule '{name}' cannot start a run: {why}"));
            Err(error.hint(
                "'lope workflows list' shows what is deployed, 'lope schedules add --replace' changes the schedule",
            ))
        }
    }
}

pub(super) async fn remove(store: &Store, name: &str, output: Output) -> CliResult<Exit> {
    let removed = store.runs.unschedule(name, None).await?;
    store.upkeep.close().await?;
    if !removed {
        return Err(missing(name));
    }
    output.result(&json!({ "name": name, "removed": true }), &format!("{name} removed; its runs stay"));
    Ok(Exit::Done)
}
