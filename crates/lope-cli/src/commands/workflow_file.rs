//! A workflow file becomes a plan, or a list of problems with their places; an input becomes a
//! value.

use std::io;
use std::path::Path;
use std::sync::Arc;

use lope::tokens::Right;
use lope::workflows::{self, Plan, ProblemReport};
use lope_model::{Value, value};
use lope_remote::caller;

use crate::error::{CliError, CliResult, Exit};

/// Most bytes of a workflow file, or of an input as text.
const TEXT_MAX: u64 = 64 * 1024 * 1024;
/// Most characters of a bad input that its message repeats.
const SHOWN_MAX: usize = 80;

/// The plan of a workflow file, which whoever asked may deploy.
pub(crate) fn read(path: &Path) -> CliResult<Arc<Plan>> {
    may_deploy()?;
    let shown = path.display().to_string();
    let text = text(path).map_err(|error| {
        CliError::usage(format!("{shown}: {error}"))
            .hint("name a workflow file, as in examples/hello.yaml")
    })?;
    workflows::read(&text, &shown).map_err(|problems| {
        let report = ProblemReport {
            file_name: &shown,
            text: &text,
            problems: &problems,
        };
        CliError::usage(report.to_string().trim_end())
    })
}

/// Does a text name a workflow file, or a deployed workflow?
pub(crate) fn is_file(text: &str) -> bool {
    let path = Path::new(text);
    path.extension()
        .is_some_and(|end| end == "yaml" || end == "yml")
        || caller::is_file(path)
}

/// A workflow that is not in the store yet takes the right to deploy it.
pub(crate) fn may_deploy() -> CliResult<()> {
    match caller::lacks(Right::Admin) {
        None => Ok(()),
        Some(right) => {
            let message =
                "a workflow that comes with a command is deployed, which takes the right 'admin'";
            let error = CliError::new(Exit::Refused, message);
            Err(error.hint(format!(
                "the token has the right '{right}'; name a workflow that is deployed"
            )))
        }
    }
}

/// The text of a file that people wrote.
pub(crate) fn text(path: &Path) -> io::Result<String> {
    bounded(caller::read_file(path, TEXT_MAX)?)
}

/// All of it, unless it is too much: what never ends is not read for ever.
fn bounded(bytes: Vec<u8>) -> io::Result<String> {
    if bytes.len() as u64 > TEXT_MAX {
        return Err(io::Error::other(format!(
            "it has more than {TEXT_MAX} bytes, which is too much"
        )));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text in UTF-8"))
}

/// An input as users give it: JSON, `@FILE`, or `-` for standard input. Absent: null.
pub(crate) fn input(said: Option<&str>) -> CliResult<Value> {
    let (name, read) = match said {
        None => return Ok(Value::Null),
        Some("-") => (
            "standard input",
            caller::read_stdin(TEXT_MAX).and_then(bounded),
        ),
        Some(said) => match said.strip_prefix('@') {
            Some(file) => (file, text(Path::new(file))),
            None => return json(&format!("'{}'", beginning(said)), said),
        },
    };
    json(
        name,
        &read.map_err(|error| CliError::usage(format!("{name}: {error}")))?,
    )
}

fn json(name: &str, text: &str) -> CliResult<Value> {
    value::from_json(text).map_err(|error| {
        CliError::usage(format!("{name} is {error}"))
            .hint("text is written in quotes: '\"like this\"'")
    })
}

/// As much of a text as a message can show.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
