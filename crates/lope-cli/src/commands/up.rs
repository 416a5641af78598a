//! `lope up`: a runner that works until it is stopped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lope::agents::hooks::HookTeller;
use lope::executors::inherited;
use lope::reactive::WorkflowEffects;
use lope::stores::{CreateStore, StoreError, StoreUrl};
use lope::{Client, Runner};
use lope_model::QueueName;

use super::begin::runner_with;
use super::exporting::Exporting;
use super::python::{Module, PythonArgs, remote};
use super::serving::{self, HttpArgs};
use super::spaces::pool_options;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, counted, remark};
use crate::signals::{STOPPING, Stops};

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    http: HttpArgs,
    /// Work on these queues; may be given several times
    #[arg(long = "queue", value_name = "QUEUE", num_args = 1..)]
    queues: Vec<String>,
    /// Attempts in flight at once
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// Do the actions of this Python module, and take runs of its workflows; may be given several
    /// times
    #[arg(long = "python", value_name = "MODULE")]
    modules: Vec<String>,
    #[command(flatten)]
    python: PythonArgs,
    /// Take workers that connect here with the token in LOPE_WORKER_TOKEN
    #[arg(long, value_name = "HOST:PORT")]
    workers: Option<String>,
    /// Certificate of that address, in PEM; without it, connections are not encrypted
    #[arg(long, value_name = "FILE", requires_all = ["workers", "workers_key"])]
    workers_cert: Option<PathBuf>,
    /// The certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "workers_cert")]
    workers_key: Option<PathBuf>,
}

/// How long work in flight may take to finish after the first Ctrl-C or TERM.
const GRACE: Duration = Duration::from_secs(30);
/// How often a server that is not there is looked for.
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// How long a runner that cannot go on tries to give its runs back.
const AT_ONCE: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: UpArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let wanted = engine_settings(&args, settings)?;
    let modules = args
        .modules
        .iter()
        .map(|module| Module::parse(module))
        .collect::<CliResult<Vec<_>>>()?;
    let remote = remote::read(
        args.workers,
        args.workers_cert.as_deref(),
        args.workers_key.as_deref(),
    )?;
    let listening = args.http.listen(&settings.config, output).await?;
    let mut stops = Stops::listen()?;
    let Some(client) = opened(settings, &mut stops, output).await? else {
        return Ok(Exit::Done);
    };
    let (pool, wanted) = args
        .python
        .serve(&modules, remote.is_some(), settings, wanted)
        .await?;
    if let (Some(pool), Some(remote)) = (&pool, remote) {
        remark(
            output,
            &format!(
                "workers may connect to {}",
                remote::open(pool, remote).await?
            ),
        );
    }
    let effects = Arc::new(WorkflowEffects::new(client.clone()));
    let spaces = client.host_spaces(pool_options(settings), effects).await?;
    let runner = runner_with(&client, settings, wanted, pool.as_ref()).await?;
    remark(
        output,
        &format!(
            "runner {} works on {}; Ctrl-C stops it",
            runner.id().await?,
            settings.store
        ),
    );
    let exporting = Exporting::start(&runner, settings).await?;
    let server = listening.map(|it| serving::start(it, &runner, settings, output));
    let broken = asked_or_broken(&runner, &mut stops, &hooks(&client, settings)).await;
    if let Some(server) = server {
        server.stop().await;
    }
    if let Some(broken) = broken {
        // Others take the runs over in any case; this only spares them the wait.
        let _ = tokio::time::timeout(AT_ONCE, runner.give_back(Duration::ZERO)).await;
        return Err(broken.into());
    }
    remark(output, STOPPING);
    let grace = async {
        // The second time is as good as the end of the grace.
        let _ = tokio::time::timeout(GRACE, stops.asked()).await;
    };
    spaces.stop().await;
    let given_back = runner.give_back_after(grace).await?;
    remark(output, &stopped(given_back));
    exporting.stop().await;
    if let Some(pool) = pool {
        pool.close().await;
    }
    client.close().await?;
    Ok(Exit::Done)
}

/// What the end came to: runs that were still at work are somebody else's now.
fn stopped(given_back: u64) -> String {
    if given_back == 0 {
        return "stopped".to_owned();
    }
    let runs = counted(given_back, "run");
    format!("stopped; {runs} cut short, for whoever comes next")
}

/// The store, as soon as it is there: a server, or a database in it, may come later than its
/// runners. Nothing: somebody asked to stop meanwhile.
async fn opened(
    settings: &Settings,
    stops: &mut Stops,
    output: Output,
) -> CliResult<Option<Client>> {
    let mut told = String::new();
    loop {
        let error = match Client::open_store(&settings.store, CreateStore::IfMissing).await {
            Ok(client) => {
                let limits = &settings.config.engine.queue_limits;
                return Ok(Some(client.with_queue_limits(limits)));
            }
            Err(error) => error,
        };
        if !may_come(&settings.store, &error) {
            return Err(error.into());
        }
        let words = format!("waiting for {}: {error}", settings.store);
        if words != told {
            remark(output, &words);
            told = words;
        }
        tokio::select! {
            _ = stops.asked() => return Ok(None),
            () = tokio::time::sleep(TRY_AGAIN) => {}
        }
    }
}

fn may_come(store: &StoreUrl, error: &StoreError) -> bool {
    let is_server = matches!(store, StoreUrl::Postgres(_));
    let is_away = matches!(
        error,
        StoreError::Unavailable { .. } | StoreError::Missing { .. }
    );
    is_server && is_away
}

/// What people decide about tasks of agents is told while this is there.
fn hooks(client: &Client, settings: &Settings) -> HookTeller {
    let board = client.agents(&settings.config.runners);
    let report = Arc::new(|line: &str| tracing::warn!("{line}"));
    HookTeller::new(board, inherited(&settings.config), report)
}

/// The settings of the engine, with what was typed.
fn engine_settings(args: &UpArgs, settings: &Settings) -> CliResult<lope::Settings> {
    let mut config = settings.config.clone();
    if let Some(slots) = args.concurrency {
        config.flag("concurrency", &slots.to_string())?;
    }
    let mut wanted = config.engine;
    if !args.queues.is_empty() {
        let queues = args.queues.iter().map(|name| QueueName::parse(name));
        wanted.queues = queues
            .collect::<Result<_, _>>()
            .map_err(|error| CliError::usage(error.to_string()))?;
    }
    Ok(wanted)
}

/// Until somebody asks to stop, or the runner can do no more: then why.
/// Meanwhile hooks are told.
async fn asked_or_broken(
    runner: &Runner,
    stops: &mut Stops,
    hooks: &HookTeller,
) -> Option<lope::Error> {
    tokio::select! {
        _ = stops.asked() => None,
        broken = runner.broken() => Some(broken),
        never = hooks.tell_always() => match never {},
    }
}
