//! `lope runs wait`: until a run has ended, then its result.

use lope_model::Span;

use super::find::{find, found};
use super::open;
use crate::commands::record::present;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::Output;

pub(crate) async fn run(
    settings: &Settings,
    id: &str,
    timeout: Option<String>,
    output: Output,
) -> CliResult<Exit> {
    let span: Option<Span> = timeout
        .map(|text| text.parse())
        .transpose()
        .map_err(|error: lope_model::time::BadSpan| CliError::usage(error.to_string()))?;
    let client = open(settings).await?;
    let record = find(&client, id).await?;
    let waiting = client.wait(record.run);
    let ended = match span {
        None => waiting.await?,
        Some(span) => tokio::time::timeout(span.to_duration(), waiting)
            .await
            .map_err(|_| {
                let message = format!("run {} has not ended within {span}", record.run);
                CliError::new(Exit::Failed, message).hint(format!(
                    "'lope runs why {}' says what it waits for",
                    record.run
                ))
            })??,
    };
    let exit = present(&client, found(ended, record.run)?, output).await;
    client.close().await?;
    exit
}
