//! `lope bench`: figures of this machine, one line each.

use std::path::Path;

use clap::Args;
use lope_engine::Settings as EngineSettings;
use serde_json::Value;

use crate::bench::figure::Figure;
use crate::bench::place::{Kind, Place, no_server};
use crate::bench::{footprint, idle, mailbox, python, raw, shapes, work};
use crate::commands::python::PythonArgs;
use crate::error::{CliError, CliResult, Exit};
use crate::home::Settings;
use crate::output::{Output, remark};

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// runs, steps, fan, loop, latency, mailbox, python, idle, footprint; none: all of them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Stores to measure on; may be given several times  [default: memory and sqlite, and postgres if one is named]
    #[arg(long = "on", value_enum, value_name = "STORE")]
    kinds: Vec<Kind>,
    /// A Postgres server; a schema is made there and dropped again
    #[arg(long, value_name = "URL", env = "LOPE_TEST_POSTGRES", hide_env_values = true)]
    postgres: Option<String>,
    /// How much work, in percent of the usual
    #[arg(long, default_value_t = 100, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    scale: u64,
    #[command(flatten)]
    python: PythonArgs,
}

struct Benchmark {
    name: &'static str,
    /// Does it make sense in memory?
    in_memory: bool,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "runs", in_memory: true },
    Benchmark { name: "steps", in_memory: true },
    Benchmark { name: "fan", in_memory: true },
    Benchmark { name: "loop", in_memory: true },
    Benchmark { name: "latency", in_memory: true },
    Benchmark { name: "mailbox", in_memory: true },
    Benchmark { name: "python", in_memory: true },
    Benchmark { name: "idle", in_memory: false },
    Benchmark { name: "footprint", in_memory: false },
];

pub(crate) async fn run(args: BenchArgs, settings: &Settings, output: Output) -> CliResult<Exit> {
    let chosen = chosen(&args.names)?;
    if kinds(&args).contains(&Kind::Postgres) && args.postgres.is_none() {
        return Err(no_server());
    }
    let folder = std::env::temp_dir().join(format!("lope-bench-{}", uuid::Uuid::now_v7().simple()));
    std::fs::create_dir(&folder).map_err(|error| CliError::usage(format!("{}: {error}", folder.display())))?;
    let done = all(&args, &chosen, (&settings.config.engine, &folder), output).await;
    let gone = std::fs::remove_dir_all(&folder);
    let figures = done?;
    gone.map_err(|error| CliError::usage(format!("{}: {error}", folder.display())))?;
    if output.json {
        output.document(&Value::Array(figures.iter().map(Figure::json).collect()), "");
    }
    Ok(Exit::Done)
}

async fn all(
    args: &BenchArgs,
    chosen: &[&Benchmark],
    (engine, folder): (&EngineSettings, &Path),
    output: Output,
) -> CliResult<Vec<Figure>> {
    if cfg!(debug_assertions) {
        remark(output, "this is a debug build: its figures mean nothing");
    }
    let mut figures = Vec::new();
    for benchmark in chosen {
        for kind in kinds(args).into_iter().filter(|kind| benchmark.in_memory || *kind != Kind::Memory) {
            let place = Place::make(kind, engine.clone(), folder, args.postgres.as_deref()).await?;
            let measured = match benchmark.name {
                "python" => in_python(args, folder, &place, output).await,
                name => one(name, args.scale, &place).await,
            };
            place.leave().await?;
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

fn kinds(args: &BenchArgs) -> Vec<Kind> {
    if !args.kinds.is_empty() {
        return args.kinds.clone();
    }
    let postgres = args.postgres.is_some().then_some(Kind::Postgres);
    [Kind::Memory, Kind::Sqlite].into_iter().chain(postgres).collect()
}

/// Without a Python that has the package, this is left out, unless it was asked for.
async fn in_python(args: &BenchArgs, folder: &Path, place: &Place, output: Output) -> CliResult<Vec<Figure>> {
    let pool = match python::pool(&args.python, folder).await {
        Ok(pool) => pool,
        Err(error) if args.names.is_empty() => {
            remark(output, &format!("python is left out: {error}"));
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let measured = python::measure(args.scale, &pool, place).await;
    pool.close().await;
    measured
}

async fn one(name: &str, scale: u64, place: &Place) -> CliResult<Vec<Figure>> {
    let scaled = |usual: u64| (usual * scale / 100).max(1);
    let plenty = if place.kind == Kind::Memory { 400_000 } else { 60_000 };
    let load = |bench, text, runs, each: u64| work::Load {
        bench,
        unit: if each == 1 { "runs" } else { "steps" },
        plan: shapes::plan(text),
        runs,
        input: i64::try_from(each).unwrap_or(i64::MAX),
        units: each,
    };
    Ok(match name {
        "runs" => {
            let figure = work::measure(load("runs", shapes::ONE, scaled(plenty), 1), place).await?;
            figure.beside(raw::one_step(scaled(plenty), place).await?)
        }
        "steps" => {
            let figure = work::measure(load("steps", shapes::SEQUENCE, 100, scaled(2_000)), place).await?;
            figure.beside(raw::sequences(100, scaled(2_000), place).await?)
        }
        "fan" => vec![work::measure(load("fan", shapes::FAN, 1, scaled(10_000)), place).await?],
        "loop" => {
            vec![work::long_loop(scaled(if place.kind == Kind::Memory { 1_000_000 } else { 100_000 }), place).await?]
        }
        "latency" => work::latency(scaled(500), place).await?.beside(raw::one_by_one(scaled(500), place).await?),
        "mailbox" => mailbox::mailbox(scale, place).await?,
        "idle" => vec![idle::idle(scaled(20), place).await?],
        _ => vec![footprint::footprint(place)?],
    })
}

fn chosen(names: &[String]) -> CliResult<Vec<&'static Benchmark>> {
    let known = || BENCHMARKS.iter().map(|benchmark| benchmark.name).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = names.iter().find(|name| BENCHMARKS.iter().all(|benchmark| benchmark.name != **name)) {
        return Err(
            CliError::usage(format!("there is no benchmark '{unknown}'")).hint(format!("there are: {}", known()))
        );
    }
    let wanted = |benchmark: &&Benchmark| names.is_empty() || names.iter().any(|name| name == benchmark.name);
    Ok(BENCHMARKS.iter().filter(wanted).collect())
}
