//! `lope tasks add`.

use clap::Args;
use lope::agents::records::{Budget, ReviewBy};
use lope::agents::{TaskDraft, describe};
use lope_model::Span;

use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandReport, CommandResult};
use crate::tool_words::ToolWords;

#[derive(Debug, Args)]
pub struct AddTaskArgs {
    /// What is to be done, in a line
    title: String,
    /// Path or name of the project  [default: the project of the agent that adds it, or around this folder]
    #[arg(long, value_name = "PATH")]
    project: Option<String>,
    /// What is to be done, in full
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The part of the list it belongs to
    #[arg(long, value_name = "NAME")]
    section: Option<String>,
    /// 0 to 9, higher first
    #[arg(long, default_value_t = PRIORITY, allow_negative_numbers = true)]
    priority: i64,
    /// The specification it comes from
    #[arg(long, value_name = "FILE#PART")]
    source: Option<String>,
    /// Tasks that must be completed first
    #[arg(long, value_name = "ID", num_args = 1..)]
    needs: Vec<String>,
    /// Who reviews it: agent, person or none  [default: `runners.review` of the configuration]
    #[arg(long, value_name = "WHO")]
    review: Option<String>,
    /// Most attempts that count
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Longest work on it, all attempts together
    #[arg(long, value_name = "DURATION")]
    max_time: Option<String>,
    /// Most that it may cost, in dollars
    #[arg(long, value_name = "DOLLARS")]
    max_cost: Option<f64>,
}

/// The priority of a task that does not say it.
const PRIORITY: i64 = 4;

impl AddTaskArgs {
    /// A task that an agent adds by a tool.
    pub(super) fn told(mut told: ToolWords) -> Self {
        let priority = told.text("priority").and_then(|text| text.parse().ok());
        Self {
            title: told.text("title").unwrap_or_default(),
            project: None,
            description: told.text("description"),
            section: told.text("section"),
            priority: priority.unwrap_or(PRIORITY),
            source: told.text("source"),
            needs: told.texts("needs"),
            review: None,
            max_attempts: None,
            max_time: None,
            max_cost: None,
        }
    }

    fn masked(self, context: &AgentsContext) -> Self {
        let masked = |words: Option<String>| words.map(|words| context.masked(words));
        Self {
            title: context.masked(self.title),
            description: masked(self.description),
            section: masked(self.section),
            source: masked(self.source),
            ..self
        }
    }
}

pub(super) async fn run(args: AddTaskArgs, context: &AgentsContext) -> CommandResult {
    let args = args.masked(context);
    let review: ReviewBy = match &args.review {
        Some(text) => text
            .parse()
            .map_err(|error| CommandError::usage(format!("--review: {error}")))?,
        None => context.review(),
    };
    let wall_time = args.max_time.as_deref().map(str::parse::<Span>).transpose();
    let wall_time =
        wall_time.map_err(|error| CommandError::usage(format!("--max-time: {error}")))?;
    if args
        .max_cost
        .is_some_and(|cost| !cost.is_finite() || cost < 0.0)
    {
        return Err(CommandError::usage(
            "--max-cost: an amount of dollars is expected",
        ));
    }
    if args.max_attempts == Some(0) {
        return Err(CommandError::usage(
            "--max-attempts: at least one attempt is expected",
        ));
    }
    let OpenBoard { client, board } = context.board().await?;
    let project = context.project(&board, args.project.as_deref()).await?;
    if let Some(token) = &context.token {
        let own = board.task(&token.task.to_string()).await?.project_path;
        if own != project.path {
            let message = format!("an agent at work in {own} adds tasks there alone");
            return Err(CommandError::refused(message));
        }
        let words = format!("add {}", args.title);
        board.lock_to_write(token, &words).await?;
    }
    let mut dependencies = Vec::with_capacity(args.needs.len());
    for named in &args.needs {
        dependencies.push(board.task(named).await?.id);
    }
    let task = TaskDraft {
        description: args.description.unwrap_or_default(),
        section: args.section,
        priority: args.priority,
        dependencies,
        source_file: args.source,
        review,
        budget: Budget {
            attempts: args.max_attempts,
            wall_time,
            cost: args.max_cost,
        },
        parent: context.token.map(|token| token.task),
        ..TaskDraft::new(project.path, args.title)
    };
    let added = board.add_tasks(vec![task]).await?.remove(0);
    client.close().await?;
    let line = format!("added task {}", added.id);
    Ok(CommandReport::new(describe::task(&added), line))
}
