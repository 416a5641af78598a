//! `lope tasks answer|approve|reject|skip|reset|remove`: what people decide.

use clap::Args;
use lope::agents::describe;
use lope::agents::law::decide::Decision;
use lope::agents::records::{Author, SectionRecord};
use serde_json::json;

use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandReport, CommandResult};

#[derive(Debug, Args)]
pub struct DecideArgs {
    /// The task, or the beginning of its id
    task: String,
    /// Words for whoever works on it next
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
}

#[derive(Debug, Args)]
pub struct AnswerArgs {
    /// The task, or the beginning of its id
    task: String,
    /// The answer
    text: String,
}

#[derive(Debug, Args)]
pub struct SkipArgs {
    /// The task, or the beginning of its id
    #[arg(required_unless_present = "section", conflicts_with = "section")]
    task: Option<String>,
    /// A whole section of the project instead of a task
    #[arg(long, value_name = "NAME")]
    section: Option<String>,
    /// Path or name of the section's project  [default: the project around this folder]
    #[arg(long, value_name = "PATH", requires = "section")]
    project: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
}

pub(super) async fn approve(args: DecideArgs, context: &AgentsContext) -> CommandResult {
    decide(&args.task, Decision::Approve { notes: args.notes }, context).await
}

pub(super) async fn reject(args: DecideArgs, context: &AgentsContext) -> CommandResult {
    decide(&args.task, Decision::Reject { notes: args.notes }, context).await
}

pub(super) async fn answer(args: AnswerArgs, context: &AgentsContext) -> CommandResult {
    if args.text.trim().is_empty() {
        return Err(CommandError::usage("nothing is said"));
    }
    decide(&args.task, Decision::Answer { answer: args.text }, context).await
}

pub(super) async fn skip(args: SkipArgs, context: &AgentsContext) -> CommandResult {
    match &args.task {
        Some(task) => decide(task, Decision::Skip { notes: args.notes }, context).await,
        None => section(&args, true, context).await,
    }
}

pub(super) async fn reset(args: SkipArgs, context: &AgentsContext) -> CommandResult {
    match &args.task {
        Some(task) => decide(task, Decision::Reset, context).await,
        None => section(&args, false, context).await,
    }
}

async fn decide(task: &str, decision: Decision, context: &AgentsContext) -> CommandResult {
    context.for_people()?;
    let OpenBoard { client, board } = context.board_with("task", task).await?;
    let next = board.decide(task, &decision, Author::Person).await?;
    client.close().await?;
    let line = format!("task {} is {}", next.id, next.status);
    Ok(CommandReport::new(describe::task(&next), line))
}

async fn section(args: &SkipArgs, skipped: bool, context: &AgentsContext) -> CommandResult {
    context.for_people()?;
    let name = args.section.as_deref().unwrap_or_default();
    if name.trim().is_empty() {
        return Err(CommandError::usage("--section: a section needs a name"));
    }
    let project = args.project.as_deref();
    let OpenBoard { client, board } = context
        .board_with("project", project.unwrap_or("."))
        .await?;
    let project = context.project(&board, project).await?;
    let section: SectionRecord = board.skip_section(&project.path, name, skipped).await?;
    client.close().await?;
    let verb = if skipped {
        "skipped"
    } else {
        "worked on again"
    };
    let value = json!({
        "project": section.project_path,
        "section": section.section_id,
        "skipped": section.skipped,
    });
    Ok(CommandReport::new(
        value,
        format!("section {name} is {verb}"),
    ))
}

pub(super) async fn remove(task: &str, context: &AgentsContext) -> CommandResult {
    context.for_people()?;
    let OpenBoard { client, board } = context.board_with("task", task).await?;
    let removed = board.remove_task(task).await?;
    client.close().await?;
    let line = format!("removed task {}", removed.id);
    Ok(CommandReport::new(describe::task(&removed), line))
}
