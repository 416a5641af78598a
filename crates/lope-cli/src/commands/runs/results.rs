//! `lope runs results`: what became of each input that was fed to a run.

use lope::describe;
use lope_engine::look;
use lope_flow::law::Settled;
use lope_store::Store;
use serde_json::Value as Json;

use super::find::find;
use crate::error::{CliResult, Exit};
use crate::output::Output;

pub(crate) async fn run(store: &Store, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(store, id).await?;
    let plan = look::plan(store, &record).await?;
    let history = look::history(store, record.run, &plan, None).await?;
    let values: Vec<Json> = history.results().iter().map(|(input, settled)| describe::result(input, settled)).collect();
    let lines = history.results().iter().map(|(input, settled)| match settled {
        Settled::Done(value) => format!("{input}: {value}"),
        Settled::Failed(failure) => format!("{input}: failed with {}: {}", failure.kind, failure.message),
        Settled::Cancelled => format!("{input}: cancelled"),
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    output.document(&Json::Array(values), if text.is_empty() { "no results yet" } else { &text });
    Ok(Exit::Done)
}
