//! A workflow file becomes a plan, or a list of problems with their places; an input becomes a value.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use lope_flow::definition::Definition;
use lope_flow::law::Plan;
use lope_flow::yaml::{self, Report};
use lope_model::{Value, value};

use crate::error::{CliError, CliResult};

/// The plan of a workflow file.
pub(crate) fn read(path: &Path) -> CliResult<Arc<Plan>> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        CliError::usage(format!("{shown}: {error}")).hint("name a workflow file, as in examples/hello.yaml")
    })?;
    let definition = yaml::read(&text, &shown);
    let plan = definition.and_then(|definition| {
        let file = Some(shown.as_str().into());
        Plan::new(&Definition { file, ..definition })
    });
    plan.map(Arc::new).map_err(|problems| {
        let report = Report { file_name: &shown, text: &text, problems: &problems };
        CliError::usage(report.to_string().trim_end())
    })
}

/// Does a text name a workflow file, or a deployed workflow?
pub(crate) fn is_file(text: &str) -> bool {
    let path = Path::new(text);
    path.extension().is_some_and(|end| end == "yaml" || end == "yml") || path.is_file()
}

/// An input as users give it: JSON, `@FILE`, or `-` for standard input. Absent: null.
pub(crate) fn input(said: Option<&str>) -> CliResult<Value> {
    let text = match said {
        None => return Ok(Value::Null),
        Some("-") => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| CliError::usage(format!("standard input: {error}")))?;
            text
        }
        Some(text) => match text.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file).map_err(|error| CliError::usage(format!("{file}: {error}")))?,
            None => text.to_owned(),
        },
    };
    json(&text)
}

pub(crate) fn json(text: &str) -> CliResult<Value> {
    value::from_json(text).map_err(|error| {
        CliError::usage(format!("'{text}' is {error}")).hint("text is written in quotes: '\"like this\"'")
    })
}
