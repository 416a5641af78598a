//! `lope runs results`: what became of each input that was fed to a run.

use std::sync::Arc;

use lope::Client;
use lope::describe;
use lope::runs::Settled;
use serde_json::{Value as Json, json};

use super::find::find;
use crate::commands::shown;
use crate::error::{CliResult, Exit};
use crate::output::Output;

pub(crate) async fn run(client: &Client, id: &str, output: Output) -> CliResult<Exit> {
    let mut record = find(client, id).await?;
    let redaction = shown::redact(client, &mut record).await?;
    let all = client.results(&record).await?;
    let results = all.iter().map(|it| match &redaction {
        Some(redaction) => (&it.input, redaction.settled(&it.result)),
        None => (&it.input, it.result.clone()),
    });
    let results: Vec<(&Arc<str>, Settled)> = results.collect();
    let values: Vec<Json> = results
        .iter()
        .map(|(input, result)| describe::result(input, result))
        .collect();
    let lines = results.iter().map(|(input, result)| match (input, result) {
        (input, Settled::Done(value)) => format!("{input}: {}", output.shown(json!(value))),
        (input, Settled::Failed(failure)) => {
            format!("{input}: failed with {}: {}", failure.kind, failure.message)
        }
        (input, Settled::Cancelled) => format!("{input}: cancelled"),
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    output.document(
        &output.shown(Json::Array(values)),
        if text.is_empty() {
            "no results yet"
        } else {
            &text
        },
    );
    Ok(Exit::Done)
}
