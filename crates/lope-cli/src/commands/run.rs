//! `lope run FILE`: a run from its beginning (or from where it was left) to its end, here.

use std::sync::Arc;
use std::time::Duration;

use lope::stores::{self, Create};
use lope_engine::client::{self, StartOptions};
use lope_engine::{Engine, News};
use lope_flow::law::{EventKind, Notice, Plan};
use lope_model::RunId;
use lope_store::Store;
use lope_store::runs::Admitted;

use super::begin::{announce, engine, options};
use super::record::present;
use super::workflow_file;
use crate::args::RunArgs;
use crate::clock::wall;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};

/// How long work in flight may take to finish when the run has ended or is left.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: RunArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let plan = workflow_file::read(&args.file)?;
    let options = options(&args.begin)?;
    let store = stores::open(&settings.store, Create::IfMissing).await?;
    client::deploy(&store, &plan).await?;
    if args.detach {
        let (run, _) = client::start(&store, &plan, options, wall()).await?;
        return announce(&store, run, output).await;
    }
    let engine = engine(&store, settings, settings.config.engine.clone())?;
    let exit = to_the_end(&store, &engine, &plan, options, output).await;
    engine.shutdown(GRACE).await?;
    store.upkeep.close().await?;
    exit
}

async fn to_the_end(
    store: &Store,
    engine: &Engine,
    plan: &Arc<Plan>,
    options: StartOptions,
    output: Output,
) -> CliResult<Exit> {
    engine.know(Arc::clone(plan));
    let news = engine.subscribe();
    let admit = client::admission(plan, options, wall());
    let (mut run, key) = (admit.run, admit.key.clone());
    match engine.admit(admit, plan).await? {
        Admitted::Exists { run: first } => {
            remark(output, &format!("run {first} has the key '{}' and goes on", key.unwrap_or_default()));
            run = first;
        }
        Admitted::Created { .. } => remark(output, &format!("run {run} of '{}' started", plan.name())),
        Admitted::UnknownVersion => return Err(CliError::new(Exit::Bug, "the workflow was not kept")),
    }
    let telling = tokio::spawn(tell(news, run, output));
    let ended = tokio::select! {
        record = client::wait(store, run) => record?,
        _ = tokio::signal::ctrl_c() => None,
    };
    telling.abort();
    match ended {
        Some(record) => Ok(present(&record, output)),
        None => pause(store, run, output).await,
    }
}

/// Ctrl-C: nothing is lost; the run is paused and can go on.
async fn pause(store: &Store, run: RunId, output: Output) -> CliResult<Exit> {
    client::tell(store, run, &EventKind::Pause { reason: Some("Ctrl-C".into()) }, None).await?;
    remark(output, &format!("run {run} is paused; nothing is lost\n  go on: lope runs resume {run} && lope up"));
    Ok(Exit::Failed)
}

/// Say what happens, a line each.
async fn tell(mut news: tokio::sync::broadcast::Receiver<News>, run: RunId, output: Output) {
    loop {
        match news.recv().await {
            Ok(News::Notice { run: about, notice, .. }) if about == run => {
                if let Some(line) = line(&notice) {
                    remark(output, &line);
                }
            }
            Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
            Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
        }
    }
}

fn line(notice: &Notice) -> Option<String> {
    match notice {
        Notice::StepSettled { execution, failure: None, .. } => Some(format!("  ✓ {execution}")),
        Notice::StepSettled { execution, failure: Some(failure), .. } => {
            Some(format!("  ✗ {execution}: {}: {}", failure.kind, failure.message))
        }
        Notice::Retrying { execution, failed, failure, .. } => {
            Some(format!("  ↻ {execution}: attempt {failed} failed: {}", failure.message))
        }
        Notice::FellBack { execution, .. } => Some(format!("  ↓ {execution}: its fallback takes over")),
        Notice::Started | Notice::InputStarted { .. } | Notice::SignalDropped { .. } => None,
    }
}
