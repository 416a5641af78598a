//! `lope runs signal|feed|cancel|pause|resume|retry`: mail to a run.

use lope_engine::{client, codec, look};
use lope_flow::law::{EventKind, Fed};
use lope_model::Epoch;
use lope_store::Store;
use lope_store::runs::{Delivered, FinalStatus, RunRecord, RunStatus};
use serde_json::json;

use super::find::find;
use super::{RunsCommand, open};
use crate::commands::begin::check_input;
use crate::commands::workflow_file;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

pub(crate) async fn signal(
    settings: &Settings,
    id: &str,
    name: &str,
    value: Option<String>,
    output: Output,
) -> CliResult<Exit> {
    if name.is_empty() || name.len() > lope_model::limit::NAME_MAX {
        return Err(CliError::usage(format!(
            "'{name}' is no name of a signal: 1 to {} bytes",
            lope_model::limit::NAME_MAX
        )));
    }
    let value = workflow_file::input(value.as_deref())?;
    deliver(settings, id, EventKind::Signal { name: name.into(), value }, output).await
}

pub(crate) async fn feed(settings: &Settings, id: &str, input: &str, output: Output) -> CliResult<Exit> {
    let fed = Fed::new(&uuid::Uuid::now_v7().to_string(), workflow_file::input(Some(input))?);
    deliver(settings, id, EventKind::Input(Box::new(fed)), output).await
}

async fn deliver(settings: &Settings, id: &str, kind: EventKind, output: Output) -> CliResult<Exit> {
    let store = open(settings).await?;
    let record = find(&store, id).await?;
    if let EventKind::Input(fed) = &kind {
        check_input(&*look::plan(&store, &record).await?, &fed.value)?;
        refuse_closed(&store, &record).await?;
    }
    let exit = send(&store, &record, &kind, output).await;
    store.upkeep.close().await?;
    exit
}

/// A run that was not opened ends with its first input: a second one would be dropped without a word.
async fn refuse_closed(store: &Store, record: &RunRecord) -> CliResult<()> {
    let first = store.runs.journal(record.run, 0, 1).await?.into_iter().next();
    let start = first.and_then(|row| codec::kind_of(&row).ok());
    match (record.status, start) {
        (RunStatus::Live(_), Some(EventKind::Start(start))) if !start.open => {
            let message = format!("run {} is not open: it has its input, and ends with it", record.run);
            Err(CliError::new(Exit::Refused, message).hint("'lope start --open' starts a run that may be fed"))
        }
        _ => Ok(()),
    }
}

pub(crate) async fn run(store: &Store, command: RunsCommand, output: Output) -> CliResult<Exit> {
    let (id, kind) = match command {
        RunsCommand::Cancel { id, force } => (id, EventKind::Cancel { force }),
        RunsCommand::Pause { id } => (id, EventKind::Pause { reason: None }),
        RunsCommand::Resume { id } => (id, EventKind::Resume),
        RunsCommand::Retry { id } => (id, EventKind::Retry { epoch: Epoch::default() }),
        other => return Err(CliError::new(Exit::Bug, format!("{other:?} is not sent to runs"))),
    };
    let record = find(store, &id).await?;
    refuse(&record, &kind)?;
    send(store, &record, &kind, output).await
}

/// What would be said to deaf ears.
fn refuse(record: &RunRecord, kind: &EventKind) -> CliResult<()> {
    let run = record.run;
    let refused = |message: String| Err(CliError::new(Exit::Refused, message));
    match (kind, record.status) {
        (EventKind::Retry { .. }, RunStatus::Final(FinalStatus::Failed)) => Ok(()),
        (EventKind::Retry { .. }, status) => {
            refused(format!("run {run} is {status}: only a failed run can be retried"))
        }
        _ => Ok(()),
    }
}

async fn send(store: &Store, record: &RunRecord, kind: &EventKind, output: Output) -> CliResult<Exit> {
    let run = record.run;
    match client::tell(store, run, kind, None).await? {
        Delivered::Accepted | Delivered::Duplicate => {
            output.result(&json!({ "run_id": run, "sent": kind.word() }), &format!("{} sent to {run}", kind.word()));
            Ok(Exit::Done)
        }
        Delivered::Finished => {
            let error = CliError::new(Exit::Refused, format!("run {run} has ended: it is {}", record.status));
            Err(error.hint("'lope runs fork' goes on from an earlier position; a failed run can be retried"))
        }
        Delivered::Full => {
            let error = CliError::new(Exit::Refused, format!("too much waits for run {run} already"));
            Err(error.hint(format!("'lope runs why {run}' says why it is not taken up")))
        }
        Delivered::Missing => Err(CliError::new(Exit::Failed, format!("there is no run {run}"))),
    }
}
