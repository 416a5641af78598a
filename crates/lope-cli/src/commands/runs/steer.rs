//! `lope runs signal|feed|cancel|pause|resume|retry`: mail to a run.

use lope::Client;
use lope::runs::{Delivered, FinalStatus, RunRecord, RunStatus};
use lope_agents_cli::refuse_if_asked;
use lope_model::RunId;
use lope_model::limit::NAME_MAX;
use serde_json::json;

use super::find::find;
use super::open;
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
    if name.is_empty() || name.len() > NAME_MAX {
        let message = format!("'{name}' is no name of a signal: 1 to {NAME_MAX} bytes");
        return Err(CliError::usage(message));
    }
    let value = workflow_file::input(value.as_deref())?;
    let client = open(settings).await?;
    let record = find(&client, id).await?;
    let delivered = client.signal(record.run, name, value).await?;
    if delivered == Delivered::Finished {
        refuse_if_asked(&client.agents(&settings.config.runners), &record).await?;
    }
    let exit = sent(&client, &record, "signal", &delivered, output).await;
    client.close().await?;
    exit
}

pub(crate) async fn feed(
    settings: &Settings,
    id: &str,
    input: &str,
    output: Output,
) -> CliResult<Exit> {
    let input = workflow_file::input(Some(input))?;
    let client = open(settings).await?;
    let record = find(&client, id).await?;
    let delivered = client.feed(&record, input).await?;
    let exit = sent(&client, &record, "input", &delivered, output).await;
    client.close().await?;
    exit
}

pub(crate) async fn cancel(
    client: &Client,
    id: &str,
    force: bool,
    output: Output,
) -> CliResult<Exit> {
    let record = find(client, id).await?;
    let delivered = if force {
        client.kill(record.run).await?
    } else {
        client.cancel(record.run).await?
    };
    sent(client, &record, "cancel", &delivered, output).await
}

pub(crate) async fn pause(client: &Client, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(client, id).await?;
    let delivered = client.pause(record.run, None).await?;
    sent(client, &record, "pause", &delivered, output).await
}

pub(crate) async fn resume(client: &Client, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(client, id).await?;
    let delivered = client.resume(record.run).await?;
    sent(client, &record, "resume", &delivered, output).await
}

pub(crate) async fn retry(client: &Client, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(client, id).await?;
    if record.status != RunStatus::Final(FinalStatus::Failed) {
        return Err(not_failed(&record));
    }
    let delivered = client.retry(record.run).await?;
    // It had failed when it was looked at; another retry brought it to an end meanwhile.
    if delivered == Delivered::Finished {
        return Err(not_failed(&find(client, &record.run.to_string()).await?));
    }
    sent(client, &record, "retry", &delivered, output).await
}

fn not_failed(record: &RunRecord) -> CliError {
    let (run, status) = (record.run, record.status);
    let message = format!("run {run} is {status}: only a failed run can be retried");
    CliError::new(Exit::Refused, message)
}

async fn sent(
    client: &Client,
    record: &RunRecord,
    word: &str,
    delivered: &Delivered,
    output: Output,
) -> CliResult<Exit> {
    let run = record.run;
    taken(client, run, delivered).await?;
    output.result(
        &json!({ "run_id": run, "sent": word }),
        &format!("{word} sent to {run}"),
    );
    Ok(Exit::Done)
}

/// Was the mail taken? If not, why.
pub(crate) async fn taken(client: &Client, run: RunId, delivered: &Delivered) -> CliResult<()> {
    match delivered {
        Delivered::Accepted | Delivered::Duplicate => Ok(()),
        Delivered::Finished => {
            // It may have ended after it was looked at.
            let status = find(client, &run.to_string()).await?.status;
            let message = format!("run {run} has ended: it is {status}");
            let error = CliError::new(Exit::Refused, message);
            Err(error.hint(
                "'lope runs fork' goes on from an earlier position; a failed run can be retried",
            ))
        }
        Delivered::Full => {
            let message = format!("too much waits for run {run} already");
            Err(CliError::new(Exit::Refused, message).hint(format!(
                "'lope runs why {run}' says why it is not taken up, 'lope store check' if its mail is counted wrongly"
            )))
        }
        Delivered::Missing => Err(CliError::new(
            Exit::Failed,
            format!("there is no run {run}"),
        )),
    }
}
