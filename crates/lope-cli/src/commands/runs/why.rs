//! `lope runs why`: why a run is not moving, in plain words.

use lope::{Client, describe};
use serde_json::json;

use super::find::find;
use crate::clock::wall;
use crate::commands::shown;
use crate::error::{CliResult, Exit};
use crate::format::paint_status;
use crate::output::Output;

pub(crate) async fn run(client: &Client, id: &str, output: Output) -> CliResult<Exit> {
    let mut record = find(client, id).await?;
    let reasons = client.why(&record).await;
    let reasons = reasons.map_err(|error| error.in_run(record.run))?;
    let redaction = shown::redact(client, &mut record).await?;
    let hidden = |words: String| match &redaction {
        Some(redaction) => redaction.words(&words),
        None => words,
    };
    let now = wall();
    let values: Vec<_> = reasons
        .iter()
        .map(|why| {
            let mut value = describe::why(why, record.run, now);
            value["message"] = json!(hidden(why.message(now)));
            value
        })
        .collect();
    let value =
        json!({ "run_id": record.run, "status": record.status.as_str(), "reasons": values });
    let mut text = format!(
        "run {} of '{}' is {}",
        record.run,
        record.workflow,
        paint_status(record.status)
    );
    for why in &reasons {
        text.push_str(&format!("\n  {}", hidden(why.message(now))));
        why.hint(record.run)
            .iter()
            .for_each(|hint| text.push_str(&format!("\n    hint: {hint}")));
    }
    output.document(&value, &text);
    Ok(Exit::Done)
}
