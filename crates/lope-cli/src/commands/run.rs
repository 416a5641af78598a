//! `lope run FILE`: a run from its beginning (or from where it was left) to its end, here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lope::describe;
use lope::stores::{self, Create};
use lope_engine::client::{self, StartOptions};
use lope_engine::look::{self, Follower};
use lope_engine::why::is_set_aside;
use lope_engine::{Engine, News};
use lope_flow::history::Historian;
use lope_flow::law::{EventKind, Plan, Status};
use lope_model::RunId;
use lope_store::Store;
use lope_store::runs::{Admitted, JournalRow, RunRecord, RunStatus};
use tokio::sync::broadcast;

use super::begin::{Begin, announce, check, engine_with, options};
use super::python::{Module, PythonArgs, Target};
use super::record::present;
use super::runs::find::{find, found};
use super::workflow_file;
use crate::clock::wall;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};
use crate::progress::{Progress, TICK};
use crate::signals::Stops;

/// How long work in flight may take to finish when the run has ended or is left.
const GRACE: Duration = Duration::from_secs(5);
/// How long a second Ctrl-C lets the store be told that the runs are free.
const AT_ONCE: Duration = Duration::from_secs(2);
/// How often, in looks at the journal, the run's record is looked at too.
const RECORD_EVERY: u32 = 10;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A workflow file, or a workflow in Python
    #[arg(required_unless_present = "resume", value_name = "FILE.yaml|MODULE.py:NAME")]
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
}

pub(crate) async fn run(args: RunArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let (file, target) = match (&args.resume, &args.file) {
        (None, Some(file)) => (file, Target::parse(&file.to_string_lossy())),
        (id, file) => {
            let id = id.as_deref().unwrap_or_default();
            return resume(id, file.as_deref(), &args.python, settings, output).await;
        }
    };
    let called = target.as_ref().map(|_| file.display().to_string());
    let mut options = options(&args.begin, settings)?;
    let plans = match &target {
        None => vec![workflow_file::read(file)?],
        Some(target) => args.python.bundle(target, &mut options)?,
    };
    let plan = Arc::clone(&plans[0]);
    check(&plan, &options)?;
    let url = if args.detach { settings.lasting("the run")? } else { &settings.store };
    let store = stores::open(url, Create::IfMissing).await?;
    for plan in &plans {
        client::deploy(&store, plan).await?;
    }
    if args.detach {
        let (run, _) = client::start(&store, &plan, options, wall()).await?;
        return announce(&store, run, output).await;
    }
    let modules: Vec<Module> = target.into_iter().map(|target| target.module).collect();
    let (pool, wanted) = args.python.serve(&modules, false, settings, own_only(settings)).await?;
    let engine = engine_with(&store, settings, wanted, pool.as_ref())?;
    engine.know(Arc::clone(&plan));
    let news = engine.subscribe();
    let (run, fresh) = match admit(&engine, &plan, options, output).await {
        Ok(admitted) => admitted,
        Err(error) => {
            engine.shutdown(Duration::ZERO).await?;
            return Err(error);
        }
    };
    let record = found(store.runs.run(run).await?, run)?;
    let left = (!fresh).then_some(record.head);
    let exit = Here { store, engine, news, settings, output, left, called }.see_through(record).await;
    if let Some(pool) = pool {
        pool.close().await;
    }
    exit
}

/// This process works on its own run and the children of it; other runs are for runners.
fn own_only(settings: &Settings) -> lope_engine::Settings {
    lope_engine::Settings { claims: false, ..settings.config.engine.clone() }
}

async fn resume(
    id: &str,
    file: Option<&Path>,
    python: &PythonArgs,
    settings: &Settings,
    output: Output,
) -> CliResult<Exit> {
    let store = super::runs::open(settings).await?;
    let record = find(&store, id).await?;
    let modules = modules_of(&record, file)?;
    let (pool, wanted) = python.serve(&modules, false, settings, own_only(settings)).await?;
    let engine = engine_with(&store, settings, wanted, pool.as_ref())?;
    engine.own(record.run);
    let news = engine.subscribe();
    remark(output, &format!("run {} of '{}' goes on", record.run, record.workflow));
    let (left, called) = (Some(record.head), file.map(|file| file.display().to_string()));
    let exit = Here { store, engine, news, settings, output, left, called }.see_through(record).await;
    if let Some(pool) = pool {
        pool.close().await;
    }
    exit
}

/// The modules that do the actions of a run that was left: the one that is named, else the one that its realm names.
fn modules_of(record: &RunRecord, file: Option<&Path>) -> CliResult<Vec<Module>> {
    let Some(file) = file else { return Ok(Module::of_realm(&record.realm).into_iter().collect()) };
    let target = Target::parse(&file.to_string_lossy()).ok_or_else(|| {
        let message = format!("'{}' cannot be given with --resume: a run stays with its workflow", file.display());
        CliError::usage(message).hint("only the module of a workflow in Python is named here, as in app.py:welcome")
    })?;
    if target.module.realm()? != record.realm {
        let message = format!("run {} is not of the module of '{}'", record.run, file.display());
        return Err(CliError::usage(message).hint(format!("it belongs to {}", record.realm)));
    }
    Ok(vec![target.module])
}

/// The run, and whether it is a new one.
async fn admit(engine: &Engine, plan: &Arc<Plan>, options: StartOptions, output: Output) -> CliResult<(RunId, bool)> {
    let birth = client::birth(plan, options, wall());
    let (run, key) = (birth.admit.run, birth.admit.key.clone());
    match engine.admit(birth, plan).await? {
        Admitted::Exists { run: first } => {
            remark(output, &format!("run {first} has the key '{}' and goes on", key.unwrap_or_default()));
            Ok((first, false))
        }
        Admitted::Created { .. } => {
            remark(output, &format!("run {run} of '{}' started", plan.name()));
            Ok((run, true))
        }
        Admitted::UnknownVersion => Err(CliError::new(Exit::Bug, "the workflow was not kept")),
    }
}

/// A run that is waited for in the process that works on it.
struct Here<'a> {
    store: Store,
    engine: Engine,
    news: broadcast::Receiver<News>,
    settings: &'a Settings,
    output: Output,
    /// The last journal row when the run was left, of a run that was there before.
    left: Option<u64>,
    /// The workflow in Python as the user called it.
    called: Option<String>,
}

impl Here<'_> {
    async fn see_through(mut self, record: RunRecord) -> CliResult<Exit> {
        // Even to a run that is not paused: a Ctrl-C that nobody has read yet may still wait in its inbox.
        if self.left.is_some() {
            client::tell(&self.store, record.run, &EventKind::Resume, None).await?;
        }
        let waited = self.follow(&record).await;
        let Self { store, engine, settings, output, called, .. } = self;
        let grace = if matches!(waited, Ok(Waited::AtOnce)) { Duration::ZERO } else { GRACE };
        let stopped = tokio::time::timeout(grace + AT_ONCE, engine.shutdown(grace)).await;
        let exit = match waited? {
            Waited::Ended => {
                stopped.unwrap_or(Ok(0))?;
                present(&store, &found(store.runs.run(record.run).await?, record.run)?, output).await?
            }
            left @ (Waited::Paused | Waited::AtOnce) => {
                leave(&left, record.run, called.as_deref(), settings, output);
                if output.json {
                    let record = found(store.runs.run(record.run).await?, record.run)?;
                    output.document(&describe::run(&record), "");
                }
                Exit::Failed
            }
        };
        store.upkeep.close().await?;
        Ok(exit)
    }

    /// Watch the journal until the run has ended or is left.
    async fn follow(&mut self, record: &RunRecord) -> CliResult<Waited> {
        let plan = look::plan(&self.store, record).await?;
        let mut follower = Follower::begin(&self.store, record.run, &plan).await?;
        let mut progress = Progress::new(record, self.output);
        let (mut asked, mut looks, mut stops) = (0, 0_u32, Stops::listen()?);
        let waited = loop {
            let tell = |row: &JournalRow, history: &Historian<'_>| {
                if self.left.is_none_or(|left| row.seq > left) {
                    progress.row(history);
                }
            };
            follower.catch_up(|row, _, history| tell(row, history)).await?;
            let history = follower.historian();
            progress.draw(history);
            // The journal may tell the end before an owner has written it down.
            if history.status().is_final() && has_ended(&self.store, record.run).await? {
                break Waited::Ended;
            }
            if asked > 0 && history.status() == Status::Paused && history.state().load().0 == 0 {
                break Waited::Paused;
            }
            if let Some(why) = self.engine.why_broken() {
                return Err(CliError::broken(&why));
            }
            looks += 1;
            if looks.is_multiple_of(RECORD_EVERY) {
                not_set_aside(&self.store, record.run).await?;
            }
            if !interrupted(&mut stops, &mut self.news, record.run).await {
                continue;
            }
            asked += 1;
            if asked > 1 {
                break Waited::AtOnce;
            }
            progress.say("pausing: what is at work may finish; Ctrl-C once more stops at once");
            let pause = EventKind::Pause { reason: Some("Ctrl-C".into()) };
            client::tell(&self.store, record.run, &pause, None).await?;
        };
        progress.end(follower.historian());
        Ok(waited)
    }
}

/// Until there is news of the run, or a while has passed. True: Ctrl-C.
async fn interrupted(stops: &mut Stops, news: &mut broadcast::Receiver<News>, run: RunId) -> bool {
    let heard = async {
        loop {
            match news.recv().await {
                Ok(News::Notice { run: about, .. } | News::Ended { run: about, .. }) if about != run => {}
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    };
    tokio::select! {
        () = stops.asked() => true,
        () = heard => false,
        () = tokio::time::sleep(TICK) => false,
    }
}

async fn has_ended(store: &Store, run: RunId) -> CliResult<bool> {
    Ok(matches!(found(store.runs.run(run).await?, run)?.status, RunStatus::Final(_)))
}

/// A run that cannot be folded never ends by itself.
async fn not_set_aside(store: &Store, run: RunId) -> CliResult<()> {
    let record = found(store.runs.run(run).await?, run)?;
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
        Waited::Ended | Waited::AtOnce => "was left as it is",
    };
    let called = &settings.called;
    let target = target.map_or_else(String::new, |target| format!("{target} "));
    remark(output, &format!("run {run} {word}; nothing is lost\n  go on here: {called} run {target}--resume {run}"));
}
