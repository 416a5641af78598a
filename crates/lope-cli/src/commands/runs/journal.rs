//! `lope runs journal`: what happened to a run, one row an event.

use lope::Client;
use serde_json::Value as Json;

use super::find::find;
use crate::error::{CliResult, Exit};
use crate::output::Output;

pub(crate) async fn run(client: &Client, id: &str, output: Output) -> CliResult<Exit> {
    let record = find(client, id).await?;
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for entry in client.journal(&record).await? {
        let attempt = entry
            .attempt
            .filter(|n| *n > 1)
            .map_or_else(String::new, |n| format!(" attempt {n}"));
        let path = entry.path.as_deref().unwrap_or_default();
        let line = format!(
            "{:>6}  {}  {:<10} {path}{attempt}",
            entry.seq, entry.at, entry.event
        );
        lines.push(line.trim_end().to_owned());
        values.push(entry.json);
    }
    output.document(&output.shown(Json::Array(values)), &lines.join("\n"));
    Ok(Exit::Done)
}
