//! `lope workflows …`: what is wrong with workflow files, what they look like, and which of them a
//! store knows.

mod deployed;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use lope::workflows::{self, Definition, Format, Plan, Problem, ProblemReport, Snippet};
use serde_json::{Value, json};

use super::drawing::{self, Drawing};
use super::python::PythonArgs;
use super::workflow_file;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{self, Output, counted};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowsCommand {
    /// Say everything that is wrong with workflow files; exit 2 if anything is
    Check {
        #[arg(required = true, value_name = "FILE.yaml|MODULE.py[:NAME]")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        python: PythonArgs,
    },
    /// Draw a workflow: a file, or the latest version deployed under a name
    Graph {
        #[arg(value_name = "FILE.yaml|MODULE.py:NAME|NAME")]
        workflow: String,
        #[command(flatten)]
        python: PythonArgs,
        /// text, mermaid, dot or svg
        #[arg(long, default_value = "text")]
        format: Format,
        /// Write the drawing to this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Keep workflows in the store, so that runs can be started by name
    Deploy {
        #[arg(required = true, value_name = "FILE.yaml|MODULE.py:NAME")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        python: PythonArgs,
        /// Check them and store nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// List what is deployed
    List,
    /// Show a deployed workflow: its version, its steps, its runs
    Show { name: String },
}

pub(crate) async fn run(
    command: WorkflowsCommand,
    settings: impl Fn() -> CliResult<Settings>,
    output: Output,
) -> CliResult<Exit> {
    match command {
        WorkflowsCommand::Check { files, python } => {
            let checked: Vec<Checked> = files
                .iter()
                .flat_map(|file| Checked::all(file, &python))
                .collect();
            Ok(report(&checked, output))
        }
        WorkflowsCommand::Graph {
            workflow,
            python,
            format,
            output: target,
        } => {
            let plan = if let Some(plan) = python.plan(Path::new(&workflow))? {
                plan
            } else if workflow_file::is_file(&workflow) {
                workflow_file::read(Path::new(&workflow))?
            } else {
                deployed::latest(&workflow, &settings()?).await?
            };
            draw(&plan, format, target.as_deref(), output)
        }
        WorkflowsCommand::Deploy {
            files,
            python,
            dry_run,
        } => {
            let plans = python.plans(&files)?;
            deployed::deploy(&plans, dry_run, &settings()?, output).await
        }
        WorkflowsCommand::List => deployed::list(&settings()?, output).await,
        WorkflowsCommand::Show { name } => deployed::show(&name, &settings()?, output).await,
    }
}

/// A file that was checked.
struct Checked {
    file: String,
    text: String,
    outcome: Outcome,
}

enum Outcome {
    Valid(Box<Definition>),
    Bad(Vec<Problem>),
    Unreadable(String),
}

impl Checked {
    /// A workflow file, or the workflows of a module that a text names.
    fn all(path: &Path, python: &PythonArgs) -> Vec<Self> {
        let unreadable = |file: String, error: &CliError| Self {
            file,
            text: String::new(),
            outcome: Outcome::Unreadable(error.to_string()),
        };
        match python.targets(path) {
            Err(error) => vec![unreadable(path.display().to_string(), &error)],
            Ok(targets) if targets.is_empty() => vec![Self::read(path)],
            Ok(targets) => targets
                .iter()
                .map(|target| match python.definitions(target) {
                    Err(error) => unreadable(target.to_string(), &error),
                    Ok(plans) => Self {
                        file: target.to_string(),
                        text: String::new(),
                        outcome: Outcome::Valid(Box::new(Definition::clone(plans[0].definition()))),
                    },
                })
                .collect(),
        }
    }

    fn read(path: &Path) -> Self {
        let file = path.display().to_string();
        let text = match workflow_file::text(path) {
            Ok(text) => text,
            Err(error) => {
                return Self {
                    file,
                    text: String::new(),
                    outcome: Outcome::Unreadable(error.to_string()),
                };
            }
        };
        let outcome = workflows::check(&text, &file).map_or_else(Outcome::Bad, |definition| {
            Outcome::Valid(Box::new(definition))
        });
        Self {
            file,
            text,
            outcome,
        }
    }

    fn to_json(&self) -> Value {
        match &self.outcome {
            Outcome::Valid(definition) => {
                json!({
                    "file": self.file,
                    "ok": true,
                    "workflow": &*definition.name,
                    "version": definition.version().to_string(),
                    "steps": steps(definition),
                    "problems": [],
                })
            }
            Outcome::Bad(problems) => {
                let problems: Vec<Value> = problems.iter().map(problem_json).collect();
                json!({ "file": self.file, "ok": false, "problems": problems })
            }
            Outcome::Unreadable(message) => {
                json!({ "file": self.file, "ok": false, "problems": [{ "message": message }] })
            }
        }
    }

    /// Says what is wrong on stderr; answers the line for stdout if nothing is.
    fn complain(&self) -> Option<String> {
        match &self.outcome {
            Outcome::Valid(definition) => {
                return Some(format!(
                    "{}: {} is sound, {}",
                    self.file,
                    definition.name,
                    counted(steps(definition) as u64, "step")
                ));
            }
            Outcome::Bad(problems) => {
                let report = ProblemReport {
                    file_name: &self.file,
                    text: &self.text,
                    problems,
                };
                report
                    .snippets()
                    .for_each(|snippet| output::complain(coloured(&snippet).trim_end()));
            }
            Outcome::Unreadable(message) => output::complain(&format!("{}: {message}", self.file)),
        }
        None
    }
}

fn report(checked: &[Checked], output: Output) -> Exit {
    let ok = checked
        .iter()
        .all(|checked| matches!(checked.outcome, Outcome::Valid(_)));
    let lines: Vec<String> = checked.iter().filter_map(Checked::complain).collect();
    if output.json || !lines.is_empty() {
        output.result(
            &checked.iter().map(Checked::to_json).collect(),
            &lines.join("\n"),
        );
    }
    if ok { Exit::Done } else { Exit::Usage }
}

fn steps(definition: &Definition) -> usize {
    definition
        .blocks
        .iter()
        .map(|block| block.steps.len())
        .sum()
}

fn problem_json(problem: &Problem) -> Value {
    json!({
        "line": problem.at.line,
        "column": problem.at.column,
        "step": Some(&problem.path).filter(|path| !path.is_empty()),
        "message": problem.message,
        "hint": problem.hint,
    })
}

/// As the library prints it, with the mark and the hint in colour.
fn coloured(snippet: &Snippet) -> String {
    let red = anstyle::AnsiColor::Red.on_default();
    let bold = anstyle::Style::new().bold();
    let line = snippet.line.as_ref().map(|(number, line)| {
        let margin = " ".repeat(number.to_string().len());
        let (blanks, length) = &snippet.mark;
        let mark = "^".repeat(*length);
        format!(" {margin} |\n {number} | {line}\n {margin} | {blanks}{red}{mark}{red:#}\n")
    });
    let hint = snippet
        .hint
        .as_ref()
        .map(|hint| format!("  hint: {hint}\n"));
    let (line, hint) = (line.unwrap_or_default(), hint.unwrap_or_default());
    format!(
        "{bold}{}{bold:#}: {}\n{line}{hint}",
        snippet.location, snippet.message
    )
}

fn draw(plan: &Plan, format: Format, target: Option<&Path>, output: Output) -> CliResult<Exit> {
    let text = workflows::draw(plan.definition(), None, format)
        .map_err(|error| CliError::usage(error.to_string()))?;
    let value = json!({ "workflow": &*plan.definition().name, "version": plan.version() });
    drawing::present(
        Drawing {
            text,
            format,
            value,
        },
        target,
        output,
    )
}
