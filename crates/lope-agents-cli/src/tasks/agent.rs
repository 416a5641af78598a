//! `lope tasks claim|note|done|fail|split|ask`: what an agent says about its own task, and what
//! people may say about any.

use clap::Args;
use lope::agents::law::decide::Decision;
use lope::agents::law::select::{TaskQuery, role};
use lope::agents::records::{Author, TaskRecord};
use lope::agents::{AgentBoard, ClaimOutcome, HeldTask, TOKEN_VARIABLE, TaskToken, describe};
use lope_model::id::TaskId;
use lope_model::{RunnerId, Span};
use serde_json::{Value as Json, json};

use super::query::named;
use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};

#[derive(Debug, Default, Args)]
pub struct ClaimArgs {
    /// The task, or the beginning of its id  [default: the next one; for an agent, its own]
    task: Option<String>,
    /// Path or name of the project  [default: the project around this folder]
    #[arg(long, value_name = "PATH")]
    project: Option<String>,
    #[arg(long, value_name = "NAME")]
    section: Option<String>,
    /// How long it stays taken  [default: `runners.lockExpiry` of the configuration]
    #[arg(long, value_name = "DURATION")]
    expiry: Option<String>,
}

#[derive(Debug, Args)]
pub struct SayArgs {
    /// What is said
    pub(super) text: String,
    /// The task, or the beginning of its id  [default: the task of the agent that says it]
    #[arg(long, value_name = "ID")]
    pub(super) task: Option<String>,
}

#[derive(Debug, Args)]
pub struct SplitArgs {
    /// What the parts are called
    #[arg(required = true)]
    pub(super) titles: Vec<String>,
    /// The task, or the beginning of its id  [default: the task of the agent that splits it]
    #[arg(long, value_name = "ID")]
    pub(super) task: Option<String>,
}

impl ClaimArgs {
    /// What an agent claims by a tool.
    pub(super) fn of(task: Option<String>) -> Self {
        Self {
            task,
            ..Self::default()
        }
    }
}

pub(super) async fn claim(args: ClaimArgs, context: &AgentsContext) -> CommandResult {
    if let Some(token) = &context.token {
        return claimed_before(&args, token, context).await;
    }
    let expiry = match &args.expiry {
        Some(text) => {
            some_time(text).map_err(|error| CommandError::usage(format!("--expiry: {error}")))?
        }
        None => context.runners.lock_expiry,
    };
    let OpenBoard { client, board } = context.board().await?;
    let wanted = match args.task.as_deref() {
        Some(named) => Some(board.task(named).await?),
        None => None,
    };
    let project = match &wanted {
        Some(task) => task.project_path.clone(),
        None => context.project(&board, args.project.as_deref()).await?.path,
    };
    let query = TaskQuery {
        project: Some(&project),
        section: args.section.as_deref(),
        task: wanted.as_ref().map(|task| task.id),
        me: None,
    };
    let me = RunnerId::from_uuid(uuid::Uuid::new_v4());
    let outcome = board.claim(&query, me, expiry).await?;
    client.close().await?;
    claimed(outcome)
}

/// An agent has claimed its own task, as long as it holds it, and takes no other.
async fn claimed_before(
    args: &ClaimArgs,
    token: &TaskToken,
    context: &AgentsContext,
) -> CommandResult {
    let own = token.task.to_string();
    let OpenBoard { client, board } = context.board_with("task", &own).await?;
    let typed = args.task.as_deref().unwrap_or(&own);
    if board.task(typed).await?.id != token.task {
        let message = format!("an agent at work on task {own} takes no other");
        return Err(CommandError::refused(message).hint("'lope tasks next' shows what comes next"));
    }
    let lock = board.lock_of_token(token).await?;
    let task = board.task(&own).await?;
    client.close().await?;
    let held = HeldTask {
        role: role(&task),
        task,
        lock,
    };
    let text = format!("{own} is yours already  {}", held.task.title);
    Ok(CommandReport::document(held_value(&held), text))
}

fn some_time(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    let is_some = span != Span::ZERO;
    is_some
        .then_some(span)
        .ok_or_else(|| "it must be longer than nothing".to_owned())
}

fn claimed(outcome: ClaimOutcome) -> CommandResult {
    match outcome {
        ClaimOutcome::Claimed(held) => {
            let token = TaskToken::from(&held.lock);
            let title = &held.task.title;
            let text = format!(
                "claimed {}  {title}\nexport {TOKEN_VARIABLE}={token}",
                held.task.id
            );
            Ok(CommandReport::document(held_value(&held), text))
        }
        ClaimOutcome::NotNow(why) => Err(CommandError::refused(why.to_string())),
        ClaimOutcome::Nothing => {
            let report = CommandReport::new(Json::Null, "no task can be started now");
            Ok(report.exiting(CommandExit::Failed))
        }
        ClaimOutcome::Early(time) => {
            let text = format!("no task can be started before {time}");
            Ok(CommandReport::new(Json::Null, text).exiting(CommandExit::Failed))
        }
        ClaimOutcome::NextDay(day) => Err(CommandError::refused(format!(
            "the budget of the day is used up until {day}"
        ))),
        ClaimOutcome::Exhausted { task, reason } => {
            Err(CommandError::refused(format!("task {task}: {reason}")))
        }
    }
}

fn held_value(held: &HeldTask) -> Json {
    let mut value = describe::task(&held.task);
    value["token"] = json!(TaskToken::from(&held.lock).to_string());
    value["role"] = json!(held.role.as_str());
    value["expiresAt"] = json!(held.lock.expires_at.to_string());
    value
}

/// The task that is spoken of. An agent speaks of its own alone, and only while it is its own.
async fn spoken_of(
    board: &AgentBoard,
    typed: Option<&str>,
    words: &str,
    context: &AgentsContext,
) -> CommandResult<(TaskRecord, Author)> {
    let task = board.task(&named(typed, context)?).await?;
    let Some(token) = &context.token else {
        return Ok((task, Author::Person));
    };
    if token.task != task.id {
        let message = format!("an agent at work on task {} speaks of no other", token.task);
        return Err(CommandError::refused(message));
    }
    board.lock_to_write(token, words).await?;
    Ok((task, Author::Agent))
}

impl SayArgs {
    fn masked(self, context: &AgentsContext) -> Self {
        Self {
            text: context.masked(self.text),
            ..self
        }
    }

    /// The same, if anything is said.
    fn with_words(self, context: &AgentsContext) -> CommandResult<Self> {
        if self.text.trim().is_empty() {
            return Err(CommandError::usage("nothing is said"));
        }
        Ok(self.masked(context))
    }
}

pub(super) async fn note(args: SayArgs, context: &AgentsContext) -> CommandResult {
    let args = args.with_words(context)?;
    let OpenBoard { client, board } = context.board_with("task", named_or_dash(&args)).await?;
    let (task, author) = spoken_of(&board, args.task.as_deref(), &args.text, context).await?;
    let task = board.note(&task.id.to_string(), author, &args.text).await?;
    client.close().await?;
    Ok(CommandReport::new(
        describe::task(&task),
        format!("noted for task {}", task.id),
    ))
}

fn named_or_dash(args: &SayArgs) -> &str {
    args.task.as_deref().unwrap_or("-")
}

pub(super) async fn done(args: SayArgs, context: &AgentsContext) -> CommandResult {
    let args = args.masked(context);
    let decision = Decision::Done {
        result: Some(args.text.clone()).filter(|text| !text.is_empty()),
    };
    declare(&args, &decision, context).await
}

pub(super) async fn fail(args: SayArgs, context: &AgentsContext) -> CommandResult {
    let args = args.with_words(context)?;
    let decision = Decision::Fail {
        reason: args.text.clone(),
    };
    declare(&args, &decision, context).await
}

/// Whoever writes an id where words are expected means that task, not his own.
fn no_other_task(args: &SayArgs, context: &AgentsContext) -> CommandResult<()> {
    let own = context.token.as_ref().map(|token| token.task);
    match args.text.trim().parse::<TaskId>() {
        Ok(id) if Some(id) != own => Err(CommandError::usage(format!(
            "'{id}' is the id of a task: what is said about it is missing"
        ))
        .hint("'TEXT --task ID' names a task; an agent speaks of its own alone")),
        Ok(_) | Err(_) => Ok(()),
    }
}

async fn declare(args: &SayArgs, decision: &Decision, context: &AgentsContext) -> CommandResult {
    no_other_task(args, context)?;
    let OpenBoard { client, board } = context.board_with("task", named_or_dash(args)).await?;
    let words = format!("{} {}", decision.event(), args.text);
    let (task, author) = spoken_of(&board, args.task.as_deref(), &words, context).await?;
    let next = match &context.token {
        Some(token) => board.declare(token, decision).await?,
        None => board.decide(&task.id.to_string(), decision, author).await?,
    };
    client.close().await?;
    let line = format!("task {} is {}", next.id, next.status);
    Ok(CommandReport::new(describe::task(&next), line))
}

pub(super) async fn ask(args: SayArgs, context: &AgentsContext) -> CommandResult {
    let args = args.with_words(context)?;
    let OpenBoard { client, board } = context.board_with("task", named_or_dash(&args)).await?;
    let (task, author) = spoken_of(&board, args.task.as_deref(), &args.text, context).await?;
    let ask = Decision::Ask {
        question: args.text,
    };
    let next = board.decide(&task.id.to_string(), &ask, author).await?;
    client.close().await?;
    let line = format!("asked; 'lope tasks answer {} TEXT' answers", next.id);
    Ok(CommandReport::new(describe::task(&next), line))
}

pub(super) async fn split(args: SplitArgs, context: &AgentsContext) -> CommandResult {
    let name = args.task.as_deref().unwrap_or("-");
    let titles = args.titles.into_iter();
    let titles: Vec<String> = titles.map(|title| context.masked(title)).collect();
    let OpenBoard { client, board } = context.board_with("task", name).await?;
    let words = format!("split {}", titles.join(", "));
    let (task, author) = spoken_of(&board, args.task.as_deref(), &words, context).await?;
    let parts = board.split(&task.id.to_string(), &titles, author).await?;
    client.close().await?;
    let lines: Vec<String> = parts
        .iter()
        .map(|part| format!("added task {}  {}", part.id, part.title))
        .collect();
    Ok(CommandReport::new(
        parts.iter().map(describe::task).collect(),
        lines.join("\n"),
    ))
}
