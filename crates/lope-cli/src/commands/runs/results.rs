//! `lope runs results`: what became of each input that was fed to a run.

use lope::Client;
use lope::describe;
use lope::runs::Settled;
use serde_json::{Value as Json, json};

use super::find::find;
use crate::error::{CliResult, Exit};
use crate::output::Output;

pub(crate) async fn run(client: &Client, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(client, id).await?;
    let results = client.results(&record).await?;
    let values: Vec<Json> = results
        .iter()
        .map(|it| describe::result(&it.input, &it.result))
        .collect();
    let lines = results.iter().map(|it| match (&it.input, &it.result) {
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
