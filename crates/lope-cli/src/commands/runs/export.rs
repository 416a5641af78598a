//! `lope runs export`: everything there is of a run, as one JSON document.

use std::io::ErrorKind;
use std::path::Path;

use lope::Client;
use lope_remote::caller;
use serde_json::{Value as Json, json};

use super::find::find;
use crate::commands::shown::{self, OTHER_FILE};
use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

pub(crate) async fn run(
    client: &Client,
    id: &str,
    target: Option<&Path>,
    output: Output,
) -> CliResult<Exit> {
    let mut record = find(client, id).await?;
    let redaction = shown::redact(client, &mut record).await?;
    let mut export = client.export(&record).await?;
    if let Some(redaction) = redaction {
        redaction.document(&mut export);
    }
    write(&export, target, output)
}

fn write(value: &Json, target: Option<&Path>, output: Output) -> CliResult<Exit> {
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    let Some(target) = target else {
        output.document(value, &text);
        return Ok(Exit::Done);
    };
    let written = caller::create_file(target, text.as_bytes(), Some(OTHER_FILE));
    written.map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let message = format!("{} exists already", target.display());
            return CliError::new(Exit::Refused, message).hint(OTHER_FILE);
        }
        CliError::usage(format!("{}: {error}", target.display()))
    })?;
    let run = &value["run"]["run_id"];
    output.result(
        &json!({ "run_id": run, "output": target }),
        &format!("exported into {}", target.display()),
    );
    Ok(Exit::Done)
}
