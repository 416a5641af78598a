//! `lope tasks …`: what people and agents do with tasks. One file a group of verbs.

mod add;
mod agent;
mod decide;
mod diff;
mod lists;
mod logs;
mod query;

use clap::Subcommand;

use crate::context::AgentsContext;
use crate::report::CommandResult;
use crate::tool_words::ToolWords;

#[derive(Debug, Subcommand)]
pub enum TasksCommand {
    /// Add a task to a project
    Add(Box<add::AddTaskArgs>),
    /// List tasks, oldest first
    List(query::ListTasksArgs),
    /// Show a task: its attempts, what was said about it, who works on it
    Show {
        /// The task, or the beginning of its id  [default: the task of the agent that asks]
        task: Option<String>,
    },
    /// Show the task that would be started next
    Next(query::NextArgs),
    /// Take a task, to work on it by hand; prints the token that speaks for it
    Claim(agent::ClaimArgs),
    /// Say something about a task
    Note(agent::SayArgs),
    /// Say that a task is done
    Done(agent::SayArgs),
    /// Say that a task cannot be done
    Fail(agent::SayArgs),
    /// Add the tasks that a task falls apart into; it waits for them
    Split(agent::SplitArgs),
    /// Ask a person; the task waits for the answer
    Ask(agent::SayArgs),
    /// Answer what was asked
    Answer(decide::AnswerArgs),
    /// Accept a task that waits for review
    Approve(decide::DecideArgs),
    /// Send a task back, with notes
    Reject(decide::DecideArgs),
    /// Never start a task, or a section
    Skip(decide::SkipArgs),
    /// Have a task, or a skipped section, worked on from the beginning
    Reset(decide::SkipArgs),
    /// Print what an agent said during an attempt
    Logs(logs::TaskLogsArgs),
    /// Print what an attempt changed in its worktree
    Diff(diff::TaskDiffArgs),
    /// Forget a task
    Remove { task: String },
    /// Add the tasks of a Markdown check list or a JSON file
    Import(lists::ImportArgs),
    /// Print a project's tasks as a Markdown check list or JSON
    Export(lists::ExportArgs),
}

/// What an agent does by the name of a tool.
pub(crate) fn of_agent(tool: &str, mut told: ToolWords) -> TasksCommand {
    if tool == "task_add" {
        return TasksCommand::Add(Box::new(add::AddTaskArgs::told(told)));
    }
    let task = told.text("task");
    let mut said = |name: &str| agent::SayArgs {
        text: told.text(name).unwrap_or_default(),
        task: task.clone(),
    };
    match tool {
        "task_next" => TasksCommand::Next(query::NextArgs::default()),
        "task_claim" => TasksCommand::Claim(agent::ClaimArgs::of(task)),
        "task_split" => TasksCommand::Split(agent::SplitArgs {
            titles: told.texts("titles"),
            task,
        }),
        "task_note" => TasksCommand::Note(said("text")),
        "task_ask" => TasksCommand::Ask(said("question")),
        "task_done" => TasksCommand::Done(said("result")),
        "task_fail" => TasksCommand::Fail(said("reason")),
        _ => TasksCommand::Show { task },
    }
}

pub(crate) async fn run(command: TasksCommand, context: &AgentsContext) -> CommandResult {
    match command {
        TasksCommand::Add(args) => add::run(*args, context).await,
        TasksCommand::List(args) => query::list(args, context).await,
        TasksCommand::Show { task } => query::show(task.as_deref(), context).await,
        TasksCommand::Next(args) => query::next(args, context).await,
        TasksCommand::Claim(args) => agent::claim(args, context).await,
        TasksCommand::Note(args) => agent::note(args, context).await,
        TasksCommand::Done(args) => agent::done(args, context).await,
        TasksCommand::Fail(args) => agent::fail(args, context).await,
        TasksCommand::Split(args) => agent::split(args, context).await,
        TasksCommand::Ask(args) => agent::ask(args, context).await,
        TasksCommand::Answer(args) => decide::answer(args, context).await,
        TasksCommand::Approve(args) => decide::approve(args, context).await,
        TasksCommand::Reject(args) => decide::reject(args, context).await,
        TasksCommand::Skip(args) => decide::skip(args, context).await,
        TasksCommand::Reset(args) => decide::reset(args, context).await,
        TasksCommand::Logs(args) => logs::run(&args, context).await,
        TasksCommand::Diff(args) => diff::run(&args, context).await,
        TasksCommand::Remove { task } => decide::remove(&task, context).await,
        TasksCommand::Import(args) => lists::import(args, context).await,
        TasksCommand::Export(args) => lists::export(args, context).await,
    }
}
