//! `lope projects add|list|show|enable|disable|remove`.

use clap::Subcommand;
use lope::agents::describe;
use lope::agents::records::{ProjectRecord, TaskStatus};
use lope::agents::{AgentBoard, TaskFilter};
use serde_json::{Value as Json, json};

use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandReport, CommandResult};
use crate::table::{RuledTable, or_dash};

#[derive(Debug, Subcommand)]
pub enum ProjectsCommand {
    /// Register a folder
    Add {
        /// The project's folder
        path: String,
        /// What people call it  [default: the folder's name]
        #[arg(long)]
        name: Option<String>,
    },
    /// List projects by path
    List,
    /// Show a project: its tasks by state, its runners
    Show {
        /// Path or name  [default: the project around this folder]
        project: Option<String>,
    },
    /// Let agents work on a project's tasks again
    Enable { project: String },
    /// Start no task of a project any more
    Disable { project: String },
    /// Forget a project; its folder stays as it is
    Remove {
        project: String,
        /// Forget its tasks too
        #[arg(long)]
        force: bool,
    },
}

pub(crate) async fn run(command: ProjectsCommand, context: &AgentsContext) -> CommandResult {
    if !matches!(
        command,
        ProjectsCommand::List | ProjectsCommand::Show { .. }
    ) {
        context.for_people()?;
    }
    match command {
        ProjectsCommand::Add { path, name } => add(&path, name.as_deref(), context).await,
        ProjectsCommand::List => list(context).await,
        ProjectsCommand::Show { project } => {
            let typed = project.as_deref();
            let OpenBoard { client, board } =
                context.board_with("project", typed.unwrap_or(".")).await?;
            let shown = show(&context.project(&board, typed).await?, &board).await;
            client.close().await?;
            shown
        }
        ProjectsCommand::Enable { project } => switch(&project, true, context).await,
        ProjectsCommand::Disable { project } => switch(&project, false, context).await,
        ProjectsCommand::Remove { project, force } => remove(&project, force, context).await,
    }
}

async fn add(typed: &str, name: Option<&str>, context: &AgentsContext) -> CommandResult {
    if name.is_some_and(|name| name.trim().is_empty()) {
        return Err(CommandError::usage("a project needs a name"));
    }
    if typed.is_empty() {
        return Err(CommandError::usage("a project needs a folder").hint("'.' is this one"));
    }
    let path = context.absolute(typed);
    if !path.is_dir() {
        return Err(CommandError::usage(format!(
            "{} is no folder",
            path.display()
        )));
    }
    let Some(text) = path.to_str() else {
        let message = format!("{} is not text in UTF-8", path.display());
        return Err(CommandError::usage(message));
    };
    let OpenBoard { client, board } = context.board().await?;
    let (project, new) = board.add_project(text, name).await?;
    client.close().await?;
    let verb = if new { "registered" } else { "known already:" };
    let line = format!("{verb} {} ({})", project.path, project.name);
    Ok(CommandReport::new(describe::project(&project), line))
}

async fn list(context: &AgentsContext) -> CommandResult {
    let Some(OpenBoard { client, board }) = context.board_if_there().await? else {
        return Ok(CommandReport::new(json!([]), "no projects"));
    };
    let projects = board.projects().await?;
    let tasks = board.tasks(&TaskFilter::default()).await?;
    client.close().await?;
    let columns = [
        "PROJECT",
        "NAME",
        "ENABLED",
        "PENDING",
        "IN PROGRESS",
        "REVIEW",
        "DONE",
    ];
    let mut table = RuledTable::new("PROJECTS", &columns);
    let mut values = Vec::new();
    for project in &projects {
        let own = tasks
            .iter()
            .filter(|task| task.project_path == project.path);
        let own: Vec<TaskStatus> = own.map(|task| task.status).collect();
        let count = |status| own.iter().filter(|own| **own == status).count();
        table.row(vec![
            project.path.clone(),
            project.name.clone(),
            if project.enabled { "yes" } else { "no" }.to_owned(),
            count(TaskStatus::Pending).to_string(),
            count(TaskStatus::InProgress).to_string(),
            count(TaskStatus::Review).to_string(),
            count(TaskStatus::Completed).to_string(),
        ]);
        let mut value = describe::project(project);
        value["tasks"] = by_status(&own);
        values.push(value);
    }
    let text = if projects.is_empty() {
        "no projects".to_owned()
    } else {
        table.text()
    };
    Ok(CommandReport::new(Json::Array(values), text))
}

fn by_status(statuses: &[TaskStatus]) -> Json {
    let all = TaskStatus::ALL.iter();
    let count = |status: &TaskStatus| statuses.iter().filter(|own| *own == status).count();
    all.map(|status| (status.as_str().to_owned(), json!(count(status))))
        .collect::<serde_json::Map<String, Json>>()
        .into()
}

async fn show(project: &ProjectRecord, board: &AgentBoard) -> CommandResult {
    let filter = TaskFilter {
        project: Some(project.path.clone()),
        ..TaskFilter::default()
    };
    let tasks = board.tasks(&filter).await?;
    let statuses: Vec<TaskStatus> = tasks.iter().map(|task| task.status).collect();
    let view = board.view(Some(&project.path)).await?;
    let runners: Vec<_> = view
        .seen_runners()
        .filter(|it| it.runner.project_path.as_ref() == Some(&project.path))
        .collect();
    let mut value = describe::project(project);
    value["tasks"] = by_status(&statuses);
    value["runners"] = runners.iter().map(describe::runner).collect();
    value["sections"] = sections(&view.sections, &tasks);
    let counts = TaskStatus::ALL.iter().filter_map(|status| {
        let count = statuses.iter().filter(|own| *own == status).count();
        (count > 0).then(|| format!("{count} {status}"))
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    let mut lines = vec![
        format!("project   {}", project.path),
        format!("name      {}", project.name),
        format!("enabled   {}", if project.enabled { "yes" } else { "no" }),
        format!(
            "tasks     {}",
            or_dash(
                Some(&counts)
                    .filter(|text| !text.is_empty())
                    .map(String::as_str)
            )
        ),
    ];
    for section in view.sections.iter().filter(|section| section.skipped) {
        lines.push(format!("skipped   {}", section.section_id));
    }
    for seen in runners {
        lines.push(format!("runner    {} {}", seen.runner.id, seen.word()));
    }
    Ok(CommandReport::document(value, lines.join("\n")))
}

fn sections(
    decided: &[lope::agents::records::SectionRecord],
    tasks: &[lope::agents::records::TaskRecord],
) -> Json {
    let mut names: Vec<&str> = tasks
        .iter()
        .filter_map(|task| task.section_id.as_deref())
        .chain(decided.iter().map(|section| section.section_id.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    let skipped = |name: &str| {
        let mut decided = decided.iter();
        decided.any(|section| section.section_id == name && section.skipped)
    };
    names
        .iter()
        .map(|name| json!({ "name": name, "skipped": skipped(name) }))
        .collect()
}

async fn switch(typed: &str, enabled: bool, context: &AgentsContext) -> CommandResult {
    let OpenBoard { client, board } = context.board_with("project", typed).await?;
    let path = context.project(&board, Some(typed)).await?.path;
    let project = board.enable_project(&path, enabled).await?;
    client.close().await?;
    let verb = if enabled { "enabled" } else { "disabled" };
    let line = format!("{verb} {}", project.path);
    Ok(CommandReport::new(describe::project(&project), line))
}

async fn remove(typed: &str, force: bool, context: &AgentsContext) -> CommandResult {
    let OpenBoard { client, board } = context.board_with("project", typed).await?;
    let path = context.project(&board, Some(typed)).await?.path;
    let removed = board.remove_project(&path, force).await.map_err(|error| {
        CommandError::from(error)
            .hint("--force forgets its tasks too; a runner must be stopped first")
    })?;
    client.close().await?;
    let line = format!(
        "removed {} with {} tasks",
        removed.project.path, removed.tasks
    );
    let mut value = describe::project(&removed.project);
    value["removedTasks"] = json!(removed.tasks);
    Ok(CommandReport::new(value, line))
}
