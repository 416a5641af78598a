//! `lope recipes …`: recipe files checked, recipes run and stopped, what runs and why.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use lope::reactive::json::Object;
use lope::reactive::wording::{error_text, failed_event_text, undone_text};
use lope::reactive::{
    FailingNode, NodeLine, ProcessReport, RecipeFile, SpaceAction, SpaceName, read_recipe,
    read_recipe_script, unreadable,
};
use lope::workflows::{Problem, ProblemReport};
use serde_json::{Value, json};

use super::graph::{self, GraphFormat};
use super::{OpenSpaces, TypedCell, address, naming, nothing_runs, tell, value_of};
use crate::commands::workflow_file;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{self, Output, counted};
use crate::table::{Column, Table};

#[derive(Debug, Subcommand)]
pub(crate) enum RecipesCommand {
    /// Say everything that is wrong with recipe files; exit 2 if anything is
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Run a recipe into a cell: it stays alive until it is stopped
    Run {
        /// A recipe file in JSON, YAML or JavaScript (.js); without it the cell's own recipe goes on
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// The cell for its result: SPACE/NAME
        #[arg(long, value_name = "CELL", required_unless_present = "result")]
        into: Option<String>,
        /// The space of the cell for its result, instead of --into
        #[arg(
            long,
            value_name = "SPACE",
            requires = "result",
            conflicts_with = "into"
        )]
        space: Option<String>,
        /// The name of the cell for its result, instead of --into
        #[arg(long, value_name = "NAME", requires = "space", conflicts_with = "into")]
        result: Option<String>,
        /// What it is run with: JSON, @FILE, or - for standard input
        #[arg(long, value_name = "JSON|@FILE|-")]
        argument: Option<String>,
        /// Fail if a module is missing, instead of leaving its node out
        #[arg(long)]
        strict: bool,
    },
    /// Stop what runs into a cell, and what it started
    Stop {
        #[arg(value_name = "CELL")]
        cell: String,
    },
    /// List what runs
    List {
        /// Only in this space
        space: Option<String>,
    },
    /// Show what runs into a cell: its nodes, errors and warnings
    Show {
        #[arg(value_name = "CELL")]
        cell: String,
    },
    /// Say why the nodes of a recipe ran, and what keeps them from running
    Why {
        #[arg(value_name = "CELL")]
        cell: String,
        /// Only this node
        node: Option<usize>,
    },
    /// Draw the nodes of a recipe and who reads what whom wrote
    Graph {
        #[arg(value_name = "CELL")]
        cell: String,
        /// text, mermaid or dot
        #[arg(long, default_value = "text")]
        format: GraphFormat,
    },
}

pub(crate) async fn run(
    command: RecipesCommand,
    settings: impl Fn() -> CliResult<Settings>,
    output: Output,
) -> CliResult<Exit> {
    match command {
        RecipesCommand::Check { files } => Ok(check(&files, output)),
        RecipesCommand::Run {
            file,
            into,
            space,
            result,
            argument,
            strict,
        } => {
            let said = |text: Option<String>| text.unwrap_or_default();
            let into = into.unwrap_or_else(|| format!("{}/{}", said(space), said(result)));
            let recipe = file.as_deref().map(read).transpose()?;
            let at = address(&into)?;
            let argument = argument.as_deref().map(value_of).transpose()?;
            let run = SpaceAction::Run {
                result: at.clone(),
                recipe: recipe.map(|file| file.recipe.document.clone()),
                argument,
                strict,
            };
            let actions = naming(&into, &at).into_iter().chain([run]);
            let action = SpaceAction::All(actions.collect());
            let cell = TypedCell::new(&into, &at);
            ask(&settings()?, cell, action, output, "runs").await?;
            tell_failures(&report(&into, &settings()?).await?, output);
            Ok(Exit::Done)
        }
        RecipesCommand::Stop { cell } => {
            let at = address(&cell)?;
            let action = SpaceAction::Stop { result: at.clone() };
            let cell = TypedCell::new(&cell, &at);
            ask(&settings()?, cell, action, output, "is stopped").await
        }
        RecipesCommand::List { space } => list(space, &settings()?, output).await,
        RecipesCommand::Show { cell } => {
            let report = report(&cell, &settings()?).await?;
            output.document(&json!(report), &show(&report));
            Ok(Exit::Done)
        }
        RecipesCommand::Why { cell, node } => {
            let report = report(&cell, &settings()?).await?;
            why(&report, node, output)
        }
        RecipesCommand::Graph { cell, format } => {
            let report = report(&cell, &settings()?).await?;
            let text = graph::draw(&report, format);
            output.document(&json!({ "result": report.result, "drawing": text }), &text);
            Ok(Exit::Done)
        }
    }
}

fn problems_of(path: &Path) -> (String, Result<RecipeFile, Vec<Problem>>) {
    match workflow_file::text(path) {
        Ok(text) => {
            let is_script = path.extension().is_some_and(|extension| extension == "js");
            let read = if is_script {
                read_recipe_script(&text)
            } else {
                read_recipe(&text)
            };
            (text, read)
        }
        Err(error) => (String::new(), Err(vec![unreadable(&error.to_string())])),
    }
}

fn described(file: &str, text: &str, problems: &[Problem]) -> String {
    let report = ProblemReport {
        file_name: file,
        text,
        problems,
    };
    report.to_string().trim_end().to_owned()
}

fn read(path: &Path) -> CliResult<RecipeFile> {
    let (text, read) = problems_of(path);
    read.map_err(|problems| {
        CliError::usage(described(&path.display().to_string(), &text, &problems))
    })
}

fn check(files: &[PathBuf], output: Output) -> Exit {
    let mut exit = Exit::Done;
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for path in files {
        let file = path.display().to_string();
        let (text, read) = problems_of(path);
        match read {
            Ok(read) => {
                let nodes = read.recipe.nodes.len();
                values.push(json!({ "file": file, "ok": true, "recipe": &*read.recipe.id, "nodes": nodes, "problems": [] }));
                lines.push(format!(
                    "{file} is sound, {}",
                    counted(nodes as u64, "node")
                ));
            }
            Err(problems) => {
                exit = Exit::Usage;
                output::complain(&described(&file, &text, &problems));
                let problems: Vec<Value> = problems.iter().map(problem_json).collect();
                values.push(json!({ "file": file, "ok": false, "problems": problems }));
            }
        }
    }
    if output.json || !lines.is_empty() {
        output.result(&values.into(), &lines.join("\n"));
    }
    exit
}

fn problem_json(problem: &Problem) -> Value {
    json!({ "line": problem.at.line, "column": problem.at.column, "message": problem.message, "hint": problem.hint })
}

async fn ask(
    settings: &Settings,
    cell: TypedCell<'_>,
    action: SpaceAction,
    output: Output,
    done: &str,
) -> CliResult<Exit> {
    let TypedCell { text: named, at } = cell;
    let opened = OpenSpaces::open(settings).await?;
    let exit = opened.ask(named, &at.space, action).await.map(|()| {
        tell(output, "result", at, &format!("{named} {done}"));
        Exit::Done
    });
    opened.close(cell.named(exit)).await
}

async fn list(space: Option<String>, settings: &Settings, output: Output) -> CliResult<Exit> {
    let only = space.map(|space| space.parse::<SpaceName>());
    let only = only
        .transpose()
        .map_err(|error| CliError::usage(error.to_string()))?;
    let opened = OpenSpaces::open_read_only(settings).await?;
    let now = opened.spaces.clock().now();
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    for space in opened.spaces.directory().spaces().await? {
        if only.as_ref().is_some_and(|only| *only != space) {
            continue;
        }
        let entry = opened.spaces.directory().entry(&space, now).await?;
        if entry.is_empty {
            continue;
        }
        let reports = opened.spaces.report(&space).await?;
        let is_hosted = entry.host.is_some();
        let standing = if is_hosted { "hosted" } else { "at rest" };
        let own = reports.iter().filter(|report| report.parent.is_none());
        for report in own.clone() {
            rows.push(vec![
                report.result.clone(),
                report.name.clone().unwrap_or_default(),
                report.nodes.len().to_string(),
                report.failing.to_string(),
                standing.to_owned(),
            ]);
        }
        values.push(json!({
            "space": space.as_str(),
            "host": entry.host.as_ref().map(|(owner, _)| owner),
            "waiting": entry.waiting,
            "active": entry.is_active,
            "recipes": own.map(|report| json!({ "result": report.result, "name": report.name, "recipe": report.recipe, "nodes": report.nodes.len(), "failing": report.failing })).collect::<Vec<_>>(),
        }));
    }
    let titles = ["RESULT", "RECIPE", "NODES", "FAILING", "SPACE"];
    let mut table = Table::new(titles.map(Column::whole));
    rows.into_iter().for_each(|row| table.row(row));
    output.document(&values.into(), &table.text_or("no recipes"));
    opened.close(Ok(Exit::Done)).await
}

/// What runs into a cell.
async fn report(cell: &str, settings: &Settings) -> CliResult<ProcessReport> {
    let at = address(cell)?;
    let opened = OpenSpaces::open_read_only(settings).await?;
    let reports = opened.spaces.report(&at.space).await;
    opened.client.close().await?;
    let names = [cell.to_owned(), at.to_string()];
    let found = reports?
        .into_iter()
        .find(|report| names.contains(&report.result) || names.contains(&report.id));
    found.ok_or_else(|| nothing_runs(cell))
}

fn show(report: &ProcessReport) -> String {
    let name = report.name.as_deref().unwrap_or("a recipe without a name");
    let mut lines = vec![
        format!("{}: {name}", report.result),
        format!("recipe {}", report.recipe),
        format!("process {}", report.process),
    ];
    for node in &report.nodes {
        lines.push(format!(
            "  {} {} ({}), {}",
            node.node,
            node.module,
            node.role,
            counted(node.runs, "run")
        ));
        lines.extend(deeds(node).map(|deed| format!("    {deed}")));
    }
    let warnings = report.warnings.as_object().into_iter();
    for (node, text) in warnings.flat_map(Object::iter) {
        lines.push(format!("  warning: node {node}: {}", error_text(text)));
    }
    lines.extend(failures_below(report));
    lines.join("\n")
}

/// What a node did and what came of it, as far as it is special.
fn deeds(node: &NodeLine) -> impl Iterator<Item = String> {
    let error = node.error.as_ref().map(error_text);
    let sent = node.sent.as_ref().and_then(|sent| sent.child("failed"));
    let event = node.event.as_ref();
    [
        error.map(|error| format!("failed: {error}")),
        (node.into.as_ref()).map(|cell| format!("runs into {cell}")),
        event.map(|event| format!("its last event was '{event}'")),
        node.last_failure.as_ref().map(failed_event_text),
        sent.map(undone_text),
    ]
    .into_iter()
    .flatten()
}

/// What does not work in what a process started, and in its result as a whole.
fn failures_below(report: &ProcessReport) -> Vec<String> {
    let is_own = |path: &str| path.parse::<usize>().is_ok();
    failing_lines(report, |node| !is_own(&node.path))
}

/// A recipe whose nodes fail runs nevertheless: whoever runs it is told at once.
fn tell_failures(report: &ProcessReport, output: Output) {
    let lines = failing_lines(report, |_| true).join("\n");
    if !lines.is_empty() {
        let told = format!("{lines}\n'lope recipes why {}' tells more", report.result);
        output::remark(output, &told);
    }
}

fn failing_lines(report: &ProcessReport, is_meant: impl Fn(&FailingNode) -> bool) -> Vec<String> {
    let meant = report.failures.iter().filter(|node| is_meant(node));
    let why = |it: &FailingNode| error_text(&it.why);
    let told = |it: &FailingNode| format!("  node {} in {}: {}", it.path, it.cell, why(it));
    let mut lines: Vec<String> = meant.map(told).collect();
    if report.failing > report.failures.len() {
        let more = report.failing - report.failures.len();
        lines.push(format!("  and {more} more that do not work"));
    }
    if !lines.is_empty() {
        lines.insert(0, "does not work:".to_owned());
    }
    lines
}

fn why(report: &ProcessReport, node: Option<usize>, output: Output) -> CliResult<Exit> {
    let is_meant = |line: &&NodeLine| node.is_none_or(|node| line.node == node);
    let meant: Vec<&NodeLine> = report.nodes.iter().filter(is_meant).collect();
    if let (Some(node), true) = (node, meant.is_empty()) {
        let message = format!("{} has no node {node}", report.result);
        return Err(CliError::new(Exit::Failed, message));
    }
    let mut lines: Vec<String> = meant.iter().flat_map(|line| explain(line)).collect();
    if node.is_none() {
        lines.extend(failures_below(report));
    }
    output.document(
        &json!({ "result": report.result, "nodes": meant, "failing": report.failing, "failures": report.failures }),
        &lines.join("\n"),
    );
    Ok(Exit::Done)
}

fn explain(line: &NodeLine) -> Vec<String> {
    let mut lines = vec![format!(
        "node {} ({}): {}",
        line.node,
        line.module,
        counted(line.runs, "run")
    )];
    let mut say = |text: String| lines.push(format!("  {text}"));
    if line.role == "handler" {
        let said = if line.live {
            "runs when an event comes"
        } else {
            "does not run: another handler has its stream"
        };
        say(said.to_owned());
    } else if line.role == "left out" {
        say("does not run: its module is missing".to_owned());
    } else if !line.live {
        say("does not run: nobody wants what it writes".to_owned());
    }
    if let Some(reason) = &line.reason {
        say(format!("ran last because {reason}"));
    }
    if let Some(note) = &line.unsettled {
        let what = match note.messages {
            0 => format!("{} runs in one pass; it waits and runs again", note.runs),
            many => format!(
                "{many} messages, effects and reads of other spaces follow from each other; the next one waits"
            ),
        };
        let cycle = note.cycle.join(", ");
        say(format!("non-settling: {what}; around the cycle: {cycle}"));
    } else if let Some(pending) = &line.pending {
        say(format!("has to run because {pending}"));
    }
    deeds(line).for_each(&mut say);
    say(format!("reads {}", listed(&line.reads)));
    say(format!("writes {}", listed(&line.writes)));
    if line.left_out > 0 {
        say(format!("and {} more cells", line.left_out));
    }
    lines
}

fn listed(cells: &[String]) -> String {
    if cells.is_empty() {
        return "nothing".to_owned();
    }
    cells.join(", ")
}
