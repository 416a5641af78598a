//! `lope up`: a runner that works until it is stopped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lope::stores::{self, Create};
use lope_engine::Engine;
use lope_model::QueueName;
use lope_workers::pool::Pool;

use super::begin::engine_with;
use super::python::{Module, PythonArgs, remote};
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, counted, remark};
use crate::signals::Stops;

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Work on this queue; may be given several times
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// Attempts in flight at once
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// Do the actions of this Python module, and take runs of its workflows; may be given several times
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
/// How long a runner that cannot go on tries to give its runs back.
const AT_ONCE: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: UpArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let mut config = settings.config.clone();
    if let Some(slots) = args.concurrency {
        config.flag("concurrency", &slots.to_string())?;
    }
    let mut wanted = config.engine;
    if !args.queues.is_empty() {
        let queues = args.queues.iter().map(|name| QueueName::parse(name));
        wanted.queues = queues.collect::<Result<_, _>>().map_err(|error| CliError::usage(error.to_string()))?;
    }
    let modules = args.modules.iter().map(|module| Module::parse(module)).collect::<CliResult<Vec<_>>>()?;
    let remote = remote::read(args.workers, args.workers_cert.as_deref(), args.workers_key.as_deref())?;
    let mut stops = Stops::listen()?;
    let store = stores::open(&settings.store, Create::IfMissing).await?;
    let (pool, wanted) = args.python.serve(&modules, remote.is_some(), settings, wanted).await?;
    if let (Some(pool), Some(remote)) = (&pool, remote) {
        remark(output, &format!("workers may connect to {}", remote::open(pool, remote).await?));
    }
    let engine = engine_with(&store, settings, wanted, pool.as_ref())?;
    remark(output, &format!("runner {} works on {}; Ctrl-C stops it", engine.runner(), settings.store));
    if let Some(why) = asked_or_broken(&engine, pool.as_deref(), &mut stops).await {
        // Others take the runs over in any case; this only spares them the wait.
        let _ = tokio::time::timeout(AT_ONCE, engine.shutdown(Duration::ZERO)).await;
        return Err(CliError::broken(&why));
    }
    remark(output, "finishing what is in flight; once more to stop at once");
    tokio::select! {
        given_back = engine.shutdown(GRACE) => remark(output, &format!("stopped; {} given back", counted(given_back?, "run"))),
        () = stops.asked() => {}
    }
    if let Some(pool) = pool {
        pool.close().await;
    }
    store.upkeep.close().await?;
    Ok(Exit::Done)
}

/// Until somebody asks to stop, or the engine can do no more: then why. Meanwhile what workers bring is served.
async fn asked_or_broken(engine: &Engine, pool: Option<&Pool>, stops: &mut Stops) -> Option<Arc<str>> {
    let mut realms = pool.and_then(Pool::realms);
    loop {
        let brought = async {
            match &mut realms {
                Some(realms) => realms.recv().await,
                None => None,
            }
        };
        tokio::select! {
            () = stops.asked() => return None,
            why = engine.broken() => return Some(why),
            Some(realm) = brought => engine.serve(realm),
        }
    }
}
