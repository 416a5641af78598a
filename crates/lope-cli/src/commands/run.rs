//! `lope run FILE`: a run from its beginning (or from where it was left) to its end, here.

mod there;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lope::describe;
use lope::runs::{
    Admitted, FinalStatus, Historian, JournalRow, News, RunRecord, RunStatus, Status, is_set_aside,
};
use lope::stores::CreateStore;
use lope::{Client, PreparedRun, Runner, Settings as EngineSettings};
use lope_model::RunId;
use lope_remote::caller;
use tokio::sync::broadcast;

use super::begin::{Begin, announce, options, runner_with};
use super::exporting::Exporting;
use super::python::{Module, PythonArgs, PythonWorkflow};
use super::record::present;
use super::runs::find::{find, found};
use super::workflow_file;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};
use crate::progress::{KNOWN_MAX, ProgressView, TICK};
use crate::signals::{STOPPING, StopRequest, Stops};

/// How long work in flight may take to finish when the run has ended or is left.
const GRACE: Duration = Duration::from_secs(5);
/// How long a second Ctrl-C lets the store be told that the runs are free.
const AT_ONCE: Duration = Duration::from_secs(2);
/// How often, in looks at the journal, the run's record is looked at too.
const RECORD_EVERY: u32 = 10;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A workflow file, or a workflow in Python
    #[arg(
        required_unless_present = "resume",
        value_name = "FILE.yaml|MODULE.py:NAME"
    )]
    file: Option<PathBuf>,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    begin: Begin,
    /// Go on here with a run that was left; name its module too if it is not in this folder
    #[arg(long, value_name = "ID", conflicts_with_all = ["input", "key", "detach"])]
    resume: Option<String>,
    /// Start it and leave it to a runner
    #[arg(long)]
    detach: bool,
}

/// How the wait for a run ended.
enum Waited {
    Ended,
    /// Paused by Ctrl-C, and nothing of it is in flight.
    Paused,
    /// A second Ctrl-C.
    AtOnce,
    /// TERM: what is at work has a moment to finish.
    Terminated,
}

pub(crate) async fn run(args: RunArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let (file, target) = match (&args.resume, &args.file) {
        (None, Some(file)) => (file, PythonWorkflow::parse(&file.to_string_lossy())),
        (id, file) => {
            let id = id.as_deref().unwrap_or_default();
            return resume(id, file.as_deref(), &args.python, settings, output).await;
        }
    };
    if let Some(asked) = args.python.unnamed(file) {
        return Err(asked);
    }
    let called = target.as_ref().map(|_| file.display().to_string());
    let mut options = options(&args.begin, settings)?;
    let plans = match &target {
        None => vec![workflow_file::read(file)?],
        Some(target) => args.python.bundle(target, &mut options)?,
    };
    let limits = &settings.config.engine.queue_limits;
    let prepared = PreparedRun::new(&plans[0], options, limits)?;
    if args.detach {
        settings.lasting("the run")?;
    }
    let client = settings.open(CreateStore::IfMissing).await?;
    for plan in &plans {
        client.deploy(plan).await?;
    }
    if args.detach {
        let (run, _) = client.start(prepared).await?;
        return announce(&client, run, output).await;
    }
    if caller::is_remote() {
        return there::begin(&client, prepared, settings, output).await;
    }
    let stops = Stops::listen()?;
    let modules: Vec<Module> = target.into_iter().map(|target| target.module).collect();
    let (pool, wanted) = args
        .python
        .serve(&modules, false, settings, own_only(settings))
        .await?;
    let runner = runner_with(&client, settings, wanted, pool.as_ref()).await?;
    runner.keep_at_hand(&plans[0]).await?;
    let exporting = Exporting::start(&runner, settings).await?;
    let news = runner.news().await?;
    let (run, fresh) = match admit(&runner, prepared, output).await {
        Ok(admitted) => admitted,
        Err(error) => {
            runner.give_back(Duration::ZERO).await?;
            return Err(error);
        }
    };
    let record = found(client.run(run).await?, run)?;
    let left = (!fresh).then_some(record.head);
    let exit = RunHere {
        client,
        runner,
        news,
        exporting,
        stops,
        settings,
        output,
        left,
        called,
    }
    .see_through(record)
    .await;
    if let Some(pool) = pool {
        pool.close().await;
    }
    exit
}

/// This process works on its own run and the children of it; other runs are for runners.
fn own_only(settings: &Settings) -> EngineSettings {
    EngineSettings {
        claims: false,
        ..settings.config.engine.clone()
    }
}

async fn resume(
    id: &str,
    file: Option<&Path>,
    python: &PythonArgs,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let client = super::runs::open(settings).await?;
    let record = find(&client, id).await?;
    let modules = modules_of(&record, file)?;
    if caller::is_remote() {
        return there::resume(&client, record, settings, output).await;
    }
    let stops = Stops::listen()?;
    let (pool, wanted) = python
        .serve(&modules, false, settings, own_only(settings))
        .await?;
    let runner = runner_with(&client, settings, wanted, pool.as_ref()).await?;
    runner.take_up(record.run).await?;
    let exporting = Exporting::start(&runner, settings).await?;
    let news = runner.news().await?;
    remark(
        output,
        &format!("run {} of '{}' goes on", record.run, record.workflow),
    );
    let left = Some(record.head);
    let called = file.map(|file| file.display().to_string());
    let exit = RunHere {
        client,
        runner,
        news,
        exporting,
        stops,
        settings,
        output,
        left,
        called,
    }
    .see_through(record)
    .await;
    if let Some(pool) = pool {
        pool.close().await;
    }
    exit
}

/// The modules that do the actions of a run that was left: the one that is named, else the one that
/// its realm names.
fn modules_of(record: &RunRecord, file: Option<&Path>) -> CliResult<Vec<Module>> {
    let Some(file) = file else {
        return Ok(Module::of_realm(&record.realm).into_iter().collect());
    };
    let target = PythonWorkflow::parse(&file.to_string_lossy()).ok_or_else(|| {
        let message = format!(
            "'{}' cannot be given with --resume: a run stays with its workflow",
            file.display()
        );
        CliError::usage(message)
            .hint("only the module of a workflow in Python is named here, as in app.py:welcome")
    })?;
    if target.module.realm()? != record.realm {
        let message = format!(
            "run {} is not of the module of '{}'",
            record.run,
            file.display()
        );
        return Err(CliError::usage(message).hint(format!("it belongs to {}", record.realm)));
    }
    Ok(vec![target.module])
}

/// The run, and whether it is a new one.
async fn admit(runner: &Runner, prepared: PreparedRun, output: Output) -> CliResult<(RunId, bool)> {
    let key = prepared.key().unwrap_or_default().to_owned();
    let plan = Arc::clone(prepared.plan());
    let workflow = plan.name();
    let (run, admitted) = runner.start(prepared).await?;
    match admitted {
        Admitted::Exists { .. } => {
            remark(
                output,
                &format!("run {run} has the key '{key}' and goes on"),
            );
            Ok((run, false))
        }
        Admitted::Created { .. } => {
            remark(output, &format!("run {run} of '{workflow}' started"));
            Ok((run, true))
        }
        Admitted::UnknownVersion => Err(CliError::new(Exit::Bug, "the workflow was not kept")),
    }
}

/// A run that is waited for in the process that works on it.
struct RunHere<'a> {
    client: Client,
    runner: Runner,
    news: broadcast::Receiver<News>,
    exporting: Exporting,
    /// Heard from before the run begins.
    stops: Stops,
    settings: &'a Settings,
    output: Output,
    /// The last journal row when the run was left, of a run that was there before.
    left: Option<u64>,
    /// The workflow in Python as the user called it.
    called: Option<String>,
}

impl RunHere<'_> {
    async fn see_through(mut self, record: RunRecord) -> CliResult<Exit> {
        // Even to a run that is not paused: a Ctrl-C that nobody has read yet may still wait in its
        // inbox.
        if self.left.is_some() {
            self.client.resume(record.run).await?;
        }
        let waited = self.follow(&record).await;
        let Self {
            client,
            runner,
            exporting,
            mut stops,
            settings,
            output,
            called,
            ..
        } = self;
        if matches!(waited, Ok(Waited::Terminated)) {
            remark(output, STOPPING);
        }
        let at_once = matches!(waited, Ok(Waited::AtOnce));
        let grace = if at_once { Duration::ZERO } else { GRACE };
        let cut = async {
            // The second time is as good as the end of the grace.
            let _ = tokio::time::timeout(grace, stops.asked()).await;
        };
        let stopped = tokio::time::timeout(grace + AT_ONCE, runner.give_back_after(cut)).await;
        exporting.stop().await;
        let waited = waited?;
        let record = found(client.run(record.run).await?, record.run)?;
        // What was at work when somebody asked may have been the last of it.
        let exit = if record.status.is_final() {
            stopped.unwrap_or(Ok(0))?;
            let exit = present(&client, record.clone(), output).await?;
            if record.status == RunStatus::Final(FinalStatus::Failed) {
                let again = format!("{} runs retry {}", settings.called, record.run);
                remark(
                    output,
                    &format!("mend the cause, then go on from there: {again}"),
                );
            }
            exit
        } else {
            leave(&waited, record.run, called.as_deref(), settings, output);
            if output.json {
                output.document(&describe::run(&record), "");
            }
            Exit::Failed
        };
        client.close().await?;
        Ok(exit)
    }

    /// Watch the journal until the run has ended or is left.
    async fn follow(&mut self, record: &RunRecord) -> CliResult<Waited> {
        let plan = self.client.plan(record).await?;
        let mut follower = self
            .client
            .follow(record.run, &plan)
            .await?
            .with_limit(KNOWN_MAX);
        let mut progress = ProgressView::new(record, self.output);
        let mut asked = 0;
        let mut looks = 0_u32;
        let waited = loop {
            let tell = |row: &JournalRow, history: &Historian<'_>| {
                if self.left.is_none_or(|left| row.seq > left) {
                    progress.row(history);
                }
            };
            follower
                .catch_up(|row, _, history| tell(row, history))
                .await?;
            let history = follower.historian();
            progress.draw(history);
            // The journal may tell the end before an owner has written it down.
            if history.status().is_final() && has_ended(&self.client, record.run).await? {
                break Waited::Ended;
            }
            if asked > 0 && history.status() == Status::Paused && history.state().load().0 == 0 {
                break Waited::Paused;
            }
            self.runner.check_alive().await?;
            looks += 1;
            if looks.is_multiple_of(RECORD_EVERY) {
                not_set_aside(&self.client, record.run).await?;
            }
            match interrupted(&mut self.stops, &mut self.news, record.run).await {
                None => continue,
                Some(StopRequest::Terminate) => break Waited::Terminated,
                Some(StopRequest::Interrupt) => asked += 1,
            }
            if asked > 1 {
                break Waited::AtOnce;
            }
            progress.say("pausing: what is at work may finish; Ctrl-C once more stops at once");
            self.client.pause(record.run, Some("Ctrl-C")).await?;
        };
        progress.end(follower.historian());
        Ok(waited)
    }
}

/// Until there is news of the run, or a while has passed, or somebody asks to stop.
async fn interrupted(
    stops: &mut Stops,
    news: &mut broadcast::Receiver<News>,
    run: RunId,
) -> Option<StopRequest> {
    let notified = async {
        loop {
            match news.recv().await {
                Ok(News::Notice { run: about, .. } | News::Ended { run: about, .. })
                    if about != run => {}
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    };
    tokio::select! {
        request = stops.asked() => Some(request),
        () = notified => None,
        () = tokio::time::sleep(TICK) => None,
    }
}

async fn has_ended(client: &Client, run: RunId) -> CliResult<bool> {
    Ok(found(client.run(run).await?, run)?.status.is_final())
}

/// A run that cannot be folded never ends by itself.
async fn not_set_aside(client: &Client, run: RunId) -> CliResult<()> {
    let record = found(client.run(run).await?, run)?;
    match record.parked.filter(|reason| is_set_aside(reason)) {
        None => Ok(()),
        Some(reason) => {
            let error = CliError::new(Exit::Failed, format!("run {run} was set aside: {reason}"));
            Err(error.hint(format!("mend the cause, then: lope runs resume {run}")))
        }
    }
}

fn leave(waited: &Waited, run: RunId, target: Option<&str>, settings: &Settings, output: Output) {
    let word = match waited {
        Waited::Paused => "is paused",
        Waited::Ended | Waited::AtOnce | Waited::Terminated => "was left as it is",
    };
    let called = &settings.called;
    let target = target.map_or_else(String::new, |target| format!("{target} "));
    remark(
        output,
        &format!(
            "run {run} {word}; nothing is lost\n  go on here: {called} run {target}--resume {run}"
        ),
    );
}
