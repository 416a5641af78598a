//! `lope bench`: figures of this machine, one line each.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use lope::workers::Pool;
use lope::workflows::Plan;
use lope::{InheritedEnvironment, Settings as EngineSettings};
use lope_bench::python::PythonPlans;
use lope_bench::{
    BENCHMARKS, BenchError, BenchFigure, Benchmark, MeasuredStore, PYTHON, StoreKind,
};
use serde_json::Value;

use crate::commands::python::{Module, PythonArgs, PythonWorkflow};
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// runs, steps, fan, loop, latency, mailbox, reactive, python, server, sleepers, upkeep, agents, idle, footprint; none: all of them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Stores to measure on; may be given several times  [default: memory and sqlite, and postgres
    /// if one is named]
    #[arg(long = "on", value_enum, value_name = "STORE")]
    kinds: Vec<StoreWord>,
    /// A Postgres server; a schema is made there and dropped again
    #[arg(
        long,
        value_name = "URL",
        env = "LOPE_TEST_POSTGRES",
        hide_env_values = true
    )]
    postgres: Option<String>,
    /// How much work, in percent of the usual
    #[arg(long, default_value_t = 100, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    scale: u64,
    #[command(flatten)]
    python: PythonArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum StoreWord {
    Memory,
    Sqlite,
    Postgres,
}

impl StoreWord {
    const fn meant(self) -> StoreKind {
        match self {
            Self::Memory => StoreKind::Memory,
            Self::Sqlite => StoreKind::Sqlite,
            Self::Postgres => StoreKind::Postgres,
        }
    }
}

pub(crate) async fn run(args: BenchArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let chosen = chosen(&args.names)?;
    if kinds(&args).contains(&StoreKind::Postgres) && args.postgres.is_none() {
        return Err(BenchError::NoServer.into());
    }
    let folder = std::env::temp_dir().join(format!("lope-bench-{}", uuid::Uuid::now_v7().simple()));
    std::fs::create_dir(&folder)
        .map_err(|error| CliError::usage(format!("{}: {error}", folder.display())))?;
    let done = all(&args, &chosen, &settings.config.engine, &folder, output).await;
    let gone = std::fs::remove_dir_all(&folder);
    let figures = done?;
    gone.map_err(|error| CliError::usage(format!("{}: {error}", folder.display())))?;
    if output.json {
        output.document(
            &Value::Array(figures.iter().map(BenchFigure::json).collect()),
            "",
        );
    }
    Ok(Exit::Done)
}

async fn all(
    args: &BenchArgs,
    chosen: &[Benchmark],
    engine: &EngineSettings,
    folder: &Path,
    output: Output,
) -> CliResult<Vec<BenchFigure>> {
    if cfg!(debug_assertions) {
        remark(output, "this is a debug build: its figures mean nothing");
    }
    let mut figures = Vec::new();
    for benchmark in chosen {
        for kind in kinds(args)
            .into_iter()
            .filter(|kind| benchmark.in_memory || *kind != StoreKind::Memory)
        {
            let store =
                MeasuredStore::make(kind, engine.clone(), folder, args.postgres.as_deref()).await?;
            let measured = match benchmark.name {
                PYTHON => in_python(args, folder, &store, output).await,
                name => Ok(lope_bench::measure(name, args.scale, &store).await?),
            };
            store.leave().await?;
            for figure in measured? {
                if !output.json {
                    output.document(&Value::Null, &figure.to_string());
                }
                figures.push(figure);
            }
        }
    }
    Ok(figures)
}

fn kinds(args: &BenchArgs) -> Vec<StoreKind> {
    if !args.kinds.is_empty() {
        return args.kinds.iter().map(|word| word.meant()).collect();
    }
    let postgres = args.postgres.is_some().then_some(StoreKind::Postgres);
    [StoreKind::Memory, StoreKind::Sqlite]
        .into_iter()
        .chain(postgres)
        .collect()
}

/// Without a Python that has the package, this is left out, unless it was asked for.
async fn in_python(
    args: &BenchArgs,
    folder: &Path,
    store: &MeasuredStore,
    output: Output,
) -> CliResult<Vec<BenchFigure>> {
    let (pool, plans) = match pool(&args.python, folder).await {
        Ok(ready) => ready,
        Err(error) if args.names.is_empty() => {
            remark(output, &format!("python is left out: {error}"));
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let measured = Box::pin(lope_bench::python::measure(
        args.scale, &pool, &plans, store,
    ))
    .await;
    pool.close().await;
    Ok(measured?)
}

/// A pool that serves the action of the shapes, and the workflows of its module.
async fn pool(args: &PythonArgs, folder: &Path) -> CliResult<(Arc<Pool>, PythonPlans)> {
    let file = lope_bench::python::write_module(folder)?;
    let file = file.to_string_lossy();
    let module = Module::parse(&file)?;
    let plan = |name: &str| -> CliResult<Arc<Plan>> {
        let target = PythonWorkflow::parse(&format!("{file}:{name}"));
        let plans = args.definitions(&target.expect("it is a file and a name"))?;
        Ok(Arc::clone(&plans[0]))
    };
    let plans = PythonPlans {
        appends: plan("appends")?,
        straight: plan("straight")?,
    };
    let args = args.with_processes(lope_bench::python::PROCESSES);
    let (pool, _) = args
        .pool(
            &[module],
            false,
            &folder.join("logs"),
            InheritedEnvironment::default(),
        )
        .await?;
    Ok((pool, plans))
}

fn chosen(names: &[String]) -> CliResult<Vec<Benchmark>> {
    let known = || {
        BENCHMARKS
            .iter()
            .map(|benchmark| benchmark.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(unknown) = names
        .iter()
        .find(|name| BENCHMARKS.iter().all(|benchmark| benchmark.name != **name))
    {
        return Err(
            CliError::usage(format!("there is no benchmark '{unknown}'"))
                .hint(format!("there are: {}", known())),
        );
    }
    let wanted =
        |benchmark: &Benchmark| names.is_empty() || names.iter().any(|name| name == benchmark.name);
    Ok(BENCHMARKS.into_iter().filter(wanted).collect())
}

impl From<BenchError> for CliError {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Input(message) => Self::usage(message),
            BenchError::NoServer => {
                Self::usage(error.to_string()).hint("give --postgres postgres://USER@HOST/DATABASE")
            }
            BenchError::Broken(message) => Self::new(Exit::Bug, message),
            BenchError::Store(error) => error.into(),
            BenchError::Runner(error) => error.into(),
            BenchError::Start(error) => error.into(),
            BenchError::Mailbox(error) => error.into(),
            BenchError::Boot(error) => error.into(),
            BenchError::Consumer(error) => error.into(),
        }
    }
}
