//! `lope runs export`: everything there is of a run, as one JSON document.

use std::path::Path;

use lope::Client;
use serde_json::{Value as Json, json};

use super::find::find;
use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

pub(crate) async fn run(
    client: &Client,
    id: &str,
    target: Option<&Path>,
    output: Output,
) -> CliResult<Exit> {
    let record = find(client, id).await?;
    write(&client.export(&record).await?, target, output)
}

fn write(value: &Json, target: Option<&Path>, output: Output) -> CliResult<Exit> {
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    let Some(target) = target else {
        output.document(value, &text);
        return Ok(Exit::Done);
    };
    if target.exists() {
        let message = format!("{} exists already", target.display());
        return Err(CliError::new(Exit::Refused, message).hint("name a file that does not exist"));
    }
    std::fs::write(target, text)
        .map_err(|error| CliError::usage(format!("{}: {error}", target.display())))?;
    let run = &value["run"]["run_id"];
    output.result(
        &json!({ "run_id": run, "output": target }),
        &format!("exported into {}", target.display()),
    );
    Ok(Exit::Done)
}
