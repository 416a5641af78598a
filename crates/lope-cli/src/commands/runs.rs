//! `lope runs …`: look at runs and steer them.

use lope::stores::{self, Create};
use lope_engine::{client, codec};
use lope_flow::law::{EventKind, Fed};
use lope_model::{Epoch, RunId, Span};
use lope_store::Store;
use lope_store::runs::{Delivered, JournalRow, RunFilter, RunRecord, RunStatus};
use lope_workers::Logs;
use serde_json::{Value as Json, json};

use super::record::{describe, found, plain, present};
use super::tags::tags;
use super::workflow_file;
use crate::args::RunsCommand;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

/// Journal rows read at a time.
const PAGE: usize = 1_000;

pub(crate) async fn run(command: RunsCommand, settings: &Settings, output: Output) -> CliResult<Exit> {
    let store = stores::open(&settings.store, Create::IfMissing).await?;
    let tell = async |id: String, kind: EventKind| steer(&store, &id, &kind, output).await;
    let exit = match command {
        RunsCommand::List { status, workflow, tags: said, limit } => {
            let filter =
                RunFilter { statuses: statuses(status)?, workflow, tags: tags(&said)?, limit, ..RunFilter::default() };
            list(&store, filter, output).await
        }
        RunsCommand::Show { id } => show(&store, &id, output).await,
        RunsCommand::Journal { id } => journal(&store, &id, output).await,
        RunsCommand::Wait { id, timeout } => wait(&store, &id, timeout, output).await,
        RunsCommand::Logs { id } => logs(&store, &Logs::at(settings.logs.clone()), &id, output).await,
        RunsCommand::Signal { id, name, value } => {
            let value = workflow_file::input(value.as_deref())?;
            tell(id, EventKind::Signal { name: name.into(), value }).await
        }
        RunsCommand::Feed { id, input } => {
            let fed = Fed::new(&uuid(), workflow_file::json(&input)?);
            tell(id, EventKind::Input(Box::new(fed))).await
        }
        RunsCommand::Cancel { id, force } => tell(id, EventKind::Cancel { force }).await,
        RunsCommand::Pause { id } => tell(id, EventKind::Pause { reason: None }).await,
        RunsCommand::Resume { id } => tell(id, EventKind::Resume).await,
        RunsCommand::Retry { id } => tell(id, EventKind::Retry { epoch: Epoch::default() }).await,
    };
    store.upkeep.close().await?;
    exit
}

fn uuid() -> String {
    RunId::from_uuid(uuid::Uuid::now_v7()).to_string()
}

/// A run by its id or by its user's key.
async fn find(store: &Store, text: &str) -> CliResult<RunRecord> {
    let run = match text.parse::<RunId>() {
        Ok(run) => Some(run),
        Err(_) => store.runs.find_key(text).await?,
    };
    let missing = || {
        let message = format!("there is no run with the id or key '{text}'");
        CliError::new(Exit::Failed, message).hint("'lope runs list' shows what there is")
    };
    let run = run.ok_or_else(missing)?;
    found(store.runs.run(run).await?, run)
}

fn statuses(said: Option<String>) -> CliResult<Vec<RunStatus>> {
    let known = || RunStatus::ALL.map(RunStatus::as_str).join(", ");
    let read = |text: String| {
        RunStatus::parse(&text).ok_or_else(|| CliError::usage(format!("'{text}' is no status: {}", known())))
    };
    said.map(read).transpose().map(|status| status.into_iter().collect())
}

async fn list(store: &Store, filter: RunFilter, output: Output) -> CliResult<Exit> {
    let records = store.runs.list(filter).await?;
    let values: Vec<Json> = records.iter().map(describe).collect();
    let lines = records
        .iter()
        .map(|run| format!("{}  {:<9}  {}  {}", run.run, run.status.as_str(), run.created_at, run.workflow));
    let text = if records.is_empty() { "no runs".to_owned() } else { lines.collect::<Vec<_>>().join("\n") };
    output.result(&Json::Array(values), &text);
    Ok(Exit::Done)
}

async fn show(store: &Store, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(store, id).await?;
    let value = describe(&record);
    let lines = value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let lines: Vec<String> = lines.map(|(name, value)| format!("{name:<12} {}", plain(value))).collect();
    output.document(&value, &lines.join("\n"));
    Ok(Exit::Done)
}

async fn journal(store: &Store, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(store, id).await?;
    let (mut rows, mut after): (Vec<JournalRow>, u64) = (Vec::new(), 0);
    loop {
        let page = store.runs.journal(record.run, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        rows.extend(page);
    }
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for row in &rows {
        let kind = codec::kind_of(row).ok();
        let execution = kind.as_ref().and_then(|kind| kind.execution().map(|(path, n)| (path.to_string(), n)));
        let (path, attempt) = execution.unzip();
        lines.push(format!("{:>6}  {}  {:<10} {}", row.seq, row.at, row.event, path.clone().unwrap_or_default()));
        values.push(json!({ "seq": row.seq, "at": row.at.to_string(), "event": &*row.event,
                            "execution": path, "attempt": attempt.flatten() }));
    }
    output.document(&Json::Array(values), &lines.join("\n"));
    Ok(Exit::Done)
}

async fn wait(store: &Store, id: &str, timeout: Option<String>, output: Output) -> CliResult<Exit> {
    let record = find(store, id).await?;
    let span: Option<Span> = timeout
        .map(|text| text.parse())
        .transpose()
        .map_err(|error: lope_model::time::BadSpan| CliError::usage(error.to_string()))?;
    let waiting = client::wait(store, record.run);
    let ended = match span {
        None => waiting.await?,
        Some(span) => tokio::time::timeout(span.to_duration(), waiting)
            .await
            .map_err(|_| CliError::new(Exit::Failed, format!("run {} has not ended within {span}", record.run)))??,
    };
    Ok(present(&found(ended, record.run)?, output))
}

async fn logs(store: &Store, logs: &Logs, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(store, id).await?;
    let entries = logs.of_run(record.run).unwrap_or_default();
    let (mut values, mut text) = (Vec::new(), String::new());
    for entry in entries {
        let lines = std::fs::read_to_string(&entry.path).unwrap_or_default();
        text.extend([format!("── {} attempt {}\n", entry.execution, entry.attempt), lines.clone()]);
        values.push(json!({ "execution": entry.execution, "attempt": entry.attempt, "text": lines }));
    }
    let text = if text.is_empty() { "no logs".to_owned() } else { text };
    output.document(&Json::Array(values), &text);
    Ok(Exit::Done)
}

async fn steer(store: &Store, id: &str, kind: &EventKind, output: Output) -> CliResult<Exit> {
    let run = find(store, id).await?.run;
    match client::tell(store, run, kind, None).await? {
        Delivered::Accepted | Delivered::Duplicate => {
            output.result(&json!({ "run_id": run, "sent": kind.word() }), &format!("{} sent to {run}", kind.word()));
            Ok(Exit::Done)
        }
        Delivered::Finished => Err(CliError::new(Exit::Refused, format!("run {run} has ended"))),
        Delivered::Full => Err(CliError::new(Exit::Refused, format!("too much waits for run {run} already"))),
        Delivered::Missing => Err(CliError::new(Exit::Failed, format!("there is no run {run}"))),
    }
}
