//! `lope tasks import|export`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lope::agents::task_list::{
    self, BadTaskList, ListedTask, read_json, read_markdown, write_json, write_markdown,
};
use lope::agents::{BoardError, TaskFilter, describe};
use lope_remote::caller;
use serde_json::{Value as Json, json};

use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};

/// Largest list that is read.
const LIST_MAX: u64 = 16 * 1024 * 1024;

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// A Markdown check list, or JSON (by the name's end)
    file: PathBuf,
    /// Path or name of the project  [default: the project around this folder]
    #[arg(long, value_name = "PATH")]
    project: Option<String>,
    /// Say what would be added, and add nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Path or name of the project  [default: the project around this folder]
    #[arg(long, value_name = "PATH")]
    project: Option<String>,
    #[arg(long, value_enum, default_value_t = ListFormat::Markdown)]
    format: ListFormat,
    /// Into this file instead of stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum ListFormat {
    Markdown,
    Json,
}

pub(super) async fn import(args: ImportArgs, context: &AgentsContext) -> CommandResult {
    context.for_people()?;
    let listed = read(&context.folder.join(&args.file), &args.file)?;
    let OpenBoard { client, board } = if args.dry_run {
        context
            .board_with("project", args.project.as_deref().unwrap_or("."))
            .await?
    } else {
        context.board().await?
    };
    let project = context.project(&board, args.project.as_deref()).await?;
    let review = context.review();
    let placed = |error| match error {
        BoardError::BadList { line, message } => {
            CommandError::usage(format!("{}:{line}: {message}", args.file.display()))
                .hint("'lope tasks list' shows what there is")
        }
        other => other.into(),
    };
    let (added, skipped): (Vec<Json>, usize) = if args.dry_run {
        let missing = task_list::missing(&board, &project.path, &listed, review).await;
        let missing = missing.map_err(placed)?;
        let titles = missing.drafts.iter();
        let titles = titles.map(|task| json!({ "title": task.title }));
        (titles.collect(), missing.skipped)
    } else {
        let imported = task_list::import(&board, &project.path, &listed, review).await;
        let imported = imported.map_err(placed)?;
        let added = imported.added.iter().map(describe::task);
        (added.collect(), imported.skipped)
    };
    client.close().await?;
    let count = added.len();
    let would = if args.dry_run { "would add" } else { "added" };
    let text = format!(
        "{would} {count} tasks to {}, {skipped} were there",
        project.path
    );
    let value = json!({ "added": added, "skipped": skipped, "dryRun": args.dry_run });
    Ok(CommandReport::new(value, text))
}

fn read(path: &Path, typed: &Path) -> CommandResult<Vec<ListedTask>> {
    let shown = typed.display();
    let unread = |error: std::io::Error| CommandError::usage(format!("{shown}: {error}"));
    // What is no file may never end; a folder says so itself.
    let is_odd = |meta: std::fs::Metadata| !meta.is_file() && !meta.is_dir();
    if !caller::is_remote() && is_odd(std::fs::metadata(path).map_err(unread)?) {
        return Err(CommandError::usage(format!("{shown}: it is no file")));
    }
    // Whoever sits elsewhere is asked for it by the name that was typed.
    let named = if caller::is_remote() { typed } else { path };
    let bytes = caller::read_file(named, LIST_MAX).map_err(unread)?;
    if bytes.len() as u64 > LIST_MAX {
        return Err(CommandError::usage(format!(
            "{shown}: more than {LIST_MAX} bytes"
        )));
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(CommandError::usage(format!("{shown}: not text in UTF-8")));
    };
    let is_json = path.extension().is_some_and(|end| end == "json");
    let listed = if is_json {
        read_json(&text)
    } else {
        read_markdown(&text)
    };
    let hint = if is_json {
        r#"a list is an array of objects, as in [{"title": "…", "section": "…"}]"#
    } else {
        "a task is a line '- [ ] TITLE'; '## NAME' begins a section"
    };
    listed.map_err(|BadTaskList { line, message }| {
        CommandError::usage(format!("{shown}:{line}: {message}")).hint(hint)
    })
}

pub(super) async fn export(args: ExportArgs, context: &AgentsContext) -> CommandResult {
    let name = args.project.as_deref().unwrap_or(".");
    let OpenBoard { client, board } = context.board_with("project", name).await?;
    let project = context.project(&board, args.project.as_deref()).await?;
    let filter = TaskFilter {
        project: Some(project.path.clone()),
        ..TaskFilter::default()
    };
    let tasks = board.tasks(&filter).await?;
    client.close().await?;
    let listed: Vec<ListedTask> = tasks.iter().map(ListedTask::from).collect();
    let text = match args.format {
        ListFormat::Markdown => write_markdown(&project.name, &listed),
        ListFormat::Json => write_json(&listed),
    };
    let value = || tasks.iter().map(describe::task).collect::<Json>();
    let Some(file) = args.output else {
        return Ok(CommandReport::verbatim(value(), text));
    };
    let path = if caller::is_remote() {
        file.clone()
    } else {
        context.folder.join(&file)
    };
    caller::create_file(&path, text.as_bytes(), None).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let message = format!("{} exists already", file.display());
            return CommandError::new(CommandExit::Refused, message);
        }
        CommandError::usage(format!("{}: {error}", file.display()))
    })?;
    let line = format!("wrote {} tasks to {}", tasks.len(), file.display());
    Ok(CommandReport::new(value(), line))
}
