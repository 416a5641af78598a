//! `lope runners start`: a runner here, or one that goes on when this command has ended.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use clap::Args;
use lope::agents::law::select::is_open;
use lope::agents::records::{StopLevel, TaskStatus};
use lope::agents::{
    AgentBoard, BoardError, RoundEngine, RunnerAdmission, RunnerEnd, RunnerEquipment, RunnerSpec,
    TaskRunner, describe, detach,
};
use lope::stores::StoreUrl;
use lope_model::id::TaskId;
use lope_model::{RunnerId, Span};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::context::{AgentsContext, OpenBoard};
use crate::report::{CommandError, CommandExit, CommandReport, CommandResult};

#[derive(Clone, Debug, Default, Args)]
pub struct StartRunnerArgs {
    /// Path or name of the project  [default: the project around this folder]
    #[arg(long, value_name = "PATH")]
    pub(super) project: Option<String>,
    /// This task and no other; if somebody works on it, it is waited for
    #[arg(long, value_name = "ID")]
    pub(super) task: Option<String>,
    /// Tasks of this section alone
    #[arg(long, value_name = "NAME")]
    pub(super) section: Option<String>,
    /// Work here until it is stopped, and tell what it does
    #[arg(long)]
    pub(super) foreground: bool,
    /// End when no task can be started
    #[arg(long)]
    pub(super) until_idle: bool,
    /// How long its locks last if it does not renew them  [default: `runners.lockExpiry`]
    #[arg(long, value_name = "DURATION")]
    pub(super) lock_expiry: Option<String>,
    /// The id that it gets
    #[arg(long, hide = true)]
    pub(super) id: Option<String>,
    /// It was started by a command that waits until it has its place
    #[arg(long, hide = true)]
    pub(super) detached: bool,
}

pub(super) async fn run(args: StartRunnerArgs, context: &AgentsContext) -> CommandResult {
    context.for_people()?;
    if !args.foreground && !args.detached {
        context.may_leave_runners()?;
    }
    let OpenBoard { client, board } = context.board().await?;
    let spec = spec(&args, &board, context).await?;
    if !args.detached {
        board.start_at_once(&spec.project).await?;
    }
    let report = if args.foreground || args.detached {
        let engine = client.round_engine(context.steps.clone());
        let engine =
            engine.map_err(|error| CommandError::new(CommandExit::Failed, error.to_string()))?;
        work(spec, board, equipment(&args, context, engine), &args).await
    } else {
        let started = start_detached(&spec, context).await;
        match started {
            Err(error) => Err(error),
            Ok(()) => started_report(&spec, &board).await,
        }
    };
    client.close().await?;
    report
}

async fn spec(
    args: &StartRunnerArgs,
    board: &AgentBoard,
    context: &AgentsContext,
) -> CommandResult<RunnerSpec> {
    let task = match args.task.as_deref() {
        Some(named) => Some(board.task(named).await?),
        None => None,
    };
    let project = match (&args.project, &task) {
        (None, Some(task)) => task.project_path.clone(),
        (typed, _) => context.project(board, typed.as_deref()).await?.path,
    };
    let is_disabled = !board.project(&project).await?.enabled;
    if is_disabled {
        let message = format!("project {project} is disabled");
        return Err(CommandError::refused(message).hint(format!(
            "'lope projects enable {project}' lets runners work on it"
        )));
    }
    if let Some(task) = task.as_ref().filter(|task| task.project_path != project) {
        let message = format!("task {} belongs to {}", task.id, task.project_path);
        return Err(CommandError::usage(message));
    }
    let section = task.as_ref().and_then(|task| task.section_id.as_deref());
    let meant = args.section.as_deref();
    if let (Some(task), Some(meant)) = (&task, meant.filter(|meant| section != Some(*meant))) {
        let message = format!("task {} is not in section '{meant}'", task.id);
        return Err(CommandError::usage(message));
    }
    if let Some(task) = task.as_ref().filter(|task| !is_open(task)) {
        return Err(not_started(task.id, &format!("it is {}", task.status)));
    }
    is_there(&project)?;
    let bad = |error| CommandError::usage(format!("--lock-expiry: {error}"));
    let expiry = args.lock_expiry.as_deref().map(str::parse::<Span>);
    let lock_expiry = expiry.transpose().map_err(bad)?;
    let lock_expiry = lock_expiry.unwrap_or(context.runners.lock_expiry);
    if context.runners.heartbeat_interval.times(2) > lock_expiry {
        let beat = context.runners.heartbeat_interval;
        let message =
            format!("--lock-expiry: {lock_expiry} is too short for a heartbeat of {beat}");
        return Err(CommandError::usage(message));
    }
    let id = args.id.as_deref().map(str::parse::<RunnerId>);
    let id = id.transpose();
    Ok(RunnerSpec {
        id: id
            .map_err(|error| CommandError::usage(format!("--id: {error}")))?
            .unwrap_or_else(|| RunnerId::from_uuid(uuid::Uuid::new_v4())),
        project,
        section: args.section.clone(),
        task: task.map(|task| task.id),
        until_idle: args.until_idle,
        lock_expiry,
    })
}

fn not_started(task: TaskId, why: &str) -> CommandError {
    let message = format!("task {task} cannot be started: {why}");
    CommandError::new(CommandExit::Failed, message).hint(format!(
        "'lope tasks show {task}' says more; 'lope tasks reset {task}' has it worked on from the beginning"
    ))
}

/// What became of the one task that was meant: it may have failed, or not have been started.
async fn came_of(
    task: Option<TaskId>,
    unstarted: Option<&str>,
    board: &AgentBoard,
) -> CommandResult<()> {
    let Some(id) = task else {
        return Ok(());
    };
    let task = board.task(&id.to_string()).await?;
    let reason = task.reason.as_deref().unwrap_or("nobody said why");
    match (task.status, unstarted) {
        (TaskStatus::Completed | TaskStatus::Review, _) => Ok(()),
        (TaskStatus::Failed | TaskStatus::Blocked | TaskStatus::Skipped, _) => {
            let message = format!("task {id} is {}: {reason}", task.status);
            Err(CommandError::new(CommandExit::Failed, message))
        }
        (TaskStatus::Pending | TaskStatus::InProgress, Some(why)) => Err(not_started(id, why)),
        (TaskStatus::Pending | TaskStatus::InProgress, None) => Ok(()),
    }
}

/// The folder of a project may be gone since it was registered.
fn is_there(project: &str) -> CommandResult<()> {
    if Path::new(project).is_dir() {
        return Ok(());
    }
    let message = format!("{project} is no folder any more");
    Err(CommandError::new(CommandExit::Failed, message)
        .hint("'lope projects remove' forgets a project, 'disable' lets its tasks rest"))
}

/// Be the runner.
async fn work(
    spec: RunnerSpec,
    board: AgentBoard,
    equipment: RunnerEquipment,
    args: &StartRunnerArgs,
) -> CommandResult {
    let id = spec.id;
    let task = spec.task;
    let end = if args.detached {
        detach::leave_terminal();
        let stops = listen()?;
        let runner = match TaskRunner::enter(board.clone(), spec, equipment).await? {
            RunnerAdmission::Admitted(runner) => runner,
            RunnerAdmission::Full(others) => return Err(full(&others)),
        };
        let told = detach::speak_into(runner.log_path());
        told.map_err(|error| CommandError::new(CommandExit::Failed, error.to_string()))?;
        runner.run(stops).await
    } else {
        let worked = TaskRunner::work(board.clone(), spec, equipment, listen()?).await?;
        worked.map_err(|others| full(&others))?
    };
    let unstarted = match end {
        RunnerEnd::Completed => None,
        RunnerEnd::NotStarted(why) => Some(why),
        RunnerEnd::LeaseLost => {
            return Err(CommandError::refused(format!(
                "lease lost: somebody else has the place or the task of runner {id}"
            )));
        }
        RunnerEnd::Failed(message) => return Err(CommandError::new(CommandExit::Failed, message)),
    };
    came_of(task, unstarted.as_deref(), &board).await?;
    Ok(CommandReport::new(
        json!({ "id": id.to_string(), "status": "completed" }),
        format!("runner {id} has ended"),
    ))
}

fn full(others: &[RunnerId]) -> CommandError {
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let message = format!("runner {} works on this project", others.join(", "));
    CommandError::refused(message)
        .hint("'lope runners stop ID' stops it; runners.maxConcurrent allows more than one, but one in a section")
}

fn equipment(
    args: &StartRunnerArgs,
    context: &AgentsContext,
    engine: RoundEngine,
) -> RunnerEquipment {
    let mut variables = vec![("LOPE_HOME".to_owned(), context.home.display().to_string())];
    // A password in a URL is not for agents: without it their commands reach this store or none.
    let store = match &context.store {
        StoreUrl::Sqlite(path) => Some(format!("sqlite:{}", context.folder.join(path).display())),
        StoreUrl::Postgres(_) | StoreUrl::Memory => context.store_to_pass_on(),
    };
    variables.extend(store.map(|url| ("LOPE_STORE".to_owned(), url)));
    RunnerEquipment {
        engine,
        settings: context.runners.clone(),
        agents: context.agents.clone(),
        environment: context.environment.clone(),
        variables,
        task_logs: context.task_logs(),
        worktrees: context.home.join("worktrees"),
        runner_logs: context.runner_logs(),
        is_shown: args.foreground && !context.quiet,
    }
}

/// Each TERM or Ctrl-C is more urgent than the one before: end the task, stop its agent.
fn listen() -> CommandResult<watch::Receiver<Option<StopLevel>>> {
    let on = |kind| {
        signal(kind)
            .map_err(|error| CommandError::new(CommandExit::Failed, format!("no signals: {error}")))
    };
    let mut term = on(SignalKind::terminate())?;
    let mut interrupt = on(SignalKind::interrupt())?;
    // A terminal that is closed takes nobody with it.
    let mut hangup = on(SignalKind::hangup())?;
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => continue,
            }
            sender.send_modify(|level| {
                *level = Some(match level {
                    None => StopLevel::Drain,
                    Some(_) => StopLevel::Cancel,
                });
            });
        }
    });
    Ok(receiver)
}

/// Start a runner that goes on when this command has ended, and wait until it has its place.
pub(super) async fn start_detached(
    spec: &RunnerSpec,
    context: &AgentsContext,
) -> CommandResult<()> {
    is_there(&spec.project)?;
    let mut words = vec![
        "runners".to_owned(),
        "start".to_owned(),
        "--detached".to_owned(),
        format!("--project={}", spec.project),
        format!("--id={}", spec.id),
        format!("--lock-expiry={}", spec.lock_expiry),
    ];
    words.extend(spec.section.iter().map(|name| format!("--section={name}")));
    words.extend(spec.task.iter().map(|id| format!("--task={id}")));
    words.extend(spec.until_idle.then(|| "--until-idle".to_owned()));
    let store = match &context.store {
        StoreUrl::Postgres(url) => url.clone(),
        StoreUrl::Sqlite(path) => format!("sqlite:{}", context.folder.join(path).display()),
        other @ StoreUrl::Memory => other.to_string(),
    };
    let unstarted = |error: std::io::Error| {
        CommandError::new(
            CommandExit::Failed,
            format!("no runner can be started: {error}"),
        )
    };
    let mut child = tokio::process::Command::new("/proc/self/exe")
        .args(words)
        .env("LOPE_HOME", &context.home)
        .env("LOPE_STORE", store)
        .current_dir(&spec.project)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(unstarted)?;
    // It closes its output when it has its place; what it says before is why it has none.
    let mut said = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut said).await.map_err(unstarted)?;
    }
    let said = said.trim();
    if said.is_empty() {
        return Ok(());
    }
    let status = child.wait().await.map_err(unstarted)?;
    let exit = match (status.code(), status.signal()) {
        (Some(2), _) => CommandExit::Usage,
        (Some(3), _) => CommandExit::Refused,
        _ => CommandExit::Failed,
    };
    let said = said.strip_prefix("error: ").unwrap_or(said);
    Err(CommandError::new(exit, said))
}

async fn started_report(spec: &RunnerSpec, board: &AgentBoard) -> CommandResult {
    let seen = match board.seen_runner(&spec.id.to_string()).await {
        Err(BoardError::Missing { .. }) => {
            let message = "the runner ended before it had its place";
            return Err(CommandError::new(CommandExit::Failed, message));
        }
        found => found?,
    };
    let runner = &seen.runner;
    let line = format!(
        "started runner {} (pid {}) for {}",
        runner.id,
        runner.pid.unwrap_or_default(),
        spec.project
    );
    Ok(CommandReport::new(describe::runner(&seen), line))
}
