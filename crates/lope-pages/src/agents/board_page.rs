//! The board: tasks in columns by state, what needs a person first, and who works.

use std::sync::Arc;

use lope::agents::TaskFilter;
use lope::agents::law::seen::SeenRunner;
use lope::agents::records::{
    AgentRunnerRecord, ProjectRecord, ReviewBy, StopLevel, TaskAttemptRecord, TaskRecord,
    TaskStatus,
};
use lope::tokens::Right;
use lope_http::api_error::ApiError;
use lope_http::call::ApiCall;
use lope_http::context::ServerContext;
use lope_http::endpoint::ApiResult;
use lope_http::parts::{ago, brief, empty, note, state, told};
use lope_http::reply::{encoded, to};
use lope_http::shell::{self, Page};
use maud::{Markup, html};

use super::tasks::{TaskRequest, added};
use super::words::{dollars, status_word};

/// Tasks shown in a column, and runners.
const COLUMN: usize = 50;
const RUNNERS: usize = 20;

/// The columns: a title, the states in it, and the word for an empty one.
const COLUMNS: [(&str, &[TaskStatus], &str); 5] = [
    (
        "Pending",
        &[TaskStatus::Pending],
        "Nothing waits to be started.",
    ),
    (
        "In progress",
        &[TaskStatus::InProgress],
        "No agent is at work.",
    ),
    (
        "Needs you",
        &[TaskStatus::Review, TaskStatus::Blocked],
        "Nobody waits for a person.",
    ),
    (
        "Completed",
        &[TaskStatus::Completed],
        "Nothing is done yet.",
    ),
    (
        "Failed or skipped",
        &[TaskStatus::Failed, TaskStatus::Skipped],
        "Nothing failed.",
    ),
];

/// All that the board shows.
struct BoardParts {
    projects: Vec<ProjectRecord>,
    tasks: Vec<TaskRecord>,
    attempts: Vec<TaskAttemptRecord>,
    runners: Vec<SeenRunner>,
}

pub(super) async fn show(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let board = context.board();
    let projects = board.projects().await?;
    let only = call.query("project").map(str::to_owned);
    let filter = TaskFilter {
        project: only.clone(),
        ..TaskFilter::default()
    };
    let tasks = board.tasks(&filter).await?;
    let mut attempts = Vec::new();
    for project in projects
        .iter()
        .filter(|it| only.as_ref().is_none_or(|only| *only == it.path))
    {
        attempts.extend(board.attempts(&project.path).await?);
    }
    let mut runners = board.runners().await?;
    runners.sort_by_key(|it| (!it.is_live(), std::cmp::Reverse(it.runner.started_at)));
    let parts = BoardParts {
        projects,
        tasks,
        attempts,
        runners,
    };
    let acts = call.caller.right >= Right::Act;
    let body = html! {
        div.head { h1 { "Agents" } span.grow {} span.dim #live {} @if acts && !parts.projects.is_empty() { (add_form(&context, &parts.projects, only.as_deref())) } }
        (note(&context, &call))
        p.sentence data-part="sentence" { (sentence(&parts)) }
        (presets(&context, &parts.projects, only.as_deref()))
        div data-part="board" {
        @if parts.projects.is_empty() { div.card { (empty("Agents work through the tasks of projects. Register a folder and give it a task:", "lope projects add . && lope tasks add 'Write a README' && lope runners start")) } }
        @else if parts.tasks.is_empty() { div.card { (empty("There are no tasks yet. Add one:", "lope tasks add 'Write a README' --project PATH")) } }
        @else { div.board { @for (title, states, none) in COLUMNS { (column(&context, &parts, title, states, none)) } } }
        }
        h2 { "Runners" }
        div.card.flush data-part="runners" { (runners_table(&context, &parts, acts)) }
    };
    let page = Page {
        title: "Agents",
        section: "/agents",
        // What changed while the page was made is not known: it is read once more.
        events: Some(context.path("/api/tasks/events?after=page")),
    };
    Ok(shell::show(&context, &call.caller, &page, &body))
}

fn sentence(parts: &BoardParts) -> Markup {
    let of = |status: TaskStatus| {
        parts
            .tasks
            .iter()
            .filter(move |it| it.status == status)
            .count()
    };
    let questions = of(TaskStatus::Blocked);
    let reviews = parts
        .tasks
        .iter()
        .filter(|task| task.status == TaskStatus::Review && task.review == ReviewBy::Person)
        .count();
    let live = parts.runners.iter().filter(|it| it.is_live()).count();
    let cost: i64 = parts
        .attempts
        .iter()
        .map(|it| it.cost_micros)
        .fold(0, i64::saturating_add);
    html! {
        @if reviews + questions > 0 { strong { (reviews + questions) @if reviews + questions == 1 { " task needs you. " } @else { " tasks need you. " } } }
        (of(TaskStatus::InProgress)) " in progress, " (of(TaskStatus::Pending)) " pending, " (of(TaskStatus::Completed)) " completed. "
        @match live { 0 => "No runner of agents is up.", 1 => "1 runner is up.", count => { (count) " runners are up." } }
        @if cost > 0 { " " (dollars(cost)) " so far." }
    }
}

fn presets(context: &ServerContext, projects: &[ProjectRecord], only: Option<&str>) -> Markup {
    html! {
        @if projects.len() > 1 { div.presets {
            a href=(context.path("/agents")) aria-current=[only.is_none().then_some("page")] { "All projects" }
            @for project in projects.iter().take(COLUMN) {
                a href=(format!("{}?project={}", context.path("/agents"), encoded(&project.path))) title=(project.path)
                    aria-current=[(only == Some(&project.path)).then_some("page")] { (brief(&project.name, 40)) }
            }
        } }
    }
}

fn column(
    context: &ServerContext,
    parts: &BoardParts,
    title: &str,
    states: &[TaskStatus],
    none: &str,
) -> Markup {
    let mut tasks: Vec<&TaskRecord> = parts
        .tasks
        .iter()
        .filter(|task| states.contains(&task.status))
        .collect();
    let is_over = states.contains(&TaskStatus::Completed) || states.contains(&TaskStatus::Failed);
    if is_over {
        tasks.sort_by_key(|task| std::cmp::Reverse(task.updated_at));
    } else {
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.priority), task.created_at));
    }
    html! {
        section.column.needs[title == "Needs you"] aria-label=(title) {
            h2 { (title) " " span.dim { (tasks.len()) } }
            @if tasks.is_empty() { p.dim { (none) } }
            @for task in tasks.iter().take(COLUMN) { (task_card(context, parts, task)) }
            @if tasks.len() > COLUMN { p.dim { "and " (tasks.len() - COLUMN) " more" } }
        }
    }
}

fn task_card(context: &ServerContext, parts: &BoardParts, task: &TaskRecord) -> Markup {
    let own = parts.attempts.iter().filter(|it| it.task_id == task.id);
    let cost: i64 = own
        .clone()
        .map(|it| it.cost_micros)
        .fold(0, i64::saturating_add);
    let last = own.max_by_key(|it| it.number);
    let project = parts
        .projects
        .iter()
        .find(|it| it.path == task.project_path);
    html! {
        a.task href=(context.path(&format!("/agents/tasks/{}", task.id))) {
            span.title { (brief(&task.title, 140)) }
            @if let Some(question) = task.question.as_ref().filter(|_| task.status == TaskStatus::Blocked) { span.ask { "? " (brief(question, 120)) } }
            @else if !matches!(task.status, TaskStatus::Completed | TaskStatus::InProgress) { @if let Some(reason) = &task.reason { span.dim { (brief(reason, 120)) } } }
            span.meta {
                (state(status_word(task)))
                @if parts.projects.len() > 1 { @if let Some(project) = project { span.tag { (brief(&project.name, 24)) } } }
                @if let Some(section) = &task.section_id { span.tag { (brief(section, 24)) } }
                @if let Some(last) = last { span.dim { "attempt " (last.number) } }
                @if cost > 0 { span.dim { (dollars(cost)) } }
                span.dim { (ago(task.updated_at)) }
            }
        }
    }
}

fn add_form(context: &ServerContext, projects: &[ProjectRecord], only: Option<&str>) -> Markup {
    html! {
        details.menu {
            summary.button { "Add a task…" }
            div.panel { form method="post" action=(context.path("/agents/tasks")) {
                label.field { span { "Title" } input name="title" required maxlength="1000"; }
                label.field { span { "Project" } select name="project" { @for project in projects {
                    option value=(project.path) selected[only == Some(&project.path)] { (brief(&project.name, 60)) }
                } } }
                label.field { span { "What is to be done" } textarea.short name="description" {} }
                label.field { span { "Review" } select name="review" {
                    option value="" { "as the settings say" } option value="person" { "by a person" } option value="agent" { "by an agent" } option value="none" { "none" }
                } }
                button.main { "Add" }
            } }
        }
    }
}

fn runners_table(context: &ServerContext, parts: &BoardParts, acts: bool) -> Markup {
    let title = |seen: &SeenRunner| {
        let id = seen.runner.current_task_id.filter(|_| seen.is_live())?;
        parts.tasks.iter().find(|task| task.id == id)
    };
    html! {
        @if parts.runners.is_empty() { (empty("No runner of agents was ever up. Start one in a project's folder:", "lope runners start")) }
        @else { table {
            thead { tr { th { "State" } th { "Project" } th { "At work on" } th.number.less { "Process" } th.number { "Heartbeat" } th.number.less { "Up since" } th {} } }
            tbody { @for (seen, runner) in parts.runners.iter().take(RUNNERS).map(|it| (it, &it.runner)) { tr {
                td { (state(runner_word(seen))) }
                td.wide title=[runner.project_path.as_ref()] { (runner.project_path.as_deref().map_or("–", |path| path.rsplit('/').next().unwrap_or(path))) }
                td.wide { @if let Some(task) = title(seen) { a href=(context.path(&format!("/agents/tasks/{}", task.id))) { (brief(&task.title, 80)) } } @else if let Some(error) = seen.error() { (brief(error, 120)) } }
                td.number.less { @if let Some(pid) = runner.pid { (pid) } }
                td.number.tight { (ago(runner.heartbeat_at)) } td.number.tight.less { (ago(runner.started_at)) }
                td.tight { @if acts && seen.is_live() && runner.stop.is_none() { (stop_form(context, runner)) } }
            } } }
        } }
    }
}

fn stop_form(context: &ServerContext, runner: &AgentRunnerRecord) -> Markup {
    let action = context.path(&format!("/agents/runners/{}/stop", runner.id));
    html! {
        form.inline method="post" action=(action) data-ask="Stop this runner? It ends the task it is at work on first." {
            button title=(format!("lope runners stop {}", runner.id)) { "Stop" }
        }
    }
}

/// Asks a runner to end its task and then itself.
pub(super) async fn stop(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    let board = context.board();
    let seen = board.seen_runner(call.param("id")).await?;
    let said = if seen.is_live() {
        board.ask_to_stop(seen.runner.id, StopLevel::Drain).await?;
        "The runner ends what it is at work on, then stops."
    } else {
        "The runner has ended already."
    };
    let path = context.path("/agents");
    Ok(told(&context, &path, said))
}

fn runner_word(seen: &SeenRunner) -> &'static str {
    match (seen.is_live(), seen.runner.stop.is_some(), seen.word()) {
        (true, true, _) => "stopping",
        (_, _, "completed") => "ended",
        (_, _, word) => word,
    }
}

pub(super) async fn add(context: Arc<ServerContext>, call: ApiCall) -> ApiResult {
    call.expect_type(&["application/x-www-form-urlencoded"])?;
    let title = call.field("title");
    let request = TaskRequest {
        project: call.field("project").unwrap_or_default(),
        title: title.ok_or_else(|| ApiError::bad("title: it is missing"))?,
        description: call.field("description"),
        review: call.field("review"),
        ..TaskRequest::default()
    };
    let task = added(&context, request).await?;
    Ok(to(&context.path(&format!("/agents/tasks/{}", task.id))))
}
