//! `lope tasks list|show|next`.

use clap::Args;
use lope::agents::law::select::{TaskQuery, eligible, role};
use lope::agents::records::{TaskAttemptRecord, TaskEventRecord, TaskRecord, TaskStatus};
use lope::agents::{BoardError, TaskDetail, TaskFilter, describe};
use serde_json::{Value as Json, json};

use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};
use crate::table::{RuledTable, cut, or_dash, short};

#[derive(Debug, Args)]
pub struct ListTasksArgs {
    /// Path or name of the project  [default: all]
    #[arg(long, value_name = "PATH")]
    project: Option<String>,
    #[arg(long, value_name = "NAME")]
    section: Option<String>,
    /// pending, in_progress, review, completed, failed, skipped or blocked; may be given again
    #[arg(long, value_name = "STATUS")]
    status: Vec<String>,
    /// At most so many, the youngest
    #[arg(long, default_value_t = 1_000)]
    limit: usize,
}

#[derive(Debug, Default, Args)]
pub struct NextArgs {
    /// Path or name of the project  [default: the project of the agent that asks, or around this folder]
    #[arg(long, value_name = "PATH")]
    project: Option<String>,
    #[arg(long, value_name = "NAME")]
    section: Option<String>,
}

pub(super) async fn list(args: ListTasksArgs, context: &AgentsContext) -> CommandResult {
    let statuses = args.status.iter().map(|text| text.parse::<TaskStatus>());
    let statuses = statuses.collect::<Result<Vec<_>, _>>();
    let statuses = statuses.map_err(|error| CommandError::usage(format!("--status: {error}")))?;
    if args.limit == 0 {
        return Err(CommandError::usage("--limit: at least 1"));
    }
    let Some(OpenBoard { client, board }) = context.board_if_there().await? else {
        return match &args.project {
            Some(name) => Err(missing_project(name)),
            None => Ok(CommandReport::new(json!([]), "no tasks")),
        };
    };
    let project = match args.project.as_deref() {
        Some(typed) => Some(context.project(&board, Some(typed)).await?.path),
        None => None,
    };
    let filter = TaskFilter {
        project,
        section: args.section,
        statuses,
    };
    let mut tasks = board.tasks(&filter).await?;
    client.close().await?;
    tasks.drain(..tasks.len().saturating_sub(args.limit));
    let value: Json = tasks.iter().map(describe::task).collect();
    Ok(CommandReport::new(value, table(&tasks)))
}

fn missing_project(name: &str) -> CommandError {
    BoardError::Missing {
        what: "project",
        name: name.to_owned(),
    }
    .into()
}

fn table(tasks: &[TaskRecord]) -> String {
    if tasks.is_empty() {
        return "no tasks".to_owned();
    }
    let columns = [
        "ID", "STATUS", "PRIO", "SECTION", "ATTEMPTS", "PROJECT", "TITLE",
    ];
    let mut table = RuledTable::new("TASKS", &columns);
    for task in tasks {
        table.row(vec![
            short(&task.id),
            task.status.as_str().to_owned(),
            task.priority.to_string(),
            cut(&or_dash(task.section_id.as_deref()), 20),
            task.attempts.to_string(),
            task.project_path.clone(),
            cut(&task.title, 60),
        ]);
    }
    table.text()
}

pub(super) async fn show(typed: Option<&str>, context: &AgentsContext) -> CommandResult {
    let named = named(typed, context)?;
    let OpenBoard { client, board } = context.board_with("task", &named).await?;
    let detail = board.task_detail(&named).await?;
    client.close().await?;
    let mut value = describe::task(&detail.task);
    value["attemptList"] = detail.attempts.iter().map(describe::attempt).collect();
    value["events"] = detail.events.iter().map(describe::event).collect();
    if let Some((lock, stands)) = &detail.lock {
        value["lock"] = describe::lock(lock, *stands);
    }
    Ok(CommandReport::document(value, lines(&detail)))
}

/// The task that is meant: the one that was typed, or the agent's own.
pub(super) fn named(typed: Option<&str>, context: &AgentsContext) -> CommandResult<String> {
    let own = context.token.map(|token| token.task.to_string());
    typed.map(str::to_owned).or(own).ok_or_else(|| {
        CommandError::usage("which task?").hint("give its id, or the beginning of it")
    })
}

fn lines(detail: &TaskDetail) -> String {
    let TaskDetail {
        task,
        lock,
        attempts,
        events,
    } = detail;
    let needs: Vec<String> = task.dependencies.iter().map(short).collect();
    let rows = [
        ("task", Some(task.id.to_string())),
        ("title", Some(task.title.clone())),
        ("project", Some(task.project_path.clone())),
        ("section", task.section_id.clone()),
        ("status", Some(task.status.to_string())),
        ("reason", task.reason.clone()),
        ("priority", Some(task.priority.to_string())),
        (
            "needs",
            Some(needs.join(" ")).filter(|text| !text.is_empty()),
        ),
        ("source", task.source_file.clone()),
        ("review", Some(task.review.to_string())),
        ("attempts", Some(task.attempts.to_string())),
        (
            "rejections",
            Some(task.rejections.to_string()).filter(|_| task.rejections > 0),
        ),
        ("not before", task.not_before.map(|time| time.to_string())),
        ("question", task.question.clone()),
        ("answer", task.answer.clone()),
        ("result", task.result.clone()),
        (
            "lock",
            lock.as_ref().map(|(lock, stands)| {
                let word = describe::lock_word(*stands);
                format!("{word} by {} until {}", lock.runner_id, lock.expires_at)
            }),
        ),
    ];
    let shown = rows
        .into_iter()
        .filter_map(|(name, text)| Some(format!("{name:<10} {}", text?)));
    let mut lines: Vec<String> = shown.collect();
    if !task.description.is_empty() {
        lines.push(format!("\n{}", task.description));
    }
    lines.extend(history(attempts, events));
    lines.join("\n")
}

/// What happened to a task.
fn history(attempts: &[TaskAttemptRecord], events: &[TaskEventRecord]) -> Vec<String> {
    let mut lines = Vec::new();
    if !attempts.is_empty() {
        lines.push("\nattempts".to_owned());
    }
    for attempt in attempts {
        let reason = attempt
            .stop_reason
            .map_or("at work", |reason| reason.as_str());
        let counted = if attempt.counted { "" } else { ", not counted" };
        let cost = attempt.cost_micros as f64 / 1e6;
        lines.push(format!(
            "  {} {} by {} at {}: {reason}{counted}, ${cost:.2}",
            attempt.number, attempt.role, attempt.agent, attempt.started_at
        ));
        if let Some(run) = attempt.run_id {
            lines.push(format!("    run {run}"));
        }
        if let Some(worktree) = &attempt.worktree {
            lines.push(format!("    worktree {worktree}"));
        }
    }
    if !events.is_empty() {
        lines.push("\nevents".to_owned());
    }
    for event in events {
        lines.push(format!(
            "  {} {} {}: {}",
            event.at, event.author, event.kind, event.message
        ));
    }
    lines
}

pub(super) async fn next(args: NextArgs, context: &AgentsContext) -> CommandResult {
    let name = args.project.as_deref().unwrap_or(".");
    let OpenBoard { client, board } = context.board_with("project", name).await?;
    let project = context.project(&board, args.project.as_deref()).await?;
    let view = board.view(Some(&project.path)).await?;
    client.close().await?;
    let query = TaskQuery {
        project: Some(&project.path),
        section: args.section.as_deref(),
        ..TaskQuery::default()
    };
    let Some(task) = eligible(&view, &query, &board.rules).into_iter().next() else {
        let report = CommandReport::new(Json::Null, "no task can be started now");
        return Ok(report.exiting(CommandExit::Failed));
    };
    let mut value = describe::task(task);
    value["role"] = json!(role(task).as_str());
    let line = format!("{}  {}  {}", task.id, role(task), task.title);
    Ok(CommandReport::document(value, line))
}
