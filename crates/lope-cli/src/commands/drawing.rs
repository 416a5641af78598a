//! A drawing goes to a file, to stdout, or into JSON.

use std::path::Path;

use lope::workflows::Format;
use lope_remote::caller;
use serde_json::{Value, json};

use crate::error::{CliError, CliResult, Exit};
use crate::output::Output;

/// A drawing and what is said about it in JSON.
pub(crate) struct Drawing {
    pub(crate) text: String,
    pub(crate) format: Format,
    pub(crate) value: Value,
}

pub(crate) fn present(drawing: Drawing, target: Option<&Path>, output: Output) -> CliResult<Exit> {
    let Drawing {
        text,
        format,
        mut value,
    } = drawing;
    let word = Format::ALL
        .iter()
        .find(|(_, known)| *known == format)
        .map_or("text", |(word, _)| *word);
    value["format"] = json!(word);
    if let Some(target) = target {
        let written = caller::write_file(target, text.as_bytes());
        written.map_err(|error| CliError::usage(format!("{}: {error}", target.display())))?;
        value["output"] = json!(target);
        output.result(&value, &format!("drawn into {}", target.display()));
    } else {
        value["drawing"] = json!(anstream::adapter::strip_str(&text).to_string());
        output.document(&value, &text);
    }
    Ok(Exit::Done)
}
